// runexp init: every template runs as it is printed.

#include <algorithm>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

class InitTest : public testing::TestWithParam<std::string> {};

TEST_P(InitTest, TheTemplateRunsFromConfigs) {
  const Workspace workspace;
  const auto configs = workspace.folder() / "configs";
  std::filesystem::create_directories(configs);
  for (const char* name : {"base", "workloads", "models", "shapes"})
    std::filesystem::create_symlink(kSource / "configs" / name, configs / name);
  const ProcessResult text = runexp({"init", GetParam()});
  ASSERT_EQ(text.exit_code, 0) << described(text);
  const std::string name = text.out.starts_with("#") ? "mine.yaml" : "mine.json";
  write_file(configs / name, text.out);
  const ProcessResult run =
      runexp({"run", (configs / name).string(), "--profile", "quick", "--set", "workload.requests=2", "--set",
              "sampling.max_tokens=6", "--set", "measure.repetitions=1", "--set", "measure.warmup_requests=0", "--ui",
              "plain", "--results", workspace.results().string()},
             {.timeout_s = 120});
  ASSERT_EQ(run.exit_code, 0) << described(run);
  const nlohmann::json cells = workspace.cells();
  EXPECT_GE(cells.size(), 2u);
  for (const auto& cell : cells) EXPECT_TRUE(cell.at("status") == "done" || cell.at("status") == "skipped") << cell;
}

std::string template_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Templates, InitTest,
                         testing::Values("minimal", "ngram-k-sweep", "draft-vs-ngram", "tp-vs-pp", "batch-crossover",
                                         "open-loop-slo", "stated-acceptance", "ci-regression"),
                         template_name);

TEST(Init, ListNamesEveryTemplateAndTyposGetAHint) {
  const ProcessResult list = runexp({"init", "--list"});
  EXPECT_EQ(list.exit_code, 0) << described(list);
  EXPECT_EQ(lines_of(list.out).size(), 8u) << "a new template belongs into the test above, too";
  EXPECT_TRUE(list.out.starts_with("minimal "));
  expect_failure(runexp({"init", "tp-vs-p"}), 2, {"\"tp-vs-p\"", "did you mean \"tp-vs-pp\"?", "batch-crossover"});
  expect_failure(runexp({"init"}), 2, {"name a template", "runexp init minimal > configs/mine.json", "minimal, "});
}

}  // namespace
}  // namespace paceline::test
