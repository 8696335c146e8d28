// An EAGLE-3 head on real states: the drafts of its reference, from PyTorch in float32.

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/batch_rows.h"
#include "tests/speculative/lossless/workload.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

struct HeadCase {
  std::filesystem::path target, head, golden;
};

std::vector<HeadCase> head_cases() {
  std::vector<HeadCase> cases{{.target = builtin_model("target-7m"),
                               .head = golden_model("eagle3-target-7m"),
                               .golden = golden_model("eagle3-target-7m") / "golden.json"}};
  const std::filesystem::path shared = source_dir().parent_path() / "shared" / "models";
  if (std::filesystem::exists(shared / "eagle3-target-42m"))
    cases.push_back({.target = shared / "target-42m",
                     .head = shared / "eagle3-target-42m",
                     .golden = shared / "eagle3-target-42m" / "golden.json"});
  return cases;
}

/// Drafts of one proposal, and the logits of its last pass.
class SeesProposals final : public Proposer {
 public:
  explicit SeesProposals(std::unique_ptr<Proposer> inner, std::vector<std::vector<int32_t>>& made)
      : inner_(std::move(inner)), made_(made) {}
  std::string_view name() const override { return inner_->name(); }
  ProposerSide side() const override { return inner_->side(); }
  bool uses_target_pages() const override { return inner_->uses_target_pages(); }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override {
    inner_->propose(requests, out);
    for (const Proposal& proposal : out) made_.push_back(proposal.draft.token);
  }
  void launched(const std::shared_ptr<const Batch>& batch, std::span<const Sequence* const> sequences) override {
    inner_->launched(batch, sequences);
  }
  void observe(const Sequence& seq, const Verdict& verdict) override { inner_->observe(seq, verdict); }
  void settled() override { inner_->settled(); }
  void swap_kv(std::span<const BlockSwap> swaps) override { inner_->swap_kv(swaps); }
  void end(SeqId seq) override { inner_->end(seq); }
  void preempt(SeqId seq) override { inner_->preempt(seq); }

 private:
  std::unique_ptr<Proposer> inner_;
  std::vector<std::vector<int32_t>>& made_;
};

TEST(Eagle3, DraftsAreThoseOfTheReference) {
  constexpr int kDrafts = 5;
  for (const HeadCase& one : head_cases()) {
    SCOPED_TRACE(one.head.string());
    EngineRig rig({.target = one.target, .head = one.head, .dtype = DType::f32});
    for (const nlohmann::json& golden : read_json(one.golden)) {
      std::vector<std::vector<int32_t>> made;
      auto engine = rig.make_engine({.proposer = RigProposer::eagle3,
                                     .num_speculative_tokens = kDrafts,
                                     .wrap_proposer = [&](std::unique_ptr<Proposer> inner) {
                                       return std::make_unique<SeesProposals>(std::move(inner), made);
                                     }});
      SamplingParams params;
      params.max_tokens = 8;
      params.ignore_eos = true;
      engine->submit(golden["prompt_ids"].get<std::vector<int32_t>>(), params);
      std::vector<int32_t> text;
      while (!engine->idle() && made.empty())
        for (const Emitted& emitted : engine->step())
          text.insert(text.end(), emitted.token.begin(), emitted.token.end());
      ASSERT_FALSE(text.empty());
      EXPECT_EQ(text[0], golden["next"].get<int32_t>());
      ASSERT_FALSE(made.empty());
      EXPECT_EQ(made[0], golden["drafts"].get<std::vector<int32_t>>());
    }
  }
}

}  // namespace
}  // namespace paceline::test
