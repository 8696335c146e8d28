#pragma once
// Claims in summary.json (results/README.md).

#include <optional>

#include <nlohmann/json.hpp>

#include "experiments/analysis/statistics/statistics.h"

namespace paceline {

class VerdictView;

/// All claims of a run, of whatever kind, as one list.
nlohmann::json claims_to_json(const VerdictView& view);

/// Null without a ratio; null without an interval, else [low, high].
nlohmann::json ratio_value(const std::optional<RatioInterval>& ratio);
nlohmann::json ratio_interval(const std::optional<RatioInterval>& ratio);

}  // namespace paceline
