// The wall clock is set while runexp works, or between two runs: durations, order and results do not notice.

#include <map>

#include <fmt/format.h>

#include "experiments/results/files/run_names.h"
#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

using nlohmann::json;

/// Under sanitizers, whose run time has to be the first library of a program, nothing can be preloaded.
class WallClock : public ::testing::Test {
 protected:
  void SetUp() override {
    if (time_factor() > 1) GTEST_SKIP() << "a sanitizer's run time must come first";
    ASSERT_TRUE(std::filesystem::exists(kLibrary)) << kLibrary << " is not built";
  }
  ProcessResult run_with_clock(const std::string& clock, const std::string& ui = "jsonl") const {
    return runexp({"run", workspace_.config().string(), "--results", workspace_.results().string(), "--ui", ui, "--set",
                   "measure.repetitions=3"},
                  {.folder = {},
                   .environment = {"LD_PRELOAD=" + kLibrary.string(), "PACELINE_WALL_CLOCK=" + clock},
                   .timeout_s = 60});
  }
  std::map<std::string, json> hashes() const {
    std::map<std::string, json> out;
    for (const json& cell : workspace_.cells()) out[cell.at("id")] = cell.at("output_hashes");
    return out;
  }

  const std::filesystem::path kLibrary = binary_dir() / "libwall_clock.so";
  const Workspace workspace_;
};

TEST_F(WallClock, JumpsOfAnHourChangeNoDurationAndNoToken) {
  const ProcessResult steady = run_with_clock("0");
  ASSERT_EQ(steady.exit_code, 0) << described(steady);
  const auto expected = hashes();
  const ProcessResult jumping = run_with_clock("jumping");
  ASSERT_EQ(jumping.exit_code, 0) << described(jumping);
  EXPECT_EQ(hashes(), expected);
  const json summary = workspace_.summary();
  const auto is_sane = [&](const json& seconds) { return seconds.get<double>() > 0 && seconds.get<double>() < 60; };
  EXPECT_TRUE(is_sane(summary.at("wall_s"))) << summary.at("wall_s");
  for (const json& cell : summary.at("cells")) {
    const json of_cell = json::parse(read_file(
        workspace_.results() / "latest/cells" /
        fmt::format("{:03}_{}", cell.at("index").get<int>(), cell.at("id").get<std::string>()) / "cell.json"));
    EXPECT_EQ(of_cell.at("repetitions").size(), 3u);
    for (const json& r : of_cell.at("repetitions")) EXPECT_TRUE(is_sane(r.at("wall_s"))) << r.at("wall_s");
    for (const char* const name : {"ttft_ms", "e2e_ms"})
      EXPECT_GT(cell.at(name).at("p50").get<double>(), 0) << "of " << cell.at("id");
    EXPECT_LT(cell.at("e2e_ms").at("p99").get<double>(), 60'000);
  }
  double before = 0;
  for (const std::string& line : lines_of(jumping.out)) {
    const double now = json::parse(line).at("s").get<double>();
    EXPECT_GE(now, before) << line;
    EXPECT_LT(now, 60) << line;
    before = now;
  }
}

TEST_F(WallClock, TheRunThatBeganLastIsLastAlthoughTheClockWentBack) {
  const auto newest = [&] { return list_runs(workspace_.results()).back(); };
  std::vector<std::string> begun;
  for (const char* const clock : {"0", "-3600", "-7200", "-3600", "10800", "0"}) {
    ASSERT_EQ(run_with_clock(clock, "quiet").exit_code, 0);
    const json manifest = json::parse(read_file(workspace_.results() / "latest/manifest.json"));
    begun.push_back(manifest.at("id"));
    EXPECT_EQ(newest(), begun.back()) << "clock " << clock;
  }
  EXPECT_EQ(list_runs(workspace_.results()), begun);
  EXPECT_EQ(find_run(workspace_.results(), "last~2"), workspace_.results() / begun[3]);
  EXPECT_LT(begun[1], begun[0]) << "names keep the clock's word";
}

}  // namespace
}  // namespace paceline::test
