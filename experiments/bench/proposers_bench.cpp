// What a proposal costs the host, by the length of the text, or by the tokens of the answers that are kept. The engine
// asks once a step and sequence, so a proposal is to stay far below a step: lookup in 23,910 tokens within a
// millisecond, suffixes among a million tokens within 25 us and 256 bytes a token.
//
//   proposers_bench --benchmark_repetitions=5

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/math/philox.h"
#include "speculative/ngram_proposer.h"
#include "speculative/suffix_tree.h"

namespace paceline {
namespace {

/// Words of a small vocabulary in random order, so that short suffixes occur often; `fresh` last tokens occur nowhere
/// else.
std::vector<int32_t> text_of(int length, int fresh) {
  constexpr int kWords = 1000;
  std::vector<int32_t> tokens;
  for (int i = 0; i < length - fresh; ++i)
    tokens.push_back(int32_t(math::noise_words({.seed = 1}, uint32_t(i)).word[0] % kWords));
  for (int i = 0; i < fresh; ++i) tokens.push_back(kWords + i);
  return tokens;
}

void ngram(benchmark::State& state, int fresh) {
  const std::vector<int32_t> tokens = text_of(int(state.range(0)), fresh);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        ngram_continuation(tokens, 5, {.min_n = 1, .max_n = 4, .match = NgramMatch(state.range(1))}));
}

/// Answers that share passages: half of a text is copied from earlier ones, 20 tokens at a time, the rest are words of
/// a large vocabulary, few of them frequent.
class Answers {
 public:
  std::vector<int32_t> next() {
    constexpr size_t kLength = 400, kPassage = 20;
    const size_t begin = written_.size();
    while (written_.size() < begin + kLength) {
      const uint32_t word = draw();
      if (word % 40 == 0 && begin > kPassage) {
        const size_t from = draw() % (begin - kPassage);
        for (size_t i = 0; i < kPassage; ++i) written_.push_back(written_[from + i]);
      } else {
        written_.push_back(int32_t(50000.0 / (1.0 + double(word % 50000))));
      }
    }
    return {written_.begin() + std::ptrdiff_t(begin), written_.begin() + std::ptrdiff_t(begin + kLength)};
  }

 private:
  uint32_t draw() { return math::noise_words({.seed = 2}, drawn_++).word[0]; }
  std::vector<int32_t> written_;
  uint32_t drawn_ = 0;
};

void suffix(benchmark::State& state, bool branches) {
  Answers answers;
  SuffixTree tree(24);
  while (tree.num_tokens() < state.range(0)) {
    tree.begin_text();
    tree.append(answers.next());
  }
  const SuffixQuery query{.max_drafts = branches ? 16 : 5, .max_depth = 64, .branches = branches};
  std::vector<int32_t> text = answers.next();
  size_t length = 24;
  for (auto _ : state) {
    benchmark::DoNotOptimize(tree.draft(std::span(text).first(length), query, false));
    if (++length <= text.size()) continue;
    state.PauseTiming();
    text = answers.next();
    length = 24;
    state.ResumeTiming();
  }
  state.counters["bytes_a_token"] = double(tree.bytes()) / double(tree.num_tokens());
}

void all_lengths_and_policies(benchmark::internal::Benchmark* of) {
  for (const int length : {1000, 23910, 131072})
    for (const NgramMatch match :
         {NgramMatch::first, NgramMatch::last, NgramMatch::most_frequent, NgramMatch::full_continuation})
      of->Args({length, int(match)});
  of->ArgNames({"tokens", "match"})->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(ngram, matched, 0)->Apply(all_lengths_and_policies);
BENCHMARK_CAPTURE(ngram, unmatched, 4)->Apply(all_lengths_and_policies);
BENCHMARK_CAPTURE(suffix, chain, false)->Arg(10'000)->Arg(1'000'000)->ArgName("tokens")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(suffix, tree, true)->Arg(10'000)->Arg(1'000'000)->ArgName("tokens")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
