#pragma once
// The measuring half of the timing gate: two runexp binaries by turns, ABBA, each time as a process of its own. What is
// measured is judged by experiments/analysis/comparison/timing_gate.h. A binary may be an older one: of its results
// only cell.json is read, and what that lacks has no value.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/comparison/timing_gate.h"

namespace paceline {

struct BinaryCall {
  std::filesystem::path binary;
  std::vector<std::string> arguments;  // of `run`: the experiment file and what changes it
  std::filesystem::path scratch;       // an existing folder of the caller's; results and messages go below it and are
                                       // removed again
  double timeout_s = 600;              // then the process is ended and the call throws
  std::function<int()> interrupts;     // how often the user has asked to stop; may be empty
};

struct CellCost {
  std::string id;
  int num_ranks = 1;
  double wall_s = 0;            // over its repetitions
  std::optional<double> cpu_s;  // without wait loops; none: the binary does not say
  bool watched = false;         // the binary says what disturbed its repetitions
  bool noisy = false;           // noise_of() of these
  int threads_per_rank = 0;     // in effect; 0: the binary does not say
  std::string facts;            // output hash and counters of the first repetition
};

struct BinaryCost {
  std::vector<CellCost> cells;  // finished ones, in plan order
  double cpu_s = 0;             // of the whole process and its children, loading included
  double wall_s = 0;
};

/// Throws Error with the process's own exit code when that is not 0 (the message ends with the last line of its
/// stderr), Error(usage) when it cannot be started, Error(store) when it leaves no readable cell, Error(interrupted).
BinaryCost run_binary(const BinaryCall& call);

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
