#pragma once
// Runs a runexp binary once, as a process of its own, and reads what its cells cost. The binary may be an older one:
// of its results only cell.json is read, and what that lacks has no value.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace paceline
