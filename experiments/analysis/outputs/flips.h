#pragma once
// Fast numerics: whether the noise of logits explains that a request's tokens part from those of another run
// (docs/numerics.md). Where two runs first differ, each of them preferred its token to the other's. If the logits of
// neither are further than `noise` from those computed here, the difference of the two tokens' logits lies within
// 2 * noise of 0.

#include <functional>
#include <span>
#include <vector>

#include "experiments/analysis/outputs/output_comparison.h"
#include "experiments/workload/requests.h"

namespace paceline {

/// Next-token logits after one prefix, [vocab_size] each.
struct TwoLogits {
  std::vector<float> many;  // by passes of many rows
  std::vector<float> few;   // by passes of fewer than kFewestFastRows: the bits of strict
};

/// A target that computes them. Whoever calls it has no engine at work on it.
class TargetLogits {
 public:
  virtual ~TargetLogits() = default;
  virtual int longest_prefix() const = 0;
  /// prefix: [1, longest_prefix()] tokens. Throws what the ranks throw.
  virtual TwoLogits compute(std::span<const int32_t> prefix) = 0;
};

/// A token that was drawn, and what the noise of the draw adds to its logit: nothing when greedy.
struct Contender {
  int32_t token = 0;
  double bonus = 0;
};

/// |difference| of the contenders, the larger of both ways.
double gap_between(const TwoLogits& logits, const Contender& a, const Contender& b);

/// Largest |difference| of a logit between both ways, of the kContenders largest ones and of the tokens `drawn`:
/// others, which are not chosen, may be so large below 0 that their rounding alone hides a fault. NaN where any logit
/// is NaN.
inline constexpr size_t kContenders = 64;
double noise_of(const TwoLogits& logits, std::span<const int32_t> drawn = {});

/// The largest of the checks; NaN where one is NaN, 0 without any.
double noise_of(std::span<const LogitCheck> checks);

/// What explains flips: noise_of(checks); 0 where it is more than this share of the largest logit somewhere, which is
/// no rounding.
inline constexpr double kMostNoise = 1.0 / 16;
double explaining_noise(std::span<const LogitCheck> checks);

/// flip: whose gap is known. noise: explaining_noise() of its cell's checks; 0 or NaN: nothing explains it.
bool explains(double noise, const LogitCheck& flip);

/// Of the flip `parting`; null where it was not computed.
const LogitCheck* find_check(const LogitEvidence& evidence, const Parting& parting);

/// Temperature * Gumbel, by which the drawing of `token` at absolute position `position` shifts its logit; 0 when
/// greedy. None under top-k, top-p or min-p: noise may move the edge of what they keep, which no gap tells.
std::optional<double> draw_bonus(const DrawParams& params, int position, int32_t token);

/// Computes logits at every position where a request of `cell` parts from `reference`, and at up to
/// kAgreeingPositions where they agree, from which noise is known.
inline constexpr size_t kAgreeingPositions = 16;
struct FlipWork {
  std::span<const EncodedPrompt> prompts;  // in the order in which they were submitted
  SamplingConfig sampling;                 // of the cell
  std::function<bool()> stop_now;          // true ends the work; what is done stays. May be empty
};
LogitEvidence check_flips(const CellResult& cell, const CellResult& reference, const FlipWork& work,
                          TargetLogits& logits);

}  // namespace paceline
