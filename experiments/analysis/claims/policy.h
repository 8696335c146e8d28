#pragma once
// When a ratio of speeds shows something. A row of a table stands for itself, at 95 %. A sentence picks a few out of
// many: it says of a ratio only what holds when all that it could have picked are counted.

#include <optional>
#include <span>
#include <vector>

#include "experiments/analysis/statistics/statistics.h"

namespace paceline {

enum class Outcome {
  none,          // not done, or nothing to compare with
  baseline,      // is the baseline
  faster,        // the 95 % interval lies above 1
  slower,        // ... below 1
  inconclusive,  // it includes 1, or there is no interval (one repetition)
};
const char* to_string(Outcome outcome);

/// For a row: faster, slower or inconclusive.
Outcome outcome_of(const RatioInterval& ratio);

inline constexpr double kFalseClaims = 0.05;  // chance that a family of sentences claims anything false
inline constexpr double kLeastEffect = 0.02;  // a smaller change is none

/// Whether a sentence may say that `ratio` is not 1. `adjusted_p`: holm_adjusted() over its family; none: never.
bool is_shown(double ratio, std::optional<double> adjusted_p, double least_effect = kLeastEffect);

struct Judged {
  Outcome outcome = Outcome::inconclusive;
  std::optional<double> adjusted_p;
};
/// For sentences: [i] what is shown of `family`[i] among them all.
std::vector<Judged> judged_among(std::span<const RatioInterval> family);

}  // namespace paceline
