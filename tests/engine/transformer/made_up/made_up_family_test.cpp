// What a new family needs: its own file, a word in the list, a golden. This program's list has one more.

#include "speculative/selftest/engine_rig.h"
#include "tests/engine/transformer/check_golden.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

using namespace test;

std::vector<int32_t> text_of(Engine& engine, const std::vector<int32_t>& prompt, int count) {
  SamplingParams params;
  params.max_tokens = count;
  params.ignore_eos = true;
  engine.submit(prompt, params);
  std::vector<int32_t> text;
  while (!engine.idle())
    for (const Emitted& emitted : engine.step()) text.insert(text.end(), emitted.token.begin(), emitted.token.end());
  return text;
}

TEST(MadeUpFamily, LogitsAndGreedyTextOnAllRanks) {
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 3}, {2, 2}}) {
    SCOPED_TRACE(fmt::format("tp {} pp {}", tp, pp));
    check_golden({.folder = "tests/data/made-up", .tp = tp, .pp = pp});
  }
}

TEST(MadeUpFamily, SpeculatesAsTargetAndDraft) {
  const nlohmann::json golden = read_json("tests/data/made-up/golden.json");
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 2}}) {
    EngineRig rig({.target = test::golden_model("made-up"),
                   .draft = test::golden_model("made-up"),
                   .draft_dtype = DType::bf16,
                   .tp = tp,
                   .pp = pp});
    for (const RigProposer proposer : {RigProposer::ngram, RigProposer::draft}) {
      SCOPED_TRACE(fmt::format("tp {} pp {} {}", tp, pp, rig_proposer_name(proposer)));
      const auto engine = rig.make_engine({.proposer = proposer, .num_speculative_tokens = 4});
      for (size_t i = 0; i < golden["prompts"].size(); ++i) {
        const auto want = golden["greedy"][i].get<std::vector<int32_t>>();
        EXPECT_EQ(text_of(*engine, golden["prompts"][i].get<std::vector<int32_t>>(), int(want.size())), want);
      }
      if (proposer == RigProposer::draft) {
        EXPECT_GT(engine->counters().accepted, 0);
      }
    }
  }
}

}  // namespace
}  // namespace paceline
