#pragma once
// A cell's results by the category of its prompts: where speculation pays depends on the text.

#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/statistics.h"
#include "experiments/results/results.h"

namespace paceline {

struct CategorySummary {
  std::string category;
  int64_t num_requests = 0, output_tokens = 0;   // over all repetitions
  std::optional<double> mean_acceptance_length;  // as in CellSummary, of these requests
  std::optional<double> tokens_per_target_forward;
  std::optional<double> mean_tpot_ms;
  std::optional<RatioInterval> decode_speedup;  // mean TPOT of the baseline's requests of the category over the cell's
};

/// In the order of their names; empty where requests have fewer than two categories. `baseline` may be null: then there
/// is no decode_speedup.
std::vector<CategorySummary> summarize_categories(const CellResult& cell, const CellResult* baseline);

}  // namespace paceline
