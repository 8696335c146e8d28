#pragma once
// A ratio with its 95 % interval as text, the same in tables, tooltips, sentences and comparisons.

#include <optional>
#include <string>

#include "experiments/analysis/statistics/statistics.h"

namespace paceline {

/// An end of an interval with `digits` digits behind the point. One that is not 1 never reads as 1, since on which side
/// of 1 it lies is what the interval is read for: it has as many digits as tell it from 1, up to three more.
std::string bound_text(double bound, int digits = 2);

/// "0.97–1.05"; empty unless there are both ends.
std::string interval_range_text(const std::optional<double>& low, const std::optional<double>& high, int digits = 2);

/// "2.14× [2.09, 2.19]", "1.10× [1.003, 1.20]"; "2.14×" where there is no interval.
std::string interval_text(double ratio, const std::optional<double>& low, const std::optional<double>& high,
                          int digits = 2);
std::string interval_text(const RatioInterval& interval, int digits = 2);

}  // namespace paceline
