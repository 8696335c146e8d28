#pragma once
// Acceptance within a cell: of each request, and along the output.

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/results/results.h"

namespace paceline {

/// As CellSummary::mean_acceptance_length, of one request: 1 + accepted / verify steps with drafts. None without such a
/// step.
std::optional<double> acceptance_length(const RequestRecord& request);

/// Verify steps with drafts that began with [from, to) tokens of their request's output, over all requests.
struct OutputRange {
  int64_t from = 0, to = 0;
  int64_t drafts = 0, accepted = 0;

  std::optional<double> acceptance_length() const;
};

/// The outputs of a repetition in at most `max_ranges` ranges of equal size, by rising position. Empty without outputs.
std::vector<OutputRange> acceptance_along_output(const RepetitionResult& repetition, int64_t max_ranges);

}  // namespace paceline
