// Ctrl-C once finishes the pass and writes the results, twice stops now.

#include <csignal>
#include <ctime>
#include <optional>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

/// A run of many repetitions, or of one that takes long; sure to be under way when `ready` has returned.
class LongRun {
 public:
  LongRun(const std::vector<std::string>& more, const std::string& reached, const std::string& command = "run") {
    std::vector<std::string> args = {
        command, workspace.config().string(), "--results", workspace.results().string(), "--ui", "plain"};
    args.insert(args.end(), more.begin(), more.end());
    process_.emplace(
        runexp_argv(args),
        ProcessOptions{
            .folder = kSource, .environment = {}, .timeout_s = 30 * time_factor(), .streams = Streams::pipes});
    for (int i = 0; i < 500 && process_->running() && !has_logged(workspace.results(), reached); ++i)
      process_->wait(0.02);
    // A busy machine may let the next pass begin late: what has been computed since tells.
    const double begin = worker_cpu_s();
    for (int i = 0; i < 500 && process_->running() && worker_cpu_s() < begin + 0.5 * time_factor(); ++i)
      process_->wait(0.02);
  }
  Process& process() { return *process_; }

  const Workspace workspace;

 private:
  /// CPU time of the process that computes; 0: there is none.
  double worker_cpu_s() const {
    for (const auto& run : std::filesystem::directory_iterator(workspace.results())) {
      if (!std::filesystem::exists(run.path() / "lock")) continue;
      clockid_t clock;
      timespec used = {};
      if (clock_getcpuclockid(std::stoi(read_file(run.path() / "lock")), &clock) != 0) return 0;
      clock_gettime(clock, &used);
      return double(used.tv_sec) + 1e-9 * double(used.tv_nsec);
    }
    return 0;
  }

  std::optional<Process> process_;
};

double seconds_to_end(Process& process, ProcessResult& result) {
  const auto start = std::chrono::steady_clock::now();
  result = process.finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The text at the end, the list, the manifest and what is read again from the journal tell one story.
void expect_one_story(const LongRun& run, const std::string& out) {
  using nlohmann::json;
  const std::string root = run.workspace.results().string();
  const json summary = run.workspace.summary();
  const json manifest = json::parse(read_file(run.workspace.results() / "latest/manifest.json"));
  const json listed = json::parse(runexp({"list", "--json", "--results", root}).out).at(0);
  const std::string shown = runexp({"show", "--results", root}).out;
  for (const char* const key : {"done", "partial", "failed", "skipped", "not_run"}) {
    EXPECT_EQ(listed.at(key), summary.at("num_" + std::string(key))) << key;
    EXPECT_EQ(manifest.at("num_" + std::string(key)), summary.at("num_" + std::string(key))) << key;
  }
  EXPECT_EQ(summary.at("num_failed"), 0);
  for (const std::string* text : {&out, &shown}) {
    EXPECT_TRUE(holds(*text, "Not finished: ")) << *text;
    EXPECT_TRUE(holds(*text, fmt::format("cells: {} done", summary.at("num_done").get<int>()))) << *text;
    EXPECT_FALSE(holds(*text, "no speculative cell is faster")) << *text;
  }
}

void expect_interrupted(const LongRun& run) {
  const nlohmann::json summary = run.workspace.summary();
  EXPECT_EQ(summary.at("status"), "interrupted");
  EXPECT_EQ(nlohmann::json::parse(read_file(run.workspace.results() / "latest/manifest.json")).at("status"),
            "interrupted");
  for (const auto& cell : summary.at("cells")) {
    if (cell.at("status") == "done")
      EXPECT_GT(cell.at("output_tok_s").get<double>(), 0);
    else
      EXPECT_TRUE(holds(cell.at("reason"), "interrupted")) << cell.at("reason");
  }
}

const std::vector<std::string> kManyRepetitions = {"--set", "measure.repetitions=10000"};
const std::vector<std::string> kLongPass = {"--set", "workload.requests=5000", "--set", "measure.warmup_requests=0",
                                            "--set", "sampling.max_tokens=96"};

TEST(Interrupt, OnceFinishesThePassAndWritesTheSummary) {
  LongRun run(kManyRepetitions, " s pass ");
  ASSERT_TRUE(run.process().running());
  run.process().send(SIGINT);
  ProcessResult result;
  EXPECT_LT(seconds_to_end(run.process(), result), 3 * time_factor());
  EXPECT_EQ(result.exit_code, 130) << described(result);
  EXPECT_TRUE(holds(result.err, "stopping after this repetition; interrupt again to stop now")) << result.err;
  EXPECT_TRUE(holds(result.out, "report  ")) << result.out;
  EXPECT_TRUE(holds(result.err, " of 10000 repetitions)")) << result.err;
  // The results lie elsewhere than commands look for them: the hint names the folder, or it would find nothing.
  const std::string hint = "continue with: runexp resume ";
  const size_t at = result.err.find(hint);
  ASSERT_NE(at, std::string::npos) << result.err;
  const std::string pasted = result.err.substr(at + hint.size(), result.err.find('\n', at) - at - hint.size());
  EXPECT_EQ(runexp({"show", pasted}).exit_code, 0) << pasted;
  expect_interrupted(run);
  expect_one_story(run, result.out);
}

TEST(Interrupt, AGateSaysThatItJudgedNothing) {
  const Workspace earlier;
  const std::string baseline = (earlier.folder() / "baseline.json").string();
  const ProcessResult written = runexp({"regress", earlier.config().string(), "--update-baseline", "--baseline",
                                        baseline, "--results", earlier.results().string()});
  ASSERT_EQ(written.exit_code, 0) << described(written);
  const std::filesystem::path junit = earlier.folder() / "j.xml";
  write_file(junit, "of an earlier run");
  LongRun run({"--set", "measure.repetitions=10000", "--baseline", baseline, "--junit", junit.string()}, " s pass ",
              "regress");
  ASSERT_TRUE(run.process().running());
  run.process().send(SIGINT);
  const ProcessResult result = run.process().finish();
  EXPECT_EQ(result.exit_code, 130) << described(result);
  EXPECT_TRUE(holds(result.err, "the gate has judged nothing")) << result.err;
  EXPECT_TRUE(holds(read_file(junit), "<error type=\"not judged\" message=\"the run was interrupted")) << read_file(junit);
}

TEST(Interrupt, TwiceStopsNow) {
  LongRun run(kLongPass, " s load ");  // its pass begins right after
  ASSERT_TRUE(run.process().running());
  run.process().send(SIGINT);
  EXPECT_TRUE(run.process().wait_for_stderr("interrupt again to stop now", 3 * time_factor()));
  run.process().wait(0.3);
  EXPECT_TRUE(run.process().running()) << "the first one waits for the end of the pass";
  run.process().send(SIGINT);
  ProcessResult result;
  EXPECT_LT(seconds_to_end(run.process(), result), 3 * time_factor());
  EXPECT_EQ(result.exit_code, 130) << described(result);
  expect_interrupted(run);
  expect_one_story(run, result.out);
}

TEST(Interrupt, TerminateAndHangUpAreOrderlyToo) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    LongRun run(kManyRepetitions, " s pass ");
    ASSERT_TRUE(run.process().running());
    run.process().send(signal);
    const ProcessResult result = run.process().finish();
    EXPECT_EQ(result.exit_code, 143) << described(result);
    expect_interrupted(run);
  }
}

TEST(Interrupt, ARunUnderWayIsShownAsSuch) {
  LongRun run({"--set", "measure.repetitions=10000", "--axis", "pp=1,2"}, " s pass ");
  ASSERT_TRUE(run.process().running());
  const auto shown = [&] { return runexp({"show", "--results", run.workspace.results().string()}).out; };
  const std::string under_way = shown();
  EXPECT_TRUE(holds(under_way, "not run yet: the run goes on")) << under_way;
  EXPECT_TRUE(holds(under_way, "  report  none in ")) << under_way;
  run.process().send(SIGTERM);
  EXPECT_EQ(run.process().finish().exit_code, 143);
  const std::string over = shown();
  EXPECT_FALSE(holds(over, "the run goes on") || holds(over, "  report  none in ")) << over;
}

TEST(Interrupt, OnceInTheLastPassCutsNothing) {
  // Of some seconds, and the only one; it begins right after the load.
  const std::string requests = time_factor() > 1 ? "200" : "120";
  LongRun run({"--axis", "proposer=none", "--set", "workload.requests=" + requests, "--set",
               "measure.warmup_requests=0", "--set", "sampling.max_tokens=96", "--set", "sampling.ignore_eos=true"},
              " s load ");
  ASSERT_TRUE(run.process().running());
  run.process().send(SIGINT);
  const ProcessResult result = run.process().finish();
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_TRUE(holds(result.err, "stopping after this repetition")) << result.err;
  EXPECT_FALSE(holds(result.err, "runexp resume")) << result.err;
  EXPECT_EQ(run.workspace.summary().at("status"), "done");
}

TEST(Interrupt, AHalfWrittenCheckpointIsTakenAway) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const TempDir dir;
    Process process(runexp_argv({"inflate", "builtin:target-7m", "llama-3.2-1b", (dir / "big").string()}),
                    {.folder = kSource, .environment = {}, .timeout_s = 60 * time_factor(), .streams = Streams::pipes});
    const auto is_writing = [&] {
      for (const auto& part : std::filesystem::directory_iterator(dir.path()))
        if (std::filesystem::exists(part.path() / "model.safetensors")) return true;
      return false;
    };
    for (int i = 0; i < 1000 && process.running() && !is_writing(); ++i) process.wait(0.01);
    process.send(signal);
    const ProcessResult result = process.finish();
    EXPECT_EQ(result.exit_code, 128 + signal) << described(result);
    EXPECT_TRUE(holds(result.err, "big: stopped, nothing of it is left")) << result.err;
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  }
}

TEST(Interrupt, GenerateEndsAtOnce) {
  Process process(runexp_argv({"generate", "hi", "--max-tokens", "1000000", "--proposer", "none"}),
                  {.folder = kSource, .environment = {}, .timeout_s = 20, .streams = Streams::pipes});
  process.send(SIGINT);
  ProcessResult result;
  EXPECT_LT(seconds_to_end(process, result), 2 * time_factor());
  EXPECT_EQ(result.signal, SIGINT) << described(result);
}

}  // namespace
}  // namespace paceline::test
