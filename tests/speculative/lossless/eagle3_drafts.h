#pragma once
// What a proposer drafts, seen from outside: behind which text, and from what logits.

#include <memory>
#include <vector>

#include "speculative/eagle3_proposer.h"
#include "tests/support/engine_rig.h"

namespace paceline::test {

/// What was drafted behind a text.
struct Made {
  std::vector<int32_t> text;
  DraftTree drafts;
  int max_depth = 0;  // that the request allowed
};

class SeesProposals final : public Proposer {
 public:
  explicit SeesProposals(std::unique_ptr<Proposer> inner, std::vector<Made>& made)
      : inner_(std::move(inner)), made_(made) {}
  std::string_view name() const override { return inner_->name(); }
  ProposerSide side() const override { return inner_->side(); }
  bool branches() const override { return inner_->branches(); }
  bool uses_target_pages() const override { return inner_->uses_target_pages(); }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override {
    inner_->propose(requests, out);
    for (size_t i = 0; i < out.size(); ++i)
      if (!out[i].draft.empty()) made_.push_back({requests[i].seq->tokens, out[i].draft, requests[i].max_depth});
  }
  void launched(const std::shared_ptr<const Batch>& batch, std::span<const Sequence* const> sequences) override {
    inner_->launched(batch, sequences);
  }
  void observe(const Sequence& seq, const Verdict& verdict) override { inner_->observe(seq, verdict); }
  void settled() override { inner_->settled(); }
  void swap_kv(std::span<const BlockSwap> swaps) override { inner_->swap_kv(swaps); }
  void end(const Sequence& seq) override { inner_->end(seq); }
  void preempt(SeqId seq) override { inner_->preempt(seq); }

 private:
  std::unique_ptr<Proposer> inner_;
  std::vector<Made>& made_;
};

inline EngineSetup seen_by(std::vector<Made>& made, EngineSetup setup) {
  setup.proposer = RigProposer::eagle3;
  setup.wrap_proposer = [&made](std::unique_ptr<Proposer> inner) {
    return std::make_unique<SeesProposals>(std::move(inner), made);
  };
  return setup;
}

/// What the head drafts behind `prompt` and the token that follows it in greedy decoding.
inline Made fresh_drafts(EngineRig& rig, const std::vector<int32_t>& prompt, int num_drafts,
                         const Eagle3DraftOptions& options = {}) {
  std::vector<Made> made;
  auto engine = rig.make_engine(seen_by(made, {.proposer_options = options, .num_speculative_tokens = num_drafts}));
  SamplingParams params;
  params.max_tokens = num_drafts + 2;
  params.ignore_eos = true;
  engine->submit(prompt, params);
  while (!engine->idle() && made.empty()) engine->step();
  return made.empty() ? Made{} : made.front();
}

}  // namespace paceline::test
