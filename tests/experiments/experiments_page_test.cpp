// docs/experiments.md: its reference is the table's, and its examples load.

#include <gtest/gtest.h>

#include "experiments/config/keys/key_help.h"
#include "experiments/ui/progress_events.h"
#include "tests/experiments/config_files.h"
#include "tests/support/holds.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

const std::string kMark = "<!-- From here on made by `runexp config docs`. -->\n\n";

std::string page() { return test::read_file(source_dir() / "docs/experiments.md"); }

TEST(ExperimentsPage, TheReferenceIsCurrent) {
  const std::string text = page();
  const size_t at = text.find(kMark);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(test::first_difference(text.substr(at + kMark.size()), key_reference_markdown()), "")
      << "write it anew: everything below the mark is the output of build/release/runexp config docs";
}

TEST(ExperimentsPage, TheLinesForProgramsAreCurrent) {
  EXPECT_NE(page().find("`--ui jsonl`\n\n" + progress_events_markdown() + "\n"), std::string::npos)
      << "write it anew: the table is the output of build/release/runexp explain jsonl";
}

TEST(ExperimentsPage, ExamplesLoad) {
  const ConfigFiles files;
  for (const char* folder : {"base", "workloads", "models"})
    std::filesystem::create_directory_symlink(source_dir() / "configs" / folder, files.folder() / folder);
  const std::string text = page();
  int num_examples = 0;
  for (size_t at = text.find("```json\n"); at != std::string::npos; at = text.find("```json\n", at + 1)) {
    const size_t begin = at + 8;
    const std::string example = text.substr(begin, text.find("```", begin) - begin);
    EXPECT_EQ(files.complaints(example), "") << example;
    ++num_examples;
  }
  EXPECT_GE(num_examples, 6);
}

/// What the page says of marks, ranges and groups.
TEST(ExperimentsPage, MarksRangesAndGroupsActAsWritten) {
  const ConfigFiles files;
  files.write("base.json", R"({"sampling": {"stop_token_ids": [1]}, "load": {"concurrency": 9},
      "sweep": {"axes": {"engine.parallel.tp": [4], "k": [1]}}})");
  const ExperimentConfig config = files
                                      .load(R"({"extends": "base.json", "sampling": {"+stop_token_ids": [2]},
      "-load": true, "sweep": {"axes": {"tp": [1, 2], "+k": [2], "sampling.seed": "1..9+4", "sampling.top_k": "1..16*2"}}})")
                                      .config;
  EXPECT_EQ(config.sampling.stop_token_ids, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.load.concurrency, 1);
  ASSERT_EQ(config.sweep.axes.size(), 4u);
  EXPECT_EQ(config.sweep.axes[0].values, (std::vector<ConfigJson>{1, 2}));  // the alias met the full path
  EXPECT_EQ(config.sweep.axes[1].values, (std::vector<ConfigJson>{1, 2}));
  EXPECT_EQ(config.sweep.axes[2].values, (std::vector<ConfigJson>{1, 5, 9}));
  EXPECT_EQ(config.sweep.axes[3].values, (std::vector<ConfigJson>{1, 2, 4, 8, 16}));
  EXPECT_EQ(files.complaints(R"({"extends": "base.json", "-lod": true})"),
            "1:26: unknown key \"lod\" (did you mean \"load\"?)");
  EXPECT_EQ(files.complaints(R"({"extends": "base.json", "sampling": {"-seed": true}})"),
            "1:39: \"-seed\": no such key is inherited");
  EXPECT_EQ(files.complaints(R"({"extends": "base.json", "-load": 1})"),
            "1:35: \"-load\" deletes an inherited key: expected true, found 1");
  EXPECT_EQ(files.complaints(R"({"extends": "base.json", "load": {"+concurrency": 3}})"),
            "1:51: \"+concurrency\" appends to an inherited list: expected a list, found 3");
}

}  // namespace
}  // namespace paceline
