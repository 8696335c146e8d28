#pragma once
// The formulas on single tokens that sampling and verification are made of, for host and device alike.
// distribution.h, race.h and accept.h put them together on the host, kernels/cuda/draw.cu on a GPU.

#include <bit>
#include <cstdint>

#include "kernels/math/elementary.h"
#include "kernels/math/host_device.h"
#include "kernels/sampling_types.h"

namespace paceline::math {

/// Larger key = earlier in the order of tokens: the logit's bits made monotone, then the index inverted.
PACELINE_HD constexpr uint64_t order_key(float logit, int32_t index) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 and +0 tie
  const uint32_t monotone = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t{monotone} << 32 | uint32_t(~index);
}

PACELINE_HD constexpr int32_t key_index(uint64_t key) { return int32_t(~uint32_t(key)); }

/// Weights of logits relative to the largest one; below e^-80 they are 0: no noise value lets such a token win, and
/// subnormal results are slow.
template <class V>
PACELINE_MATH V weight_of(V logit, V max_logit, V inverse_temperature) {
  const V scaled = (logit - max_logit) * inverse_temperature;
  const V weight = exp_of(max_or_second(scaled, V(-80.0f)));
  return select_less(V(-80.0f), scaled, weight, V(0.0f));
}
PACELINE_MATH double weight_of(double logit, double max_logit, double inverse_temperature) {
  const double scaled = (logit - max_logit) * inverse_temperature;
  return scaled > -80.0 ? exp(scaled) : 0.0;
}

/// A weight in units of 2^-40: sums of masses have no order.
template <class Real>
PACELINE_MATH uint64_t mass_of(Real weight) {
  return uint64_t(weight * Real(1099511627776.0));
}
/// The same of a probability in units of 2^-62, for sums that may be small; and such a sum.
template <class Real>
PACELINE_MATH uint64_t fine_mass_of(Real prob) {
  return uint64_t(double(prob) * 0x1p62);
}
PACELINE_MATH double total_of(uint64_t fine_mass) { return double(fine_mass) * 0x1p-62; }
/// Of all mass of a row's weights.
PACELINE_MATH float share_of(uint64_t mass, uint64_t total) { return float(double(mass) / double(total)); }
/// What the nucleus must hold of all mass.
PACELINE_MATH uint64_t nucleus_mass(float top_p, uint64_t total) {
  const uint64_t need = uint64_t(double(top_p) * double(total));
  return need < 1 ? 1 : need > total ? total : need;
}

/// Probability of `id` under what a draft was drawn from. A draft that came without a distribution counts as certain:
/// it is kept with probability target_prob, and the residual is the target's distribution without it.
/// prob: dense: [cols]; ids at and beyond cols have 0.
template <class Real>
PACELINE_MATH Real draft_prob_of(DraftProbKind kind, int32_t draft, const Real* prob, int32_t cols, int32_t id) {
  if (kind != DraftProbKind::dense) return id == draft ? Real(1) : Real(0);
  return id >= 0 && id < cols ? prob[id] : Real(0);
}

/// The same where drafts that were drawn before from this distribution, and refused, have left `left` of it. That they
/// themselves cannot come again need not be said: but for rounding, the target has nothing left of a refused token.
template <class Real>
PACELINE_MATH Real sibling_prob(Real draft_prob, double left) {
  return left > 0.0 ? Real(double(draft_prob) / left) : Real(0);
}

/// Whether a draft is kept (Leviathan et al. 2023, algorithm 1). u in 64 bits: a 32-bit uniform can be 0 after rounding
/// and would accept anything.
template <class Real>
PACELINE_MATH bool accepts_draft(double u, Real target_prob, Real draft_prob) {
  return draft_prob > Real(0) && u * double(draft_prob) <= double(target_prob);
}

/// What the token in place of a refused draft is drawn from, not normalised.
template <class Real>
PACELINE_MATH Real residual_prob(Real target_prob, Real draft_prob) {
  return target_prob > draft_prob ? target_prob - draft_prob : Real(0);
}

/// Block verification (Sun et al. 2024, "Block verification accelerates speculative decoding", algorithm 2): what the
/// drafts up to one, together, are kept with at most; `before`: those up to the one before it, 1 for the first.
template <class Real>
PACELINE_MATH double block_prob(double before, Real target_prob, Real draft_prob) {
  if (!(draft_prob > Real(0))) return 0.0;
  const double prob = before * (double(target_prob) / double(draft_prob));
  return prob < 1.0 ? prob : 1.0;
}

/// What the token is drawn from that follows drafts with that block_prob, not normalised; draft_prob: of the draft that
/// was to follow them.
template <class Real>
PACELINE_MATH Real block_residual(double block_prob, Real target_prob, Real draft_prob) {
  return residual_prob(Real(block_prob * double(target_prob)), draft_prob);
}

/// Whether those drafts are kept, if more of them are not; left: the sum of block_residual over all tokens, or
/// block_prob where no draft follows.
PACELINE_MATH bool accepts_block(double u, double left, double block_prob) {
  return u * (left + (1.0 - block_prob)) <= left;
}

}  // namespace paceline::math
