#pragma once
// Where the newest tokens of a text occur in a corpus that does not change.

#include <cstdint>
#include <span>
#include <vector>

namespace paceline {

/// Immutable; any thread.
class NgramCorpus {
 public:
  /// tokens: as TokenCorpus::tokens. max_n >= 1: longest suffix that will be asked for. Takes n log n for n tokens.
  NgramCorpus(std::vector<int32_t> tokens, int max_n);

  std::span<const int32_t> tokens() const { return tokens_; }

  /// Of an occurrence: the place in tokens() of the token behind it, which is there. For suffixes of `text` of 1, 2, …
  /// tokens, at most max_n, as long as they occur: all their occurrences, in no order that counts, but the same always.
  /// O(max_n · log n).
  std::vector<std::span<const int32_t>> find(std::span<const int32_t> text, int max_n) const;

 private:
  std::vector<int32_t> tokens_;
  const int max_n_;
  std::vector<int32_t> ends_;  // by the max_n tokens before each, the nearest first
};

}  // namespace paceline
