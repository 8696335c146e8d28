#include "speculative/vocabulary_match.h"

#include <algorithm>

#include "kernels/error.h"
#include "kernels/fnv1a.h"

namespace paceline {

void check_vocabularies(const Tokenizer& target, const Tokenizer& draft, std::string_view key) {
  const int target_size = int(target.vocab_size());
  const int common = std::min(target_size, int(draft.vocab_size()));
  int num_equal = 0;
  std::string differing;
  int num_differing = 0;
  for (int32_t id = 0; id < common; ++id) {
    if (target.id_to_token(id) == draft.id_to_token(id)) {
      ++num_equal;
    } else if (num_differing++ < 3) {
      differing += fmt::format("{}id {}: target \"{}\", draft \"{}\"", differing.empty() ? "" : "; ", id,
                               target.id_to_token(id), draft.id_to_token(id));
    }
  }
  if (num_differing > 0) {
    fail(ExitCode::usage,
         "{}: its vocabulary differs from the target's ({}); {:.1f} % of the target's {} tokens have "
         "the same id in both; use a draft model trained with the target's tokenizer",
         key, differing, 100.0 * num_equal / target_size, target_size);
  }
}

VocabularyId vocabulary_id(const Tokenizer& tokenizer) {
  Fnv1a hash;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    const uint64_t size = bytes.size();
    hash.add(&size, sizeof size);
    hash.add(bytes.data(), bytes.size());
  }
  return {.digest = hash.value(), .size = tokenizer.vocab_size()};
}

}  // namespace paceline
