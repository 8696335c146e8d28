#pragma once
// How long a sweep takes at least, before anything is loaded: what reading alone allows.
//
//   step = bytes of the target's weights, all ranks / read rate of the machine        one sequence or a batch alike
//   cell = passes · requests / min(concurrency, requests) · steps of a request · (step + k · draft step)
//
// A request of T tokens takes T steps without speculation, and between T / (k + 1) (every draft accepted) and T (none)
// with it. Prefill, KV, arithmetic and everything between steps come on top, so the true time lies above the low end.

#include <optional>

#include "experiments/config/config.h"

namespace paceline {

/// Bytes per second at which all usable cores read `bytes` of memory; a few milliseconds. `bytes` is capped at 64 MiB:
/// beyond the caches more changes nothing.
double quick_read_rate(size_t bytes);

struct SecondsRange {
  double low = 0, high = 0;
};

/// Of one cell with all its repetitions. target_bytes and draft_bytes: weights over all ranks; rate in bytes per
/// second.
SecondsRange forecast(const ExperimentConfig& config, double target_bytes, double draft_bytes, double rate);

}  // namespace paceline
