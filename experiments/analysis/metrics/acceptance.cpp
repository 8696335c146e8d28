#include "experiments/analysis/metrics/acceptance.h"

#include <algorithm>

#include "kernels/error.h"

namespace paceline {

namespace {

std::optional<double> length_of(int64_t accepted, int64_t drafts) {
  if (drafts == 0) return std::nullopt;
  return 1 + static_cast<double>(accepted) / static_cast<double>(drafts);
}

}  // namespace

std::optional<double> acceptance_length(const RequestRecord& request) {
  int64_t drafts = 0, accepted = 0;
  for (size_t step = 0; step < std::min(request.drafted.size(), request.accepted.size()); ++step) {
    if (request.drafted[step] == 0) continue;
    ++drafts;
    accepted += request.accepted[step];
  }
  return length_of(accepted, drafts);
}

std::optional<double> OutputRange::acceptance_length() const { return length_of(accepted, drafts); }

std::vector<OutputRange> acceptance_along_output(const RepetitionResult& repetition, int64_t max_ranges) {
  PACELINE_CHECK(max_ranges > 0, "max_ranges {}", max_ranges);
  int64_t longest = 0;
  for (const RequestRecord& request : repetition.requests)
    longest = std::max(longest, static_cast<int64_t>(request.output.size()));
  const int64_t size = (longest + max_ranges - 1) / max_ranges;
  std::vector<OutputRange> ranges;
  for (int64_t from = 0; from < longest; from += size) ranges.push_back({.from = from, .to = from + size});
  for (const RequestRecord& request : repetition.requests) {
    int64_t position = 1;  // the pass that ended the prompt gave a token
    for (size_t step = 0; step < std::min(request.drafted.size(), request.accepted.size()); ++step) {
      const int64_t place = size > 0 ? position / size : 0;
      if (request.drafted[step] > 0 && place < static_cast<int64_t>(ranges.size())) {
        OutputRange& range = ranges[static_cast<size_t>(place)];
        ++range.drafts;
        range.accepted += request.accepted[step];
      }
      position += request.accepted[step] + 1;
    }
  }
  return ranges;
}

}  // namespace paceline
