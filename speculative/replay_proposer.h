#pragma once
// Drafts that another run made, word for word: what a set-up makes of the very same drafts.

#include <filesystem>
#include <string>

#include "engine/speculation.h"
#include "speculative/draft_record.h"

namespace paceline {

struct ReplayOptions {
  std::string file = {};  // of a DraftRecord
};

/// Drafts for requests of the same keys and prompts, behind the same numbers of verified tokens; elsewhere nothing.
class ReplayProposer final : public Proposer {
 public:
  ReplayProposer(DraftRecord record, std::filesystem::path file);

  std::string_view name() const override { return "replay"; }
  bool branches() const override { return branches_; }
  /// Throws Error(usage) for a request whose prompt is another one.
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void end(const Sequence&) override {}
  void preempt(SeqId) override {}

 private:
  const DraftRecord record_;
  const std::filesystem::path file_;
  bool branches_ = false;
};

/// Of `tree` the nodes that fit: at most max_nodes, in max_depth levels.
DraftTree cut_tree(const DraftTree& tree, int max_nodes, int max_depth);

}  // namespace paceline
