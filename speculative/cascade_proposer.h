#pragma once
// Several proposers in order: the first that is confident drafts. What costs nothing and hits rarely stands before what
// costs passes and hits often.

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/speculation.h"

namespace paceline {

struct CascadeOptions {
  std::string stages = "ngram, suffix";  // names of proposers, apart by commas
  double min_score = 0.5;
};

/// Each stage is told of all that happens, and asked for drafts where none before it was confident. A stage is where it
/// has drafts, and its likeliest first one a score of min_score or more, or no scores. Where none is, the last that has
/// drafts is taken. Drafts that a stage made and another's were taken for are never verified: stages learn that from
/// observe(), as of any refusal.
class CascadeProposer final : public Proposer {
 public:
  CascadeProposer(std::vector<std::unique_ptr<Proposer>> stages, double min_score);

  std::string_view name() const override { return "cascade"; }
  bool branches() const override;
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void prefill(std::span<const Sequence* const> sequences) override;
  bool uses_target_pages() const override;
  void launched(const std::shared_ptr<const Batch>& batch, std::span<const Sequence* const> sequences) override;
  void observe(const Sequence& seq, const Verdict& verdict) override;
  void observe_last(const Sequence& seq, const Verdict& verdict) override;
  void settled() override;
  void swap_kv(std::span<const BlockSwap> swaps) override;
  void end(const Sequence& seq) override;
  void preempt(SeqId seq) override;
  ProposerStats stats() const override;

 private:
  /// Into the books of the stage whose drafts these were.
  void count(const Sequence& seq, const Verdict& verdict);

  bool is_confident(const DraftTree& draft) const;

  const std::vector<std::unique_ptr<Proposer>> stages_;
  const double min_score_;
  std::vector<StageStats> counts_;
  std::unordered_map<SeqId, size_t> drafted_by_;  // the stage whose drafts are under way
};

}  // namespace paceline
