// A run beside processes that want every core: its cells say so, in numbers.

#include <thread>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

TEST(NoisyRun, CellsBesideACpuHogAreMarkedAndKept) {
  const Workspace workspace;
  std::vector<std::unique_ptr<Process>> hogs;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
    hogs.push_back(std::make_unique<Process>(std::vector<std::string>{"/bin/sh", "-c", "while :; do :; done"}));
  const ProcessResult result =
      runexp({"run", workspace.config().string(), "--results", workspace.results().string(), "--ui", "quiet", "--set",
              "sampling.max_tokens=96", "--set", "sampling.ignore_eos=true", "--set", "workload.requests=8"},
             {.timeout_s = 60});
  hogs.clear();
  SCOPED_TRACE(described(result));
  ASSERT_EQ(result.exit_code, 0);
  for (const nlohmann::json& cell : workspace.cells()) {
    EXPECT_EQ(cell.at("status"), "done");
    EXPECT_TRUE(cell.at("rankable").get<bool>()) << "it stays in the tables";
    ASSERT_TRUE(cell.at("noisy").get<bool>()) << cell.at("id");
    const std::string noise = cell.at("noise");
    EXPECT_TRUE(noise.starts_with("other processes used ") && holds(noise, " % of the cores in repetition 1 of 1"))
        << noise;
  }
  EXPECT_TRUE(holds(result.out, ", disturbed"));
  const ProcessResult shown = runexp({"show", "last", "tp1_pp1_none_c1", "--results", workspace.results().string()});
  EXPECT_TRUE(holds(shown.out, "  disturbed      yes: other processes used ")) << shown.out;
}

}  // namespace
}  // namespace paceline::test
