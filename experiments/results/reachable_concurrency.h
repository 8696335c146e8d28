#pragma once
// How many requests can be in flight at once: what a cell named c16 comes to.

#include <algorithm>
#include <cstdint>

namespace paceline {

/// What bounds the requests in flight.
struct ConcurrencyLimits {
  int64_t requests = 1;      // workload.requests
  int64_t concurrency = 0;   // load.concurrency of a closed loop; 0: every request may come at once
  int64_t max_num_seqs = 1;  // engine.scheduler.max_num_seqs; static batching: static_batch_size
};

/// Requests that a batch holds at most. Less than `concurrency`: the cell never has as many in flight as its name says.
constexpr int64_t reachable_concurrency(const ConcurrencyLimits& limits) {
  const int64_t in_engine = std::min(limits.requests, limits.max_num_seqs);
  return limits.concurrency > 0 ? std::min(limits.concurrency, in_engine) : in_engine;
}

}  // namespace paceline
