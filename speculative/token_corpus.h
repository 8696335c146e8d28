#pragma once
// Texts as token ids in a file, for proposers that look things up. `runexp tokenize --corpus` writes one: a line that
// names the vocabulary, then a text a line, its ids apart by blanks.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

/// What token ids mean: equal for tokenizers whose ids stand for the same bytes.
struct VocabularyId {
  uint64_t digest = 0;
  int32_t size = 0;  // 0: unknown
  bool operator==(const VocabularyId&) const = default;
};

struct TokenCorpus {
  static constexpr int32_t kEnd = -1;  // behind each text

  VocabularyId vocabulary;
  std::vector<int32_t> tokens;  // of all texts, one after another
};

/// The first line of a corpus, with its end.
std::string corpus_header(const VocabularyId& vocabulary);

/// Throws Error(model_file), one line with file and line: no such file, no header, ids that are none of the
/// vocabulary's, no text at all, over 2^30 tokens.
TokenCorpus read_corpus(const std::filesystem::path& file);

/// Throws Error(model_file) where a corpus with another vocabulary than the target's would be drafted from; an unknown
/// one fits all.
void check_vocabulary(const std::filesystem::path& file, const TokenCorpus& corpus, const VocabularyId& target);

}  // namespace paceline
