#pragma once
// One measured pass of a workload through an engine.

#include <functional>
#include <span>

#include "experiments/results/results.h"
#include "experiments/run/engine_load.h"
#include "experiments/run/measure/measure_devices.h"
#include "experiments/ui/progress.h"
#include "experiments/workload/arrivals.h"
#include "experiments/workload/requests.h"

namespace paceline {

/// Whether RepetitionResult::lanes is filled.
enum class RankRecording : uint8_t { off, on };

struct RepetitionOptions {
  SamplingParams sampling;
  int concurrency = 1;            // closed loop: so many requests in the engine at any time; 0: all at once
  std::vector<Arrival> arrivals;  // open loop: when each prompt is sent, whatever the engine does; else empty
  RankRecording record_ranks = RankRecording::off;
  double timeout_s = 600;                                  // throws Error(device) when exceeded
  std::function<void(const ProgressUpdate&)> on_progress;  // ten times a second at most; may be empty
  std::function<bool()> stop_now;        // polled every step; true ends the pass with Error(interrupted)
  DraftRecord* record_drafts = nullptr;  // null: they are not recorded
  CounterRoots counters;                 // what tells how far other processes disturbed the pass
};

/// Runs every prompt to its end on a fresh engine of `cell` and records it. In an open loop times count from the moment
/// at which a request was to be sent. The engine takes requests between steps: one that comes during a step is sent
/// behind it, and that delay is in its record.
RepetitionResult run_repetition(EngineLoad& load, const ExperimentConfig& cell, std::span<const EncodedPrompt> prompts,
                                const RepetitionOptions& options);

}  // namespace paceline
