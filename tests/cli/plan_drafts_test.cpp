// runexp plan of loads with draft models, of which some do not load.

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

TEST(Plan, OnlyCellsThatDraftNeedTheDraftModel) {
  const Workspace workspace;
  const auto plan_with = [&](const std::string& draft) {
    return runexp({"plan", workspace.config().string(), "--axis", "proposer=none,ngram,draft", "--set",
                   "speculation.draft.path=" + draft});
  };
  const ProcessResult absent = plan_with((workspace.folder() / "nowhere").string());
  EXPECT_TRUE(holds(absent.out, "✗ with proposer draft: ")) << absent.out;
  EXPECT_TRUE(holds(absent.out, "✗    tp1_pp1_draft_k3_c1")) << absent.out;
  EXPECT_TRUE(holds(absent.out, "run  tp1_pp1_none_c1") && holds(absent.out, "run  tp1_pp1_ngram_k3_c1")) << absent.out;
  EXPECT_TRUE(holds(absent.out, "2 to run in 1 load, 0 skipped, 1 cannot run; ")) << absent.out;
  const auto bare = workspace.copy_model(kSource / "configs/models/draft-600k", "draft");
  std::filesystem::remove(bare / "tokenizer.json");
  const ProcessResult without = plan_with(bare.string());
  EXPECT_TRUE(holds(without.out, "1 cannot run; ") && holds(without.err, "tokenizer")) << without.out << without.err;
}

TEST(Plan, EachOfTwoDraftsOfALoadIsTriedAndCounted) {
  const Workspace workspace;
  const auto plan_with = [&](const std::string& axis) {
    return runexp({"plan", workspace.config().string(), "--set", "engine.backend=cpu", "--axis", "proposer=none,draft",
                   "--axis", axis});
  };
  for (const char* const paths : {"/nowhere/absent,builtin:draft-600k", "builtin:draft-600k,/nowhere/absent"}) {
    const ProcessResult result = plan_with(std::string("speculation.draft.path=") + paths);
    EXPECT_TRUE(holds(result.out, "✗ with proposer draft: speculation.draft.path: there is no folder")) << result.out;
    EXPECT_TRUE(holds(result.out, "2 to run in 1 load, 0 skipped, 1 cannot run; ")) << result.out;
  }
  const auto weights_gib = [](const ProcessResult& result) {
    const std::string before = "in all: weights ";
    return std::stod(result.out.substr(result.out.find(before) + before.size()));
  };
  const double wide = weights_gib(plan_with("speculation.draft.dtype=float32"));
  EXPECT_GT(weights_gib(plan_with("speculation.draft.dtype=float32,bfloat16")), wide);
}

}  // namespace
}  // namespace paceline::test
