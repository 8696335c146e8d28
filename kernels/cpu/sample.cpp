#include "kernels/cpu/sample.h"

#include <algorithm>
#include <vector>

#include "kernels/math/top_tokens.h"
#include "kernels/math/verify.h"

namespace paceline {
namespace {

/// Below this many logits a fork and join costs more than it saves.
constexpr int64_t kMinLogitsToShare = 16384;

void write_dense(const math::Candidates<float>& from, float* prob, int32_t vocab_size) {
  if (!from.id && from.size == vocab_size) {
    std::copy_n(from.prob, vocab_size, prob);
    return;
  }
  std::fill_n(prob, vocab_size, 0.0f);
  for (int32_t i = 0; i < from.size; ++i) prob[from.id_at(i)] = from.prob[i];
}

}  // namespace

void cpu_sample(const SampleArgs& args, ThreadPool& pool) {
  std::vector<math::DistributionScratch<float>> scratch(size_t(pool.num_threads()));
  const bool want_probs = args.probs.data != nullptr;
  const auto sample_one = [&](int64_t r, int worker) {
    const SampleRow& row = args.rows[size_t(r)];
    const float* logit = args.logits.f32_row(row.logits_row);
    if (row.params.greedy() && !want_probs) {
      args.token[size_t(r)] = math::row_max(logit, args.vocab_size).id;
      return;
    }
    math::PhiloxChance chance;
    const math::SampledRow<float> sampled =
        math::sample_token({logit, args.vocab_size, row.params}, {row.params.seed, row.purpose, row.origin, row.offset},
                           scratch[size_t(worker)], chance);
    args.token[size_t(r)] = sampled.token;
    if (want_probs) write_dense(sampled.handed_on, args.probs.f32_row(args.probs_row(size_t(r))), args.vocab_size);
  };
  const int64_t num_rows = int64_t(args.rows.size());
  const int64_t min_rows = std::max<int64_t>(1, kMinLogitsToShare / std::max(args.vocab_size, 1));
  pool.parallel_ranges(num_rows, min_rows, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t r = begin; r < end; ++r) sample_one(r, worker);
  });
}

void cpu_top_k(const TopKArgs& args, ThreadPool& pool) {
  std::vector<math::DistributionScratch<float>> scratch(size_t(pool.num_threads()));
  const int64_t min_rows = std::max<int64_t>(1, kMinLogitsToShare / std::max(args.vocab_size, 1));
  pool.parallel_ranges(args.logits.rows, min_rows, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t r = begin; r < end; ++r) {
      int32_t* const token = args.token.data() + r * args.k;
      math::top_tokens(args.logits.f32_row(r), args.vocab_size, args.k, scratch[size_t(worker)], token,
                       args.prob.data() + r * args.k);
      for (int32_t i = 0; args.ids && i < args.k && token[i] >= 0; ++i) token[i] = args.ids[token[i]];
    }
  });
}

}  // namespace paceline
