#pragma once
// What the server counts itself, and what /metrics tells of it and of the engine. Names: docs/serving.md.

#include <array>
#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "engine/serve/prometheus.h"

namespace paceline {

/// Of the engine, read between two steps.
struct EngineSnapshot {
  EngineCounters counters;
  int num_running = 0;
  int num_waiting = 0;
  int num_blocks = 0;       // of the KV pool
  int num_free_blocks = 0;  // cached ones among them
  int block_size = 0;       // tokens
  int64_t prefix_hit_tokens = 0, prefix_query_tokens = 0;
  int num_speculative_tokens = 0;
};
EngineSnapshot snapshot_of(Engine& engine);

/// Of the HTTP server's thread. Seconds.
class ServerMetrics {
 public:
  ServerMetrics();

  void note_first_token(double since_arrival) { time_to_first_token_.observe(since_arrival); }
  void note_gap(double since_last_tokens) { inter_token_latency_.observe(since_last_tokens); }
  /// One choice has ended by itself.
  void note_end(double since_arrival, FinishReason reason);
  void note_request(int64_t prompt_tokens) { prompt_tokens_ += prompt_tokens; }
  void note_refusal() { ++num_refused_; }

  std::string text(const std::string& model, const EngineSnapshot& engine, int64_t num_connections) const;

 private:
  Histogram time_to_first_token_, inter_token_latency_, e2e_latency_;
  std::array<int64_t, 6> num_ended_{};  // [FinishReason]
  int64_t prompt_tokens_ = 0;
  int64_t num_refused_ = 0;  // answered by 503
};

}  // namespace paceline
