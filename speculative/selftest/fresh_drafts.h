#pragma once
// A stale cache of a proposer is invisible in the output of a lossless verifier: drafts made again from a fresh one
// show it.

#include <memory>
#include <vector>

#include "speculative/draft_proposer.h"
#include "speculative/eagle3_proposer.h"
#include "speculative/proposer_decorator.h"
#include "speculative/selftest/engine_rig.h"

namespace paceline {

/// Compares every nth proposal of a draft model with that of a proposer made for the occasion, which has seen nothing
/// before.
class ComparesWithFreshCache final : public ProposerDecorator {
 public:
  struct Findings {
    int64_t num_compared = 0;  // proposals
    int64_t num_tokens = 0;
    int64_t num_different = 0;  // proposals
  };

  /// inner: a DraftProposer. `fresh_model` has the same weights as its model and KV pages of its own. Both outlive
  /// this.
  ComparesWithFreshCache(std::unique_ptr<Proposer> inner, Model& fresh_model, const DraftOptions& options,
                         Findings& findings, int every = 1);
  void prefill(std::span<const Sequence* const>) override {}  // whatever was fed before, propose() must make up for it
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;

 private:
  const BlockPool& pool_;
  Model& fresh_model_;
  const DraftOptions options_;
  Findings& findings_;
  const int every_;
  int64_t num_seen_ = 0;
};

/// What was drafted behind a text.
struct MadeDrafts {
  std::vector<int32_t> text;
  DrawParams sampler;  // of its request
  DraftTree drafts;
  int max_depth = 0;  // that the request allowed
};

class RecordsDrafts final : public ProposerDecorator {
 public:
  RecordsDrafts(std::unique_ptr<Proposer> inner, std::vector<MadeDrafts>& made)
      : ProposerDecorator(std::move(inner)), made_(made) {}
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;

 private:
  std::vector<MadeDrafts>& made_;
};

/// The set-up with proposer eagle3, whose drafts go to `made`, too.
EngineSetup recording(std::vector<MadeDrafts>& made, EngineSetup setup);

/// What the head drafts behind `prompt` and the token that follows it in plain decoding. Empty: it drafts nothing
/// there.
MadeDrafts fresh_head_drafts(EngineRig& rig, const std::vector<int32_t>& prompt, int num_drafts,
                             const Eagle3DraftOptions& options = {}, const DrawParams& sampler = {});

struct HeadFindings {
  int num_compared = 0, num_different = 0;
  std::string first_difference;
};

/// Up to num_samples of `made`, evenly spread, beside fresh_head_drafts() of `fresh`, whose engines have run nothing
/// else. Left out: texts that do not go on as decoding alone says, and trees that had less room than num_drafts.
HeadFindings compare_with_fresh_head(EngineRig& fresh, const std::vector<MadeDrafts>& made, int num_drafts,
                                     const Eagle3DraftOptions& options, int num_samples);

}  // namespace paceline
