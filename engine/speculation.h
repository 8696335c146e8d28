#pragma once
// The two seams of speculation: who proposes, who decides. Implementations live in speculative/.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/draft_tree.h"
#include "engine/sequence.h"
#include "engine/token_logprobs.h"
#include "engine/transformer/model.h"

namespace paceline {

/// What drafts were drawn from. value, for `dense`: [rows, vocab_size] f32, rows as of AcceptRow::draft_prob; owned by
/// the proposer and valid until its next propose. Otherwise empty.
struct DraftProbs {
  DraftProbKind kind = DraftProbKind::point_mass;
  MatView value;
};

/// Drafts for a sequence that has `committed` verified tokens: a node of depth d is for position committed + d.
struct Proposal {
  int committed = 0;  // verified tokens it was made for; it is refused unless there are as many
  DraftTree draft;
  DraftProbs probs;
};

/// A sequence of whose known tokens only the last goes through the target's next step: one that decodes, and a prompt
/// of which one token is left.
struct DraftRequest {
  const Sequence* seq = nullptr;  // seq->key names the request in every run of its workload
  int max_drafts = 0;             // nodes, at most; 0 for a prompt, and where rows, pages or positions have run out
  int max_depth = 0;              // positions behind the verified text that they may reach; >= max_drafts for chains
  std::span<const int32_t> pages = {};  // of the target's KV, for the verified text and max_drafts positions behind it
};

/// What became of one sequence's rows of a step.
struct Verdict {
  std::vector<int32_t> path;            // accepted nodes, from the root on: 0, 1, … for a chain
  std::vector<int32_t> token;           // accepted drafts, then the corrected or bonus token, unless there is an error
  int num_drafts = 0;                   // drafts that were verified
  int depth = 0;                        // of the deepest, 1 for the children of the root; num_drafts for a chain
  bool numerical_error = false;         // of the row behind the accepted drafts
  std::vector<TokenLogprobs> logprobs;  // of each of `token`, where the row wants them
};

/// Of a cascade's stage: drafts of its own that were verified.
struct StageStats {
  std::string name;
  int64_t proposals = 0, drafted = 0, accepted = 0;
};

struct ProposerStats {
  int64_t catchup_tokens = 0;  // rows a caching proposer fed only to refresh its cache, prompts included
  std::vector<StageStats> stages = {};
};

/// Proposes drafts for sequences. One thread, the engine's, which first waits for a sequence's last verdict. Drafts
/// never change outputs, only speed.
class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual std::string_view name() const = 0;
  /// Whether its drafts may branch.
  virtual bool branches() const { return false; }

  /// Fills out[i] for requests[i] with max_drafts nodes or fewer, or none, where it has nothing to offer.
  virtual void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) = 0;

  /// These sequences' known tokens go through the target in the step about to be launched: a caching proposer feeds its
  /// own cache now, so that the time counts as prefill on both sides. Others need nothing.
  virtual void prefill(std::span<const Sequence* const> /*sequences*/) {}

  /// Whether its cache lies in the target's pages: a block is shared, swapped and given back with what it keeps there
  /// for the block's positions, which may depend on the token behind each.
  virtual bool uses_target_pages() const { return false; }

  /// `batch` has just been launched on the target, where what is posted now finds its taps: sequences[i] has the rows
  /// of batch->seqs[i].
  virtual void launched(const std::shared_ptr<const Batch>& /*batch*/, std::span<const Sequence* const> /*sequences*/) {
  }

  /// What became of the drafts of `seq`, whose tokens hold the outcome already. Of a step with which it ends
  /// observe_last() comes in place of it, then end().
  virtual void observe(const Sequence& /*seq*/, const Verdict& /*verdict*/) {}
  /// For counts: nothing follows the sequence any more.
  virtual void observe_last(const Sequence& /*seq*/, const Verdict& /*verdict*/) {}

  /// Of the oldest batch that was launched and not yet settled, all has been observed.
  virtual void settled() {}

  /// The target's KV moves between pages and host memory, before the batch about to be launched.
  virtual void swap_kv(std::span<const BlockSwap> /*swaps*/) {}

  /// The sequence is over, with all its tokens: nothing is asked of it again.
  virtual void end(const Sequence& seq) = 0;

  /// It has lost its KV pages and its slot, and comes back with the tokens that it has.
  virtual void preempt(SeqId seq) = 0;

  virtual ProposerStats stats() const { return {}; }
};

/// One sequence of a batch that wants a verdict.
struct VerifyRow {
  size_t batch_seq = 0;  // index in Batch::seqs
  int first_logit = 0;   // index in Batch::logit_row of its first logit row
  int known_rows = 1;    // rows of this sequence that held verified tokens
  int64_t request = 0;   // for messages
  DrawParams sampler;
  Proposal proposal;
  std::shared_ptr<const SamplingPlan> plan = nullptr;  // null: none. REQUIRES: the host knows the tokens before it
  LogprobParams logprobs = {};
};

/// Decides which drafts stay and which token follows; also advances the deciding rank's SeqState.
class Verifier {
 public:
  virtual ~Verifier() = default;
  virtual std::string_view rule_name() const = 0;
  /// False: it judges chains alone.
  virtual bool takes_branches() const { return true; }

  /// In stream order after the launch of `batch` on `target`.
  virtual Ticket launch(std::shared_ptr<const Batch> batch, Model& target, std::vector<VerifyRow> rows) = 0;

  /// Waits for the step and hands out its verdicts, one per VerifyRow. Steps are collected in launch order.
  virtual std::vector<Verdict> collect(Ticket ticket) = 0;

  /// Seconds that the host has spent on giving out the accept op and on reading its results, not on waiting for them.
  virtual double seconds() const = 0;
};

}  // namespace paceline
