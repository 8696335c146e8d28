#pragma once
// The most likely tokens of a row and how likely they are: for proposers that branch. The formulas of distribution.h on
// the host; kernels/cuda/draw.cu has the same bits, since masses are integers.

#include <algorithm>

#include "kernels/math/distribution.h"

namespace paceline::math {

/// token, prob: [k], as a row of TopKArgs.
inline void top_tokens(const float* logit, int32_t vocab_size, int32_t k, DistributionScratch<float>& scratch,
                       int32_t* token, float* prob) {
  std::fill_n(token, k, -1);
  std::fill_n(prob, k, 0.0f);
  const RowMax top = row_max(logit, vocab_size);
  if (top.id < 0) return;
  float* const weight = scratch.prob.ensure(size_t(vocab_size));
  detail::weights_of(logit, nullptr, vocab_size, top.value, 1.0f, weight);
  uint64_t total = 0;
  for (int32_t id = 0; id < vocab_size; ++id) total += mass_of(weight[id]);
  int32_t* const kept = scratch.id.ensure(size_t(vocab_size));
  const int32_t count = detail::keep_top_k(logit, vocab_size, std::min(k, vocab_size), scratch.key, kept);
  std::sort(kept, kept + count, [&](int32_t a, int32_t b) { return order_key(logit[a], a) > order_key(logit[b], b); });
  for (int32_t i = 0; i < count; ++i) token[i] = kept[i], prob[i] = share_of(mass_of(weight[kept[i]]), total);
}

}  // namespace paceline::math
