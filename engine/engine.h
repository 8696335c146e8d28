#pragma once
// The step loop: schedule, propose, launch, verify, commit. Plain decoding is speculation with zero drafts.

#include <deque>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "engine/metrics.h"
#include "engine/request_limits.h"
#include "engine/scheduler.h"
#include "engine/speculation.h"

namespace paceline {

struct EngineOptions {
  SchedulerOptions scheduler;
  BlockPoolOptions pool;
  int num_speculative_tokens = 0;  // drafts asked for per step; 0: plain decoding
  int run_ahead = 0;               // steps launched before the previous one is collected (one stage only)
};

/// Tokens of one sequence that a step has made final; with numerical_error those before the row without a distribution.
struct Emitted {
  SeqId seq = 0;
  std::vector<int32_t> token;
  int num_drafted = 0;   // drafts verified in this step
  int depth = 0;         // levels that they have: num_drafted where they do not branch
  int num_accepted = 0;  // of those, kept
  FinishReason finish = FinishReason::none;
  std::vector<TokenLogprobs> logprobs = {};  // of each of `token`, where the request wants them
};

/// One engine over one target model. Not thread-safe: one thread submits, steps and cancels. An Error(comm) or
/// Error(device) from step() is final for the engine; errors of a request end that request only.
class Engine {
 public:
  /// `proposer` may be null (plain decoding). The model outlives the engine.
  Engine(const EngineOptions& options, Model& target, std::unique_ptr<Proposer> proposer,
         std::unique_ptr<Verifier> verifier);
  /// Collects every step in flight: their jobs use what goes with the engine.
  ~Engine();

  RequestLimits limits() const;
  const std::vector<int32_t>& eos_token_ids() const { return target_.spec().eos_token_ids; }

  /// Throws Error(usage) as RequestLimits::output_room, to which max_tokens is cut. key: Sequence::key.
  SeqId submit(std::vector<int32_t> prompt, const SamplingParams& params, int64_t key = 0, uint64_t prompt_group = 0);

  /// Launches what can be launched, collects the oldest step in flight and returns what it made final.
  std::vector<Emitted> step();

  /// Ends a sequence now; steps in flight may still compute dead rows for it. Unknown ids are ignored.
  void cancel(SeqId seq);

  bool idle() const { return scheduler_.idle() && in_flight_.empty(); }

  /// May change between steps; 0 switches speculation off.
  void set_num_speculative_tokens(int count) { num_speculative_tokens_ = count; }

  int num_running() const { return scheduler_.num_running(); }
  int num_waiting() const { return scheduler_.num_waiting(); }  // preempted ones among them

  const EngineCounters& counters() const { return counters_; }
  const PassTotalsByKind& passes() const { return passes_; }
  /// Of all passes.
  PhaseSeconds phases() const;
  int num_speculative_tokens() const { return proposer_ ? num_speculative_tokens_ : 0; }
  std::string_view proposer_name() const { return proposer_ ? proposer_->name() : "none"; }
  ProposerStats proposer_stats() const { return proposer_ ? proposer_->stats() : ProposerStats{}; }
  BlockPool& pool() { return pool_; }
  const SwapSpace& swap_space() const { return scheduler_.swap_space(); }
  const Verifier& verifier() const { return *verifier_; }

 private:
  struct StepInFlight {
    std::shared_ptr<const Batch> batch;
    Ticket ticket;
    PassKind kind = PassKind::decode;
    struct Row {
      SeqId seq = 0;
      int num_known = 0;
      int max_drafts = 0;
      int verdict = -1;  // index among the step's verdicts; -1: no logits wanted
    };
    std::vector<Row> rows;
  };

  bool launch_one();
  void propose(const ScheduledStep& step, std::vector<Proposal>& proposals);
  /// Throws Error(internal) with the proposer's name where a proposal cannot be verified.
  void check_proposal(const DraftRequest& request, const Proposal& proposal) const;
  std::vector<Emitted> collect_one();
  void settle(const StepInFlight& step, const StepInFlight::Row& row, const Verdict& verdict,
              std::vector<Emitted>& emitted);
  /// KV of accepted nodes to the positions of their depths, on every rank. seq: as it was before the verdict.
  void move_down(const Sequence& seq, std::span<const int32_t> path);
  void finish(Request& request, FinishReason reason);

  const EngineOptions options_;
  Model& target_;
  std::unique_ptr<Verifier> verifier_;  // outlives the proposer, which at its end may run jobs of steps
  std::unique_ptr<Proposer> proposer_;
  BlockPool pool_;
  EngineCounters counters_;
  Scheduler scheduler_;
  std::deque<StepInFlight> in_flight_;
  std::vector<SeqDecision> decisions_;  // to ride on the next message
  std::unordered_set<int32_t> eos_;
  PassTotalsByKind passes_;
  uint64_t next_step_ = 1;
  SeqId next_id_ = 1;
  int num_speculative_tokens_ = 0;
};

}  // namespace paceline
