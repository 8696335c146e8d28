#pragma once
// What a server's /metrics (Prometheus' text format) states of its drafts, under vLLM's names.

#include <optional>
#include <string_view>

#include "experiments/client/openai_client.h"

namespace paceline {

/// Counters since the server began, over all its engines.
struct DraftCounters {
  int64_t drafts = 0, drafted = 0, accepted = 0;
  std::vector<int64_t> accepted_at;  // [position]; empty: not told
};

/// Nothing where one of the three counters is missing.
std::optional<DraftCounters> draft_counters(std::string_view metrics);

/// What lies between; nothing where a counter fell.
std::optional<SpeculationStats> stats_between(const DraftCounters& before, const DraftCounters& after);

}  // namespace paceline
