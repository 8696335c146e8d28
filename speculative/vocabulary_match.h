#pragma once
// May a draft model speak for a target? Decided by token -> id maps, never by sizes alone.

#include <string_view>

#include "engine/tokenizer/tokenizer.h"
#include "speculative/token_corpus.h"

namespace paceline {

enum class VocabularyMatch : uint8_t {
  equal,   // the same map
  padded,  // one map is a prefix of the other: the surplus ids are never drafted
};

struct VocabularyReport {
  VocabularyMatch match = VocabularyMatch::equal;
  int common_size = 0;  // ids below it mean the same token in both
};

/// Throws Error(usage) when an id below both sizes means different tokens: names the first such ids with both
/// texts, and the share of the target's tokens that the draft also has under the same id. `key`: where users named the
/// draft, e.g. "speculation.draft".
VocabularyReport compare_vocabularies(const Tokenizer& target, const Tokenizer& draft, std::string_view key);

/// What its ids mean.
VocabularyId vocabulary_id(const Tokenizer& tokenizer);

}  // namespace paceline
