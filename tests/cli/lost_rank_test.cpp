// A rank that never comes back costs its cell and its process, not the sweep.

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;

/// Four cells on two stages, then on one: a rank of the first cell stops.
class LostRank : public ::testing::Test {
 protected:
  static constexpr double kTimeout_s = 2;

  void SetUp() override {
    if (time_factor() > 1) GTEST_SKIP() << "a sanitizer's run time must come first";
    ASSERT_TRUE(fs::exists(kLibrary)) << kLibrary << " is not built";
  }

  ProcessResult run(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {
        "run",    workspace_.config().string(), "--results", workspace_.results().string(), "--ui", "plain",
        "--axis", "engine.parallel.pp=2,1"};
    for (const char* const value : {"engine.parallel.timeout_s=2", "engine.parallel.threads_per_rank=1",
                                    "workload.requests=100", "measure.warmup_requests=0", "sampling.max_tokens=64"})
      args.insert(args.end(), {"--set", value});
    args.insert(args.end(), more.begin(), more.end());
    const fs::path stop = workspace_.folder() / "stop";
    Process process(runexp_argv(args),
                    {.folder = kSource,
                     .environment = {"LD_PRELOAD=" + kLibrary.string(), "PACELINE_STOP_RANK=" + stop.string()},
                     .timeout_s = 60});
    for (int i = 0; i < 1000 && process.running() && !has_logged(workspace_.results(), " s load "); ++i)
      process.wait(0.01);
    write_file(stop, "");
    for (int i = 0; i < 2000 && process.running() && fs::exists(stop); ++i) process.wait(0.01);
    EXPECT_FALSE(fs::exists(stop)) << "no rank stopped";
    EXPECT_TRUE(process.wait_for_stderr("failed", kTimeout_s + 5));
    return process.finish();
  }

  void expect_one_failed(const ProcessResult& result) const {
    EXPECT_EQ(result.exit_code, 1) << described(result);
    EXPECT_FALSE(result.timed_out);
    EXPECT_TRUE(fs::exists(workspace_.results() / "latest" / "report.html"));
    int failed = 0;
    for (const nlohmann::json& cell : workspace_.cells()) {
      if (cell.at("status") == "done") continue;
      ++failed;
      EXPECT_TRUE(holds(cell.at("id"), "pp2")) << cell;
      EXPECT_TRUE(holds(cell.at("reason"), "rank 0 has made no mark for 2 s")) << cell;
    }
    EXPECT_EQ(failed, 1);
  }

  const fs::path kLibrary = binary_dir() / "libstuck_rank.so";
  const Workspace workspace_;
};

TEST_F(LostRank, ItsCellFailsAndTheSweepGoesOnInANewProcess) {
  const ProcessResult result = run();
  expect_one_failed(result);
  EXPECT_FALSE(holds(result.err, "never came back")) << result.err;
}

TEST_F(LostRank, WithinOneProcessTheRunSaysThatItStays) {
  const ProcessResult result = run({"--in-process"});
  expect_one_failed(result);
  EXPECT_TRUE(holds(result.err, "a rank never came back")) << result.err;
}

}  // namespace
}  // namespace paceline::test
