// `runexp models --support`: each yes of its table, run. A small model of each architecture from each kind of file, as
// target and as draft, on all ranks; on CUDA by PACELINE_RIG_DEVICE.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/model/families.h"
#include "speculative/selftest/checked_run.h"
#include "tests/speculative/lossless/prompts.h"
#include "tests/support/family_cases.h"
#include "tests/support/family_gguf.h"

namespace paceline::test {
namespace {

class SupportedFamily : public testing::TestWithParam<FamilyCase> {};

TEST_P(SupportedFamily, RunsAsTargetAndDraftFromEachFileOnAllRanks) {
  constexpr int kMaxTokens = 16;
  nlohmann::json config = GetParam().config;
  ASSERT_FALSE(config.is_null()) << "no small model of this architecture in family_cases.cpp";
  (config.contains("text_config") ? config["text_config"] : config)["torch_dtype"] = "bfloat16";
  config["torch_dtype"] = "bfloat16";  // what packed files become
  const TempDir dir;
  const std::filesystem::path folder = dir / "model", file = dir / "model.gguf";
  write_random_model(folder, config);
  std::vector<std::filesystem::path> models = {folder};
  if (find_family(config["architectures"][0].get<std::string>())->gguf) {
    write_file(file, family_gguf(folder).bytes());
    models.push_back(file);
  }
  EngineRig reference_rig({.target = folder});
  ReferenceStore references(reference_rig, kMaxTokens);
  std::vector<CheckedRequest> requests;
  for (const auto& prompt : random_prompts(4, 24, reference_rig.spec().vocab_size, 7)) {
    requests.push_back({.prompt = prompt, .params = {}, .expected = {}});
    requests.back().params.max_tokens = kMaxTokens;
    requests.back().params.ignore_eos = true;
    references.answer(requests.back());
  }
  for (const auto& model : models) {
    for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
      if (tp * pp > most_rig_ranks()) continue;
      SCOPED_TRACE(fmt::format("{} tp {} pp {}", model.filename().string(), tp, pp));
      EngineRig rig({.target = model, .draft = model, .tp = tp, .pp = pp});
      const auto engine =
          rig.make_engine({.proposer = RigProposer::draft, .num_speculative_tokens = 3, .max_num_seqs = 4});
      const RunReport report = run_checked(*engine, requests, {.draft = rig.draft_proposer()});
      EXPECT_TRUE(report.clean()) << report.describe();
      EXPECT_GT(report.tokens, 0);
      EXPECT_GT(report.counters.drafted, 0);
      EXPECT_EQ(report.counters.accepted, report.counters.drafted) << "a model drafts what it says itself";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, SupportedFamily, testing::ValuesIn(one_case_a_family()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace paceline::test
