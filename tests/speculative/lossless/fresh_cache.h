#pragma once
// A stale draft cache is invisible in the output of a lossless verifier; this decorator makes it visible.

#include <algorithm>
#include <memory>

#include "speculative/draft_proposer.h"

namespace paceline::test {

/// Compares every proposal of a draft proposer with that of one made for the occasion, which has seen nothing before.
class ComparesWithFreshCache final : public Proposer {
 public:
  struct Findings {
    int64_t num_compared = 0;  // proposals
    int64_t num_tokens = 0;
    int64_t num_different = 0;  // proposals
  };

  /// `fresh_model` has the same weights as the inner proposer's model and KV pages of its own. Both outlive this.
  ComparesWithFreshCache(std::unique_ptr<Proposer> inner, Model& fresh_model, const DraftOptions& options,
                         Findings& findings)
      : inner_(std::move(inner)),
        pool_(dynamic_cast<const DraftProposer&>(*inner_).pool()),
        fresh_model_(fresh_model),
        options_(options),
        findings_(findings) {}

  std::string_view name() const override { return inner_->name(); }
  ProposerSide side() const override { return inner_->side(); }
  bool branches() const override { return inner_->branches(); }
  void observe(const Sequence& seq, const Verdict& verdict) override { inner_->observe(seq, verdict); }
  void end(const Sequence& seq) override { inner_->end(seq); }
  void preempt(SeqId seq) override { inner_->preempt(seq); }
  ProposerStats stats() const override { return inner_->stats(); }

  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override {
    inner_->propose(requests, out);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (out[i].draft.empty()) continue;
      DraftRequest request = requests[i];
      // The inner pool may have been too full for more.
      DraftOptions options = options_;
      if (branches())
        options.pool.num_blocks = int(pool_.pages(request.seq->id).size());
      else
        request.max_drafts = out[i].draft.size();
      DraftProposer fresh(fresh_model_, options);
      Proposal expected;
      fresh.propose(std::span(&request, 1), std::span(&expected, 1));
      ++findings_.num_compared;
      findings_.num_tokens += int64_t(expected.draft.size());
      if (out[i].draft.token != expected.draft.token || out[i].draft.parent != expected.draft.parent ||
          out[i].draft.score != expected.draft.score || !same_probs(out[i].probs, expected.probs))
        ++findings_.num_different;
    }
  }

 private:
  static bool same_probs(const DraftProbs& a, const DraftProbs& b) {
    if (a.kind != b.kind || a.value.rows != b.value.rows) return false;
    for (int32_t row = 0; row < a.value.rows; ++row) {
      if (!std::equal(a.value.f32_row(row), a.value.f32_row(row) + a.value.cols, b.value.f32_row(row))) return false;
    }
    return true;
  }

  std::unique_ptr<Proposer> inner_;
  const BlockPool& pool_;
  Model& fresh_model_;
  const DraftOptions options_;
  Findings& findings_;
};

}  // namespace paceline::test
