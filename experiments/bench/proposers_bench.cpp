// What a proposal costs the host, by the length of the text. The engine asks once a step and sequence, so a proposal is
// to stay far below a step: at 23,910 tokens within a millisecond.
//
//   proposers_bench --benchmark_repetitions=5

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/math/philox.h"
#include "speculative/ngram_proposer.h"

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

void all_lengths_and_policies(benchmark::internal::Benchmark* of) {
  for (const int length : {1000, 23910, 131072})
    for (const NgramMatch match :
         {NgramMatch::first, NgramMatch::last, NgramMatch::most_frequent, NgramMatch::full_continuation})
      of->Args({length, int(match)});
  of->ArgNames({"tokens", "match"})->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(ngram, matched, 0)->Apply(all_lengths_and_policies);
BENCHMARK_CAPTURE(ngram, unmatched, 4)->Apply(all_lengths_and_policies);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
