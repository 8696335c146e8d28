#pragma once
// Results within a cell: by the category of its prompts, as where speculation pays depends on the text; of each
// request; and along the output.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/statistics/statistics.h"
#include "experiments/results/results.h"

namespace paceline {

struct CategorySummary {
  std::string category;
  int64_t num_requests = 0, output_tokens = 0;
  std::optional<double> mean_acceptance_length, tokens_per_target_forward, mean_tpot_ms;
  std::optional<RatioInterval> decode_speedup;

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = CategorySummary;
    visit("category", &C::category, "of the prompts");
    visit("num_requests", &C::num_requests, "over all repetitions");
    visit("output_tokens", &C::output_tokens, "over all repetitions");
    visit("mean_acceptance_length", &C::mean_acceptance_length, "as of the cell, of these requests");
    visit("tokens_per_target_forward", &C::tokens_per_target_forward, "likewise");
    visit("mean_tpot_ms", &C::mean_tpot_ms, "");
    visit("decode_speedup", ratio_of_member(&C::decode_speedup),
          "mean TPOT of the baseline's requests of the category over the cell's");
    visit("decode_speedup_ci95", &C::decode_speedup,
          "holds that over repetitions and that over requests; null with one repetition or fewer than 5 requests");
  }
};

/// In the order of their names; empty where requests have fewer than two categories. `baseline` may be null: then there
/// is no decode_speedup. Its interval is for prompts of the category, not for these: the wider one of that over
/// repetitions and that over requests (bootstrap_ratio()), so none with fewer than five requests.
std::vector<CategorySummary> summarize_categories(const CellResult& cell, const CellResult* baseline);

/// 1 + accepted / verify steps with drafts. None without such a step.
std::optional<double> acceptance_length(int64_t accepted, int64_t drafts);

/// As CellSummary::mean_acceptance_length, of one request.
std::optional<double> acceptance_length(const RequestRecord& request);

/// Verify steps with drafts that began with [from, to) tokens of their request's output, over all requests.
struct OutputRange {
  int64_t from = 0, to = 0;
  int64_t drafts = 0, accepted = 0;

  std::optional<double> acceptance_length() const { return paceline::acceptance_length(accepted, drafts); }
};

/// The outputs of a repetition in at most `max_ranges` ranges of equal size, by rising position. Empty without outputs.
std::vector<OutputRange> acceptance_along_output(const RepetitionResult& repetition, int64_t max_ranges);

/// Measured over HTTP: why the server may have known prefixes of the prompts before some repetition; empty: it did not,
/// or the cell is of this process.
std::string warm_prefixes_text(const CellResult& cell);

}  // namespace paceline
