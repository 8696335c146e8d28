#pragma once
// Runs requests through an engine and compares every token with what plain decoding made of the same request.

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "speculative/selftest/engine_rig.h"

namespace paceline {

/// A request and its right answer.
struct CheckedRequest {
  std::vector<int32_t> prompt;
  SamplingParams params;
  std::vector<int32_t> expected;
  FinishReason expected_finish = FinishReason::length;
  uint64_t prompt_group = 0;  // Sequence::prompt_group
};

struct CheckOptions {
  /// Called before each step (numbered from 0) with the requests' ids in the order given: to change k, to cancel.
  std::function<void(Engine&, int step, std::span<const SeqId>)> before_step;
  const DraftProposer* draft = nullptr;        // its pool's invariants are checked too
  const std::set<SeqId>* cancelled = nullptr;  // requests that before_step has cancelled: compared as far as they came
};

struct RunReport {
  int64_t tokens = 0;      // compared
  int64_t mismatches = 0;  // positions that differ, missing and surplus tokens included
  std::string first_mismatch;
  std::string error;  // what ended the run early; empty: nothing did
  EngineCounters counters;
  int64_t prefix_hit_tokens = 0;
  bool leaked_blocks = false;

  bool clean() const { return mismatches == 0 && error.empty() && !leaked_blocks; }
  double accepted_share() const {
    return counters.drafted ? double(counters.accepted) / double(counters.drafted) : 0.0;
  }
  std::string describe() const;
  void add(const RunReport& other);
};

/// Submits all requests at once, steps until the engine is idle, checks the pools' invariants after each step and
/// the empty pool at the end. Never throws an Error.
RunReport run_checked(Engine& engine, const std::vector<CheckedRequest>& requests, const CheckOptions& options = {});

/// The right answers: one rank, batch 1, no cache, no speculation; each prompt is decoded once per sampler.
class ReferenceStore {
 public:
  /// Answers have at most max_tokens tokens. The rig must have one rank.
  ReferenceStore(EngineRig& rig, int max_tokens) : rig_(rig), max_tokens_(max_tokens) {}

  /// Fills expected and expected_finish; params.max_tokens is cut to the store's max_tokens.
  void answer(CheckedRequest& request);

  int64_t num_decoded() const { return num_decoded_; }

 private:
  struct Key {
    std::vector<int32_t> prompt;
    float temperature;
    uint64_t seed;
    auto operator<=>(const Key&) const = default;
  };
  EngineRig& rig_;
  const int max_tokens_;
  std::map<Key, std::vector<int32_t>> answers_;  // eos ignored: every stop condition cuts these
  int64_t num_decoded_ = 0;
};

/// Greedy, or temperature 0.8 with top-p 0.95 (rule coupled and rejection).
DrawParams sampler_for(VerifyRule rule, uint64_t seed);

/// KV blocks for `concurrency` sequences of the given requests, the largest ones, times `share`; always enough for
/// the largest alone. A share below 1 forces preemptions.
int blocks_for(const std::vector<CheckedRequest>& requests, int concurrency, int block_size, double share);

}  // namespace paceline
