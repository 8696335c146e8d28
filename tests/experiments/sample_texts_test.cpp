#include "experiments/run/measure/sample_texts.h"

#include <set>

#include <gtest/gtest.h>

#include "experiments/analysis/outputs/output_comparison.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

TEST(SampleTexts, KeepTheFirstPromptsAndTheTokensThatAnsweredThem) {
  const auto tokenizer = Tokenizer::load(source_dir() / "configs/models/target-7m");
  std::vector<Prompt> prompts;
  for (int i = 11; i >= 0; --i)
    prompts.push_back({.id = "q" + std::to_string(i), .category = "", .index = i, .messages = {}, .text = "prompt"});
  prompts.back().text = std::string(kMaxSamplePromptBytes - 1, 'x') + "ü and more";
  const RunResult run = test::synthetic_run({.with_trouble = false});
  std::vector<SampleTexts> all;
  keep_sample_texts(run.cells[0], prompts, *tokenizer, all);
  keep_sample_texts(run.cells[1], prompts, *tokenizer, all);
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].prompts.size(), kMaxSamplePrompts);
  EXPECT_EQ(all[0].prompts[3].id, "q3");
  EXPECT_EQ(all[0].prompts[0].text, std::string(kMaxSamplePromptBytes - 1, 'x') + " …");
  std::set<int32_t> expected;
  for (int i = 0; i < 4; ++i)
    for (int32_t token : run.cells[0].repetitions[0].requests[size_t(i)].output) expected.insert(token);
  ASSERT_EQ(all[0].tokens.size(), expected.size());
  size_t i = 0;
  for (int32_t id : expected) {
    EXPECT_EQ(all[0].tokens[i].id, id);
    EXPECT_EQ(all[0].tokens[i++].bytes, tokenizer->token_bytes(id));
  }
  const nlohmann::json json = samples_to_json({.sample_texts = all});
  EXPECT_EQ(json["models"][0]["prompts"].size(), kMaxSamplePrompts);
  EXPECT_EQ(json["models"][0]["tokens"].size(), expected.size());
}

TEST(SampleOutputs, CountWhatWasComparedAndPutDifferencesFirst) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  run.cells[5].repetitions[2].requests[9].output.pop_back();
  // tp1 pp1 is compared with tp1_pp1_none, the other placements' plain cells with it, too.
  const std::vector<SampleOutput> samples = sample_outputs(run, 2);
  ASSERT_FALSE(samples.empty());
  EXPECT_EQ(samples[0].reference->id, "q9");
  ASSERT_EQ(samples[0].differences.size(), 1u);
  EXPECT_EQ(samples[0].differences[0].cell, &run.cells[5]);
  EXPECT_EQ(samples[0].differences[0].parting.position, 47u);
  EXPECT_EQ(samples[1].reference->id, "q0");
  int cells = 0;
  const CellResult* last = nullptr;
  for (const SampleOutput& s : samples) {
    if (s.reference_cell != last) cells += s.cells;
    last = s.reference_cell;
  }
  EXPECT_EQ(cells, 28);
}

}  // namespace
}  // namespace paceline
