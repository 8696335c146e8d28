#include "speculative/ngram_corpus.h"

#include <algorithm>

#include "speculative/token_corpus.h"

namespace paceline {

NgramCorpus::NgramCorpus(std::vector<int32_t> tokens, int max_n) : tokens_(std::move(tokens)), max_n_(max_n) {
  for (size_t end = 1; end < tokens_.size(); ++end)
    if (tokens_[end] != TokenCorpus::kEnd && tokens_[end - 1] != TokenCorpus::kEnd) ends_.push_back(int32_t(end));
  std::sort(ends_.begin(), ends_.end(), [&](int32_t a, int32_t b) {
    for (int back = 1; back <= max_n_; ++back) {
      const int32_t of_a = back <= a ? tokens_[size_t(a - back)] : TokenCorpus::kEnd;
      const int32_t of_b = back <= b ? tokens_[size_t(b - back)] : TokenCorpus::kEnd;
      if (of_a != of_b) return of_a < of_b;
      if (of_a == TokenCorpus::kEnd) break;  // what lies before belongs to other texts
    }
    return a < b;
  });
}

std::vector<std::span<const int32_t>> NgramCorpus::find(std::span<const int32_t> text, int max_n) const {
  std::vector<std::span<const int32_t>> found;
  std::span<const int32_t> range = ends_;
  const int most = std::min({max_n, max_n_, int(text.size())});
  for (int n = 1; n <= most; ++n) {
    const int32_t token = text[text.size() - size_t(n)];
    const auto before = [&](int32_t end) { return n <= end ? tokens_[size_t(end - n)] : TokenCorpus::kEnd; };
    const auto begin = std::partition_point(range.begin(), range.end(), [&](int32_t e) { return before(e) < token; });
    const auto end = std::partition_point(begin, range.end(), [&](int32_t e) { return before(e) == token; });
    if (begin == end) break;
    range = {begin, end};
    found.push_back(range);
  }
  return found;
}

}  // namespace paceline
