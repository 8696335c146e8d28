#pragma once
// When a ratio of speeds shows something. A row of a table stands for itself, at 95 %.

#include "experiments/analysis/statistics.h"

namespace paceline {

enum class Outcome {
  none,          // not done, or nothing to compare with
  baseline,      // is the baseline
  faster,        // the 95 % interval lies above 1
  slower,        // ... below 1
  inconclusive,  // it includes 1, or there is no interval (one repetition)
};
const char* to_string(Outcome outcome);

/// faster, slower or inconclusive.
Outcome outcome_of(const RatioInterval& ratio);

}  // namespace paceline
