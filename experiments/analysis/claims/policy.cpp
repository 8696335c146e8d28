#include "experiments/analysis/claims/policy.h"

namespace paceline {

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::none: return "none";
    case Outcome::baseline: return "baseline";
    case Outcome::faster: return "faster";
    case Outcome::slower: return "slower";
    case Outcome::inconclusive: return "inconclusive";
  }
  return "none";
}

Outcome outcome_of(const RatioInterval& ratio) {
  if (ratio.low && *ratio.low > 1) return Outcome::faster;
  if (ratio.high && *ratio.high < 1) return Outcome::slower;
  return Outcome::inconclusive;
}

}  // namespace paceline
