#pragma once
// One measured pass of a workload through a server.

#include <functional>
#include <span>
#include <string>

#include "experiments/config/config.h"
#include "experiments/config/server_url.h"
#include "experiments/results/results.h"
#include "experiments/ui/progress.h"
#include "experiments/workload/arrivals.h"
#include "experiments/workload/dataset.h"

namespace paceline {

struct ServedPass {
  ServerUrl url;
  std::string model, api_key;
  int repetition = 0;
  std::vector<Arrival> arrivals = {};  // open loop: when each prompt is sent; else empty
  std::function<void(const ProgressUpdate&)> on_progress = {};
  std::function<bool()> stop_now = {};
  std::function<double()> server_cpu_s = {};                     // of a server that is ours to watch; empty: it is not
  std::function<void(const std::string& line)> on_failure = {};  // told of every request that failed
};

/// Sends every prompt once and records the answers as run_repetition() records those of an engine; what only an engine
/// knows is empty. Throws Error(device) when a request failed: how many, and why the first one.
/// prefix_cache: for the record. Empty prompts: nothing is sent.
RepetitionResult served_repetition(const ExperimentConfig& cell, std::span<const Prompt> prompts,
                                   const ServedPass& pass, const std::string& prefix_cache);

}  // namespace paceline
