#include "experiments/analysis/claims/policy.h"

#include "experiments/analysis/statistics/significance.h"

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

bool is_shown(double ratio, std::optional<double> adjusted_p, double least_effect) {
  const double most = 1 + least_effect;
  return adjusted_p && *adjusted_p < kFalseClaims && (ratio >= most || ratio <= 1 / most);
}

std::vector<Judged> judged_among(std::span<const RatioInterval> family) {
  std::vector<double> p_values;
  for (const RatioInterval& ratio : family)
    if (ratio.p_value) p_values.push_back(*ratio.p_value);
  const std::vector<double> adjusted = holm_adjusted(p_values);
  std::vector<Judged> out(family.size());
  for (size_t i = 0, tested = 0; i < family.size(); ++i) {
    if (!family[i].p_value) continue;
    out[i].adjusted_p = adjusted[tested++];
    if (is_shown(family[i].ratio, out[i].adjusted_p))
      out[i].outcome = family[i].ratio > 1 ? Outcome::faster : Outcome::slower;
  }
  return out;
}

}  // namespace paceline
