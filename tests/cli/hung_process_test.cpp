// A run's process that answers nothing, as one whose proposer hangs: a stopped one stands for it.

#include <csignal>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

class HungProcess : public testing::Test {
 protected:
  /// Passes take seconds; the process that does them stands still in the first one.
  Process start(double timeout_s) {
    return Process(
        runexp_argv({"run", workspace_.config().string(), "--results", workspace_.results().string(), "--ui", "plain",
                     "--only", "proposer=='none'", "--set", "measure.repetitions=20", "--set", "workload.requests=2000",
                     "--set", "sampling.max_tokens=96", "--set", fmt::format("sweep.cell_timeout_s={}", timeout_s)}),
        {.folder = kSource, .environment = {}, .timeout_s = 60 * time_factor(), .streams = Streams::pipes});
  }
  void stop_what_works(Process& process) {
    const std::filesystem::path run = workspace_.run_under_way(process);
    ASSERT_FALSE(run.empty());
    for (int i = 0; i < 1000 && !holds(read_file(run / "journal.log"), "\"event\":\"loaded\""); ++i) process.wait(0.02);
    process.wait(0.3 * time_factor());
    ASSERT_EQ(kill(std::stoi(read_file(run / "lock")), SIGSTOP), 0);
  }

  const Workspace workspace_;
};

TEST_F(HungProcess, EndsWithAThirdSignal) {
  Process process = start(600);
  stop_what_works(process);
  for (const double seconds : {0.2, 3.2, 0.0}) {
    process.send(SIGINT);
    process.wait(seconds);
  }
  const ProcessResult result = process.finish();
  EXPECT_EQ(result.exit_code, 130) << described(result);
  EXPECT_TRUE(holds(result.err, "the process was killed, as it did not end when it was asked to")) << result.err;
}

TEST_F(HungProcess, EndsItsCellWhenItsTimeIsOver) {
  const double limit_s = 2 * time_factor();
  Process process = start(limit_s);
  stop_what_works(process);
  const ProcessResult result = process.finish();
  const std::string reason = fmt::format(
      "its process was killed: the pass took longer than {} s (sweep.cell_timeout_s), and its last step did not end",
      limit_s);
  EXPECT_TRUE(holds(result.err, "failed: " + reason)) << described(result);
  EXPECT_EQ(result.exit_code, 1);
  const nlohmann::json cell = workspace_.cells().at(0);
  EXPECT_EQ(cell.at("status"), "failed");
  EXPECT_EQ(cell.at("reason"), reason) << "at once, not after three such times";
}

}  // namespace
}  // namespace paceline::test
