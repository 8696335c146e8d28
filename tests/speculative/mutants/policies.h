#pragma once
// Classic ways to lose exactness, each the shipped policy with one member replaced: twelve of chains, six of drafts
// that stand behind the same row, five of blocks.

#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/math/accept.h"

namespace paceline::mutants {

using math::ShippedPolicy;

struct ResidualIsTarget : ShippedPolicy {  // 1
  template <class Real>
  static Real residual(Real target_prob, Real, bool) {
    return target_prob;
  }
};

struct ResidualOfOneHot : ShippedPolicy {  // 2
  template <class Real>
  static Real residual(Real target_prob, Real, bool is_draft) {
    return is_draft ? Real(0) : target_prob;
  }
};

struct ResidualReusesAcceptNoise : ShippedPolicy {  // 3
  static NoisePurpose residual_purpose() { return NoisePurpose::accept; }
};

struct DraftIsArgmax : ShippedPolicy {  // 4
  template <class Real, class Chance>
  static math::Drawn<Real> draw_draft(const math::LogitRow& row, const math::Candidates<Real>&, const math::NoiseKey&,
                                      Chance&) {
    static thread_local math::DistributionScratch<Real> scratch;
    math::LogitRow greedy = row;
    greedy.params.temperature = 0.0f;
    const math::Candidates<Real> one_hot = math::distribution<Real>(greedy, scratch);
    return {one_hot.id_at(0), one_hot};
  }
};

struct TemperatureOff : ShippedPolicy {  // 5
  static float target_temperature(float temperature) { return 0.95f * temperature; }
};

struct DraftFromBfloat16Logits : ShippedPolicy {  // 6
  template <class Real, class Chance>
  static math::Drawn<Real> draw_draft(const math::LogitRow& row, const math::Candidates<Real>&,
                                      const math::NoiseKey& key, Chance& chance) {
    static thread_local math::DistributionScratch<Real> scratch;
    static thread_local std::vector<float> logit;
    logit.assign(row.logit, row.logit + row.vocab_size);
    for (float& l : logit) {
      const uint32_t bits = std::bit_cast<uint32_t>(l);
      l = std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
    }
    math::LogitRow rounded = row;
    rounded.logit = logit.data();
    const math::Candidates<Real> from = math::distribution<Real>(rounded, scratch);
    return {math::draw_from(from, key, chance), from};
  }
};

struct BonusTemperatureOff : ShippedPolicy {  // 7
  static float bonus_temperature(float temperature) { return 0.8f * temperature; }
};

struct BonusFromPreviousRow : ShippedPolicy {  // 8
  static int32_t bonus_row(int32_t row) { return row - 1; }
};

struct ResidualOfNextDraftRow : ShippedPolicy {  // 9
  static int32_t residual_draft_row(int32_t prob_row, int32_t draft_len) {
    return prob_row + 1 < draft_len ? prob_row + 1 : prob_row;
  }
};

struct OneUniformPerStep : ShippedPolicy {  // 10
  static int32_t accept_offset(int32_t, int32_t) { return 0; }
};

struct RatioWithEpsilon : ShippedPolicy {  // 11
  template <class Real>
  static bool accepts(double u, Real target_prob, Real draft_prob) {
    return ShippedPolicy::accepts(u, target_prob, draft_prob + Real(1e-2));
  }
};

struct AcceptsEverything : ShippedPolicy {  // 12
  template <class Real>
  static bool accepts(double, Real, Real) {
    return true;
  }
};

struct SiblingsAsIfWithReplacement : ShippedPolicy {  // 13
  template <class Real>
  static Real sibling_prob(Real draft_prob, double) {
    return draft_prob;
  }
};

struct OnlyTheLastHasTaken : ShippedPolicy {  // 14: of the siblings before
  static uint64_t left_without(uint64_t all, uint64_t, uint64_t own) { return all - own; }
};

struct SiblingsAgainstTheTarget : ShippedPolicy {  // 15: not against what refusals left
  static bool refusals_leave_residual() { return false; }
};

struct ResidualNotNormalised : ShippedPolicy {  // 16
  static double residual_total(double) { return 1.0; }
};

struct OneUniformForSiblings : ShippedPolicy {  // 17
  static int32_t accept_offset(int32_t, int32_t row) { return row; }
};

struct DraftRowOfTheTarget : ShippedPolicy {  // 18: as if each draft had a distribution behind it
  static int32_t draft_row(int32_t, int32_t row) { return row; }
};

struct BlockOfOneRatio : ShippedPolicy {  // 19: what drafts before left unused is forgotten
  template <class Real>
  static double block_prob(double, Real target_prob, Real draft_prob) {
    return ShippedPolicy::block_prob(1.0, target_prob, draft_prob);
  }
};

struct BlockAboveOne : ShippedPolicy {  // 20: the product of ratios is not cut at 1
  template <class Real>
  static double block_prob(double before, Real target_prob, Real draft_prob) {
    return draft_prob > Real(0) ? before * double(target_prob) / double(draft_prob) : 0.0;
  }
};

struct BlockKeptByItsProb : ShippedPolicy {  // 21: at every draft as at the last one
  static bool accepts_block(double u, double, double block_prob) {
    return ShippedPolicy::accepts_block(u, block_prob, block_prob);
  }
};

struct BlockResidualOfOneToken : ShippedPolicy {  // 22: as rejection has it
  static double residual_block_prob(double) { return 1.0; }
};

struct BlockEndsAtARefusal : ShippedPolicy {  // 23: not at the last draft that is kept
  static bool refusal_ends_block() { return true; }
};

}  // namespace paceline::mutants
