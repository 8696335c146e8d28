#pragma once
// Closed loops: whether a cell had as many requests at once as its name says, and what its requests waited for.

#include <cstdint>
#include <optional>

#include "experiments/results/results.h"

namespace paceline {

/// What a request waits for before its first pass, besides the step under way.
enum class WaitsFor : uint8_t {
  nothing,
  place,   // more are in flight than the engine takes at once (max_num_seqs)
  batch,   // static batching: the end of the batch before
  blocks,  // at the fullest, the KV cache had no room for the longest prompt
  start,   // the prompts of those sent together at the start, which are half of all requests or more
};

inline constexpr int64_t kWavesOfSteadyLoad = 5;

struct ClosedLoop {
  int64_t asked = 0;      // load.concurrency
  int64_t in_flight = 0;  // submitted and not finished, at most: no more than there are requests
  int64_t in_batch = 0;   // of these, with a place in the engine (reachable_concurrency)
  WaitsFor waits_for = WaitsFor::nothing;

  int64_t requests = 0;  // of a repetition

  /// Below kWavesOfSteadyLoad requests a place, most of the time goes to filling the batch and to its end.
  bool is_one_wave() const { return asked > 1 && requests < kWavesOfSteadyLoad * asked; }
  bool is_reached() const { return in_batch >= asked; }
};

/// None: another load, or nothing was measured. Facts that a record lacks bound nothing.
std::optional<ClosedLoop> closed_loop_of(const CellResult& cell);

}  // namespace paceline
