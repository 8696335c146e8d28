#include "speculative/token_corpus.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "engine/util/user_file.h"

namespace paceline {
namespace {

constexpr std::string_view kHeader = "# token ids, vocabulary ";
constexpr size_t kMostTokens = size_t{1} << 30;
constexpr const char* kMadeBy = "`runexp tokenize --tokenizer MODEL --file TEXTS --corpus` writes one";

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// "16 hex digits, 8192 tokens".
bool read_header(std::string_view line, VocabularyId& out) {
  if (!line.starts_with(kHeader)) return false;
  line.remove_prefix(kHeader.size());
  const auto digest = std::from_chars(line.data(), line.data() + line.size(), out.digest, 16);
  if (digest.ec != std::errc() || digest.ptr != line.data() + 16) return false;
  line.remove_prefix(16);
  if (!line.starts_with(", ") || !line.ends_with(" tokens")) return false;
  line = line.substr(2, line.size() - 2 - 7);
  const auto size = std::from_chars(line.data(), line.data() + line.size(), out.size);
  return size.ec == std::errc() && size.ptr == line.data() + line.size() && out.size > 0;
}

}  // namespace

std::string corpus_header(const VocabularyId& vocabulary) {
  return fmt::format("{}{:016x}, {} tokens\n", kHeader, vocabulary.digest, vocabulary.size);
}

TokenCorpus read_corpus(const std::filesystem::path& file) {
  const std::string bytes = read_user_file(file, {.code = ExitCode::model_file, .max_bytes = size_t{16} << 30});
  std::string_view left = bytes;
  TokenCorpus corpus;
  if (!read_header(next_line(left), corpus.vocabulary))
    fail(ExitCode::model_file, "{}:1: no corpus of tokens: expected \"{}…\"; {}", file.string(), kHeader, kMadeBy);
  for (int64_t number = 2; !left.empty(); ++number) {
    const std::string_view line = next_line(left);
    const char* at = line.data();
    const char* const end = at + line.size();
    const size_t before = corpus.tokens.size();
    while (at != end) {
      if (*at == ' ') {
        ++at;
        continue;
      }
      int32_t token = -1;
      const auto [stop, error] = std::from_chars(at, end, token);
      const bool is_whole = error == std::errc() && (stop == end || *stop == ' ');
      if (!is_whole || token < 0 || token >= corpus.vocabulary.size)
        fail(ExitCode::model_file, "{}:{}:{}: expected the id of a token, 0 to {}", file.string(), number,
             at - line.data() + 1, corpus.vocabulary.size - 1);
      corpus.tokens.push_back(token);
      at = stop;
    }
    if (corpus.tokens.size() > before) corpus.tokens.push_back(TokenCorpus::kEnd);
    if (corpus.tokens.size() > kMostTokens)
      fail(ExitCode::model_file, "{}:{}: over {} tokens", file.string(), number, kMostTokens);
  }
  if (corpus.tokens.empty()) fail(ExitCode::model_file, "{}: a corpus without a text; {}", file.string(), kMadeBy);
  return corpus;
}

void check_vocabulary(const std::filesystem::path& file, const TokenCorpus& corpus, const VocabularyId& target) {
  if (target.size == 0 || corpus.vocabulary == target) return;
  fail(ExitCode::model_file,
       "{}:1: a corpus of another tokenizer: its vocabulary is {:016x}, {} tokens, the target's {:016x}, {} tokens; "
       "`runexp tokenize --tokenizer MODEL --file TEXTS --corpus` with the target writes a fitting one",
       file.string(), corpus.vocabulary.digest, corpus.vocabulary.size, target.digest, target.size);
}

}  // namespace paceline
