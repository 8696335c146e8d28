#pragma once
// Suffix decoding (Oliaro et al. 2024): what most often followed the newest tokens, in the request's own text and in
// answers of others. Costs no model.

#include <memory>
#include <unordered_map>

#include "engine/speculation.h"
#include "speculative/suffix_tree.h"

namespace paceline {

/// Whose answers drafts may come from, beside the request's own text.
enum class SuffixStore : uint8_t {
  request,  // nobody's
  run,      // those that the engine has ended: none at the start of a repetition
  warm,     // and those of the cell's repetitions before
};

struct SuffixOptions {
  int depth = 24;        // tokens of a string, known ones and drafts together
  int requests = 10000;  // answers that are kept, the newest
  double factor = 1.0;   // as SuffixQuery
  double min_prob = 0.1;
  bool branches = false;
  SuffixStore store = SuffixStore::run;
};

/// One tree for each request, over its prompt and its output, and one over the outputs of ended requests. The first
/// wins ties.
class SuffixProposer final : public Proposer {
 public:
  /// answers: the tree of others' outputs, with options.depth; null: none is kept.
  SuffixProposer(const SuffixOptions& options, std::shared_ptr<SuffixTree> answers);

  std::string_view name() const override { return "suffix"; }
  bool branches() const override { return options_.branches; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void prefill(std::span<const Sequence* const> sequences) override;
  void end(const Sequence& seq) override;
  void preempt(SeqId) override {}

 private:
  const SuffixTree& tree_of(const Sequence& seq);

  const SuffixOptions options_;
  std::shared_ptr<SuffixTree> answers_;
  std::unordered_map<SeqId, SuffixTree> own_;
};

}  // namespace paceline
