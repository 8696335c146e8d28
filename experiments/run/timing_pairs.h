#pragma once
// The measuring half of the timing gate: two binaries by turns, ABBA. What is measured is judged by
// experiments/analysis/comparison/timing_gate.h.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/analysis/comparison/timing_gate.h"

namespace paceline {

struct PairPlan {
  std::filesystem::path baseline_bin, now_bin;
  std::vector<std::string> arguments;  // of `run`, the same for both
  int pairs = kTimingPairs;
  double timeout_s = 600;                      // of one process
  std::function<int()> interrupts;             // may be empty
  std::function<void(int done)> on_pair_done;  // may be empty
};

struct PairTimes {
  std::vector<TimedCell> cells;  // [cells that both binaries finished]; those of one rank are judged
  bool whole_process = false;    // a binary does not say what its cells cost: one cell "process", whose CPU time holds
                                 // loading and wait loops too
};

/// One run of each that is not counted (caches, page faults), then plan.pairs pairs: baseline first in even ones, last
/// in odd ones. Where both binaries say what disturbed them, a pair with a noisy run (noise.h) is kept apart. Where one
/// does not say, none is: leaving out by the other alone would favour one side. Scratch files lie in a folder of the
/// system's for temporary files and are removed. Throws what run_binary() throws, and Error(usage) when fewer pairs are
/// asked for than could ever fail a cell.
PairTimes time_pairs(const PairPlan& plan);

}  // namespace paceline
