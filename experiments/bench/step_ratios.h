#pragma once
// The steps of a model beside their floors: several numbers of rows of one sequence, several sequences, long contexts
// and prefill, against what the device reads and multiplies in the same process.

#include "experiments/config/config.h"
#include "experiments/run/engine_load.h"
#include "kernels/error.h"

namespace paceline {

inline constexpr int kMostStepSeqs = 64;   // of one step
inline constexpr int kMostStepDrafts = 5;  // behind a token of each of so many sequences, with logits for all
inline constexpr int kMostStepPrefillTokens = 2048;

/// Times the steps for which `load` has room, a line each, and a line on all of them. One rank, on cuda:0 or a CPU.
/// Environment: PACELINE_BENCH_STEPS: a file of committed ratios (experiments/analysis/step_gate.h) that these are
/// compared with. PACELINE_BENCH_WRITE_STEPS: a file that gets these. Returns timing where a step is slower than
/// committed, else ok. Throws Error(device | usage | store).
ExitCode time_steps(EngineLoad& load, const ExperimentConfig& config, int rounds);

}  // namespace paceline
