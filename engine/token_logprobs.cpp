#include "engine/token_logprobs.h"

#include <algorithm>

#include "kernels/error.h"
#include "kernels/math/distribution.h"

namespace paceline {

TokenLogprobs logprobs_of(const float* logit, int32_t vocab_size, int32_t token, int num_top) {
  const math::RowMax largest = math::row_max(logit, vocab_size);
  PACELINE_CHECK(largest.id >= 0 && token >= 0 && token < vocab_size, "logprobs of token {} in a row of {}", token,
                 vocab_size);
  math::DistributionScratch<float> scratch;
  float* const weight = scratch.prob.ensure(size_t(vocab_size));
  math::detail::weights_of(logit, nullptr, vocab_size, largest.value, 1.0f, weight);
  uint64_t total = 0;  // in integers: the sum has no order
  for (int32_t id = 0; id < vocab_size; ++id) total += math::mass_of(weight[id]);
  const double log_total = math::log(double(total) * 0x1p-40);
  const auto logprob = [&](int32_t id) { return float(double(logit[id]) - double(largest.value) - log_total); };
  TokenLogprobs made{.logprob = logprob(token), .top = {}};
  if (num_top == 0) return made;
  int32_t* const kept = scratch.id.ensure(size_t(vocab_size));
  const int32_t count = math::detail::keep_top_k(logit, vocab_size, std::min(num_top, vocab_size), scratch.key, kept);
  std::sort(kept, kept + count,
            [&](int32_t a, int32_t b) { return math::order_key(logit[a], a) > math::order_key(logit[b], b); });
  for (int32_t i = 0; i < count; ++i) made.top.push_back({kept[i], logprob(kept[i])});
  return made;
}

}  // namespace paceline
