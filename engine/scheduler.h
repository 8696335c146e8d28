#pragma once
// Which rows go into the next step: a token budget, chunked prefill, preemption by swap to host memory as far as that
// has room, else by recompute.
//
// Drafts take nothing from anybody:
// - Rows go, each turn in order of arrival, to: the one row of every decoding sequence; what sequences with output must
//   compute again after a preemption; drafts; prompts. So drafts delay prompts alone, and a long prompt ends nobody's
//   speculation. Where max_num_batched_tokens is less than what all decoding sequences may draft, prompts wait for some
//   of them to end.
// - Pages go to all known rows first, to new prompts too, and to drafts as far as some are free. Pages that drafts
//   alone have held go back before the next step is made. Where those of a step in flight would do, a sequence in need
//   waits for it and nobody is preempted.
// So where every draft is refused, known rows and preemptions of decoding sequences are those of a run without drafts.
//
// Of a prompt group one sequence computes the prompt; the others wait for it, overtaken by whoever comes behind them,
// and share its full blocks. Those of a static batch do not wait.

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "engine/cache/swap_space.h"
#include "engine/sequence.h"
#include "kernels/op_args.h"

namespace paceline {

enum class Batching : uint8_t {
  continuous,
  static_padded,  // the classic baseline: a fixed batch runs until all of it has ended, shorter rows are padding
};

struct SchedulerOptions {
  int max_num_seqs = 8;
  int max_num_batched_tokens = 512;
  int max_model_len = 1024;
  Batching batching = Batching::continuous;
  int num_micro_batches = 1;  // pipeline stages: sequences are spread over so many batches in flight
  int max_steps_per_seq = 1;  // steps of one sequence in flight: 1 + run_ahead without pipeline stages
  int num_host_blocks = 0;    // that take the KV of preempted sequences
};

/// A sequence inside the scheduler, with what is known about its steps in flight.
struct Request {
  Sequence seq;
  int launched = 0;         // KV length once the known rows in flight are done
  int num_in_flight = 0;    // steps in flight that hold rows of it
  int num_undecided = 0;    // of those, steps whose verdict is not known yet
  int undecided_rows = 0;   // most tokens those may emit
  int reserved = 0;         // positions that its pages were made for, drafts aside
  uint64_t last_step = 0;   // last step that may write its blocks
  bool needs_reset = true;  // its SeqState slot has not been set up
  uint64_t paths = 0;       // SeqCommit::paths

  bool deferred() const { return num_undecided > 0; }
  int max_length() const { return seq.length() + undecided_rows; }  // verified tokens at most, once in-flight steps end
};

struct ScheduledRows {
  Request* request = nullptr;
  int num_known = 0;   // rows with known tokens: prompt rows, recomputed rows or the last token
  int max_drafts = 0;  // pages are reserved for so many drafts
  int max_depth = 0;   // and a path of them may be so long
  bool deferred = false;
  bool wants_logits = true;
};

/// Of a chain every draft is one position more; a tree may have more drafts than positions.
enum class DraftShape : uint8_t { chain, tree };

struct ScheduledStep {
  std::vector<BlockSwap> swaps;  // before the rows, in this order; none without rows
  std::vector<ScheduledRows> rows;
  int num_padding_rows = 0;  // static batching only: computed, thrown away
};

class Scheduler {
 public:
  /// on_preempt: called with a request that has just lost its blocks and its slot.
  Scheduler(const SchedulerOptions& options, BlockPool& pool, std::function<void(const Request&)> on_preempt);

  void add(std::unique_ptr<Request> request);

  /// Rows for one step; empty when nothing can run now. `num_drafts`: drafts wanted per decoding sequence;
  /// `may_defer`: sequences with an undecided step may be scheduled. REQUIRES: not both.
  ScheduledStep next(int num_drafts, bool may_defer, DraftShape shape = DraftShape::chain);

  enum class PromptAfter : uint8_t { is_handed_on, ends };

  /// Takes an ended request out of the running set; its blocks go back when `last_step` retires. Handed on: those of
  /// its prompt group that still wait for its prompt begin with it, as far as there is room.
  void finish(SeqId id, PromptAfter after = PromptAfter::is_handed_on);

  Request* find(SeqId id);
  int num_waiting() const { return int(waiting_.size()); }
  int num_running() const { return int(running_.size()); }
  bool idle() const { return waiting_.empty() && running_.empty(); }
  const SchedulerOptions& options() const { return options_; }
  const SwapSpace& swap_space() const { return swap_space_; }

 private:
  /// Who gets rows first.
  enum class Turn : uint8_t { decode, recompute, prompt };

  bool may_run(const Request& request, bool may_defer) const;
  /// Rows that have known tokens and no step yet.
  static int num_known(const Request& request);
  static Turn turn_of(const Request& request);
  /// Adds known rows of sequences whose turn it is, `budget` at most; takes them off it.
  void add_known_rows(ScheduledStep& step, Turn turn, int& budget, size_t max_seqs, bool may_defer);
  void add_known_rows_of(ScheduledStep& step, size_t position, int& budget);
  /// Drafts of the step's decoding sequences that `budget` and the free pages hold; returns their number. Takes no
  /// page.
  int wish_drafts(ScheduledStep& step, int num_drafts, DraftShape shape, int budget) const;
  /// Pages for them; fewer drafts where prompts have taken what was free.
  void reserve_drafts(ScheduledStep& step);
  /// Positions that the pages of a sequence must hold without its drafts.
  int len_without_drafts(const Request& request) const;
  void give_back_draft_pages();
  /// True where pages that drafts in flight hold would make `len` positions for `request`.
  bool drafts_in_flight_suffice(const Request& request, int len) const;
  bool reserve_or_preempt(Request& request, int len, size_t position);
  bool preempt_one(const Request& keep, size_t position);
  bool admit();
  /// False: there are not enough free blocks. REQUIRES: a free slot.
  bool begin(std::deque<std::unique_ptr<Request>>::iterator next, const Request* leader);
  /// The running sequence of the request's prompt group whose prompt is computed as far as others can share it, or, if
  /// there is none, is being computed; null without one.
  const Request* leader_of(const Request& request) const;
  /// Tokens in the full blocks of its prompt that another sequence can share: at least one is left to compute.
  int shared_len(const Request& request) const;
  bool has_prompt_of(const Request* leader, const Request& request) const;
  bool waits_for(const Request& request, const Request* leader) const;
  void hand_on_prompt_of(const Request& ending);
  void swap_out(const Request& victim);
  void swap_in(Request& request);
  void add_padding(ScheduledStep& step) const;

  const SchedulerOptions options_;
  BlockPool& pool_;
  const std::function<void(const Request&)> on_preempt_;
  SwapSpace swap_space_;
  std::vector<BlockSwap> swaps_;  // since the last step that had rows
  std::deque<std::unique_ptr<Request>> waiting_;
  std::vector<std::unique_ptr<Request>> running_;  // in order of arrival
  std::vector<int32_t> free_slots_;
  int static_size_ = 0;     // static batching: sequences of the batch now running
  int static_longest_ = 0;  // and its longest prompt
};

}  // namespace paceline
