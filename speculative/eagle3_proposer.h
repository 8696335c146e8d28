#pragma once
// An EAGLE-3 head drafts chains and trees (Li et al. 2025): one layer that continues the target's own states. Its KV
// lies in the target's pages, that of a tree's nodes behind each other from the place of the first draft on, if need be
// in pages of its own.
//
// A row of the head is a position whose feature is known (its target row has been computed) and the token behind it. So
// the rows of a prompt go through the head behind the target's pass, the last one and those of kept drafts once the
// verdict has named the tokens behind them: each once, with the target's true states. The last of them gives the first
// draft; each further one goes through the head with what the head left in place of a feature, and is written over by
// the next verdict.
//
// Behind other stages of a cascade, which may draft in its place, rows wait with their features kept: one pass takes
// them all when the sequence is drafted for, loses its pages, has as many as there is room for, or fills a block that
// others may share from then on.

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/speculation.h"
#include "speculative/eagle3_model.h"

namespace paceline {

/// Branches where width > 1: as GrowthLimits, of num_speculative_tokens nodes (Li et al. 2024, EAGLE-2).
struct Eagle3DraftOptions {
  int width = 1;
  int depth = 6;
};

/// When rows of verdicts go through the head.
enum class Eagle3Reading : uint8_t {
  at_once,
  by_block,    // when their sequence is drafted for, or they fill a block
  when_asked,  // when their sequence is drafted for, or there are Eagle3Options::max_waiting
};

class Eagle3Proposer final : public Proposer {
 public:
  /// `model` outlives this and is used by nobody else meanwhile.
  Eagle3Proposer(Eagle3Model& model, int max_draft_len, const Eagle3DraftOptions& options = {},
                 Eagle3Reading reading = Eagle3Reading::at_once);
  ~Eagle3Proposer() override;

  std::string_view name() const override { return "eagle3"; }
  bool branches() const override { return options_.width > 1; }
  bool uses_target_pages() const override { return true; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void launched(const std::shared_ptr<const Batch>& batch, std::span<const Sequence* const> sequences) override;
  void observe(const Sequence& seq, const Verdict& verdict) override;
  void settled() override;
  void swap_kv(std::span<const BlockSwap> swaps) override { model_.swap_kv(swaps); }
  void end(const Sequence& seq) override { followed_.erase(seq.id); }
  void preempt(SeqId seq) override;
  ProposerStats stats() const override { return stats_; }

 private:
  struct Observed {
    int32_t slot = 0;
    SeqId seq = 0;
    int length = 0;
    std::vector<int32_t> path;
    std::vector<int32_t> token;  // behind the last row that was known, and behind each kept draft
  };

  /// A sequence that has had a verdict in its slot.
  struct Followed {
    int length = 0;  // of the text behind which its slot can draft, once no row waits
    int32_t slot = 0;
    std::vector<int32_t> pages;
    // Rows that wait, of positions one behind the other: where the first is, and the tokens behind them.
    int32_t position = 0;
    std::vector<int32_t> token = {};
  };

  /// Passes over rows of whole sequences, in as few as there is room for.
  class Extension;

  /// A request that can be drafted for.
  struct Active {
    const DraftRequest* request = nullptr;
    Proposal* out = nullptr;
    int max_depth = 0;
  };

  void draft_chains(std::vector<Active>& active);
  void draft_trees(std::span<const Active> active);
  std::vector<int32_t> tree_pages(const DraftRequest& request) const;
  bool can_wait(int32_t first, int32_t end) const;
  int block_size() const { return model_.options().block_size; }

  Eagle3Model& model_;
  const int max_draft_len_;
  const Eagle3DraftOptions options_;
  const Eagle3Reading reading_;
  std::deque<std::shared_ptr<const Batch>> in_flight_;
  std::vector<Observed> observed_;  // of the oldest
  std::unordered_map<SeqId, Followed> followed_;
  std::vector<int32_t> drafted_;  // [max_draft_len, sequences of a proposal]
  ProposerStats stats_;
};

}  // namespace paceline
