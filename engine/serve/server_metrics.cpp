#include "engine/serve/server_metrics.h"

#include <utility>
#include <vector>

namespace paceline {
namespace {

constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                        0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80};
constexpr double kGapBounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                 0.15,   0.2,   0.3,    0.4,   0.5,  0.75,  1,    2.5,   5};
constexpr double kRequestBounds[] = {0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240};

constexpr MetricName kRunning = {"paceline_requests_running", "vllm:num_requests_running", "Sequences in the batch."};
constexpr MetricName kWaiting = {"paceline_requests_waiting", "vllm:num_requests_waiting",
                                 "Sequences that wait for a place in the batch."};
constexpr MetricName kKvUsage = {"paceline_kv_cache_usage_ratio", "vllm:kv_cache_usage_perc",
                                 "KV blocks in use, as a share of all (1: full)."};
constexpr MetricName kKvTokens = {"paceline_kv_cache_tokens", nullptr, "Tokens that all KV blocks hold."};
constexpr MetricName kPromptTokens = {"paceline_prompt_tokens_total", "vllm:prompt_tokens_total",
                                      "Prompt tokens of requests that were taken."};
constexpr MetricName kOutputTokens = {"paceline_generation_tokens_total", "vllm:generation_tokens_total",
                                      "Output tokens."};
constexpr MetricName kPreemptions = {"paceline_preemptions_total", "vllm:num_preemptions_total", "Preemptions."};
constexpr MetricName kPrefixHits = {"paceline_prefix_cache_hit_tokens_total", "vllm:prefix_cache_hits_total",
                                    "Prompt tokens found in the prefix cache."};
constexpr MetricName kPrefixQueries = {"paceline_prefix_cache_query_tokens_total", "vllm:prefix_cache_queries_total",
                                       "Prompt tokens looked for in the prefix cache."};
constexpr MetricName kSteps = {"paceline_steps_total", nullptr, "Passes of the target."};
constexpr MetricName kDrafts = {"paceline_spec_decode_drafts_total", "vllm:spec_decode_num_drafts_total",
                                "Verifications of a sequence with at least one draft token."};
constexpr MetricName kDraftTokens = {"paceline_spec_decode_draft_tokens_total",
                                     "vllm:spec_decode_num_draft_tokens_total", "Draft tokens verified."};
constexpr MetricName kAccepted = {"paceline_spec_decode_accepted_tokens_total",
                                  "vllm:spec_decode_num_accepted_tokens_total", "Draft tokens accepted."};
constexpr MetricName kAcceptedAt = {"paceline_spec_decode_accepted_tokens_per_position_total",
                                    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
                                    "Draft tokens accepted, by position."};
constexpr MetricName kFirstToken = {"paceline_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
                                    "From a request's arrival to its first token."};
constexpr MetricName kGap = {"paceline_inter_token_latency_seconds", "vllm:inter_token_latency_seconds",
                             "Between two emissions of a sequence."};
constexpr MetricName kLatency = {"paceline_e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds",
                                 "From a request's arrival to the end of a sequence."};
constexpr MetricName kEnded = {"paceline_requests_ended_total", nullptr, "Sequences that ended, by reason."};
constexpr MetricName kSuccess = {"paceline_requests_finished_total", "vllm:request_success_total",
                                 "Sequences that ended by themselves, by reason."};
constexpr MetricName kRefused = {"paceline_requests_refused_total", nullptr, "Requests answered by 503."};
constexpr MetricName kConnections = {"paceline_connections", nullptr, "Open connections."};

}  // namespace

EngineSnapshot snapshot_of(Engine& engine) {
  return {.counters = engine.counters(),
          .num_running = engine.num_running(),
          .num_waiting = engine.num_waiting(),
          .num_blocks = engine.pool().num_blocks(),
          .num_free_blocks = engine.pool().num_free(),
          .block_size = engine.pool().block_size(),
          .prefix_hit_tokens = engine.pool().prefix_hit_tokens(),
          .prefix_query_tokens = engine.pool().prefix_query_tokens(),
          .num_speculative_tokens = engine.num_speculative_tokens()};
}

ServerMetrics::ServerMetrics()
    : time_to_first_token_(kFirstTokenBounds), inter_token_latency_(kGapBounds), e2e_latency_(kRequestBounds) {}

void ServerMetrics::note_end(double since_arrival, FinishReason reason) {
  ++num_ended_[size_t(reason)];
  e2e_latency_.observe(since_arrival);
}

std::string ServerMetrics::text(const std::string& model, const EngineSnapshot& engine, int64_t num_connections) const {
  PrometheusText out(model);
  out.gauge(kRunning, engine.num_running);
  out.gauge(kWaiting, engine.num_waiting);
  out.gauge(kKvUsage, engine.num_blocks > 0 ? 1 - double(engine.num_free_blocks) / engine.num_blocks : 0);
  out.gauge(kKvTokens, double(engine.num_blocks) * engine.block_size);
  out.counter(kPromptTokens, double(prompt_tokens_));
  out.counter(kOutputTokens, double(engine.counters.emitted));
  out.counter(kPreemptions, double(engine.counters.preemptions));
  out.counter(kPrefixHits, double(engine.prefix_hit_tokens));
  out.counter(kPrefixQueries, double(engine.prefix_query_tokens));
  out.counter(kSteps, double(engine.counters.steps));
  if (engine.num_speculative_tokens > 0) {
    out.counter(kDrafts, double(engine.counters.drafts));
    out.counter(kDraftTokens, double(engine.counters.drafted));
    out.counter(kAccepted, double(engine.counters.accepted));
    std::vector<std::pair<std::string, double>> by_position;
    for (int i = 0; i < engine.num_speculative_tokens; ++i)
      by_position.emplace_back(fmt::format("{}", i), double(engine.counters.accepted_at[size_t(i)]));
    out.counters(kAcceptedAt, "position", by_position);
  }
  out.histogram(kFirstToken, time_to_first_token_);
  out.histogram(kGap, inter_token_latency_);
  out.histogram(kLatency, e2e_latency_);
  std::vector<std::pair<std::string, double>> ended, success;
  for (const FinishReason reason : {FinishReason::stop, FinishReason::length, FinishReason::cancelled,
                                    FinishReason::numerical_error, FinishReason::failed}) {
    ended.emplace_back(finish_reason_name(reason), double(num_ended_[size_t(reason)]));
    if (reason == FinishReason::stop || reason == FinishReason::length) success.push_back(ended.back());
  }
  out.counters(kEnded, "reason", ended);
  out.counters(kSuccess, "finished_reason", success);
  out.counter(kRefused, double(num_refused_));
  out.gauge(kConnections, double(num_connections));
  return out.text();
}

}  // namespace paceline
