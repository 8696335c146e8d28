// A run that is killed, wherever and however often, goes on and gives what it would have given.

#include <csignal>
#include <map>
#include <random>
#include <set>

#include "experiments/results/files/journal.h"
#include "tests/cli/runexp.h"
#include "tests/support/long_samples.h"
#include "tests/support/random_seed.h"

namespace paceline::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Three cells, two repetitions.
std::vector<std::string> resumable_args(const Workspace& workspace, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = {
      "run",   workspace.config().string(), "--results", workspace.results().string(), "--ui", "plain",
      "--set", "measure.repetitions=2",     "--axis",    "proposer=none,ngram,draft"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

ProcessResult run_with(const std::vector<std::string>& args, const std::vector<std::string>& environment = {}) {
  return run_process(
      runexp_argv(args),
      {.folder = kSource, .environment = environment, .timeout_s = 60 * time_factor(), .streams = Streams::pipes});
}

ProcessResult resume(const Workspace& workspace, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = {"resume", "last", "--results", workspace.results().string(), "--ui", "plain"};
  args.insert(args.end(), more.begin(), more.end());
  return run_with(args);
}

/// The folder of the only run; empty when there is none.
fs::path only_run(const Workspace& workspace) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(workspace.results(), none)) {
    if (!entry.is_symlink() && fs::exists(entry.path() / "manifest.json")) return entry.path();
  }
  return {};
}

/// Repetitions that the journal acknowledges: their records as text.
std::set<std::string> acknowledged(const fs::path& run) {
  std::set<std::string> out;
  if (run.empty()) return out;
  for (const json& record : parse_journal(read_file(run / kJournalFile), run).records) {
    if (record.at("event") == "repetition") out.insert(record.dump());
  }
  return out;
}

/// id -> hashes of the tokens of all repetitions.
std::map<std::string, json> token_hashes(const Workspace& workspace) {
  std::map<std::string, json> out;
  for (const json& cell : workspace.cells()) out[cell.at("id")] = cell.at("output_hashes");
  return out;
}

void expect_complete(const Workspace& workspace, const std::map<std::string, json>& expected) {
  const json summary = workspace.summary();
  EXPECT_EQ(summary.at("status"), "done");
  for (const json& cell : summary.at("cells")) {
    EXPECT_EQ(cell.at("status"), "done") << cell.at("id");
    EXPECT_EQ(cell.at("repetitions"), 2) << cell.at("id");
    EXPECT_NE(cell.at("certificate").at("status"), "fail");
    EXPECT_NE(cell.at("certificate").at("status"), "unverified");
  }
  EXPECT_EQ(token_hashes(workspace), expected);
}

/// Disk calls of a run, or up to an eighth more.
int num_disk_calls() {
  const auto is_killed_at = [](int call) {
    const Workspace workspace;
    return run_with(resumable_args(workspace, {"--in-process"}), {fmt::format("PACELINE_FAIL=any:kill:{}", call)})
               .exit_code != 0;
  };
  int high = 128;
  while (is_killed_at(high)) high *= 2;
  for (int low = high / 2; high - low > high / 8;) {
    const int middle = (low + high) / 2;
    (is_killed_at(middle) ? low : high) = middle;
  }
  return high;
}

int num_kill_points() { return long_samples() ? 500 : time_factor() > 1 ? 6 : 16; }

class Resume : public ::testing::Test {
 protected:
  struct Undisturbed {
    std::map<std::string, json> hashes;
    double wall_s = 0;
  };
  /// What an undisturbed run gives, and how long it takes.
  static const Undisturbed& undisturbed() {
    static const Undisturbed run = [] {
      const Workspace workspace;
      const ProcessResult result = run_with(resumable_args(workspace));
      EXPECT_EQ(result.exit_code, 0) << described(result);
      return Undisturbed{token_hashes(workspace), result.wall_s};
    }();
    return run;
  }
};

TEST_F(Resume, KeepsWhereValuesWereWritten) {
  const Workspace workspace;
  ASSERT_EQ(run_with(resumable_args(workspace)).exit_code, 0);
  const fs::path manifest = only_run(workspace) / "manifest.json";
  const json first = json::parse(read_file(manifest)).at("config_origins");
  EXPECT_EQ(first.at("measure.repetitions"), "--set");
  EXPECT_EQ(first.at("sweep.axes.speculation.proposer"), "--axis");
  EXPECT_EQ(first.at("name").get<std::string>().find(workspace.config().string() + ":"), 0u) << first;
  EXPECT_FALSE(first.contains("sampling.min_p")) << "a default";
  ASSERT_EQ(resume(workspace, {"--axis", "k=2,3"}).exit_code, 0);
  json expected = first;
  expected["sweep.axes.speculation.num_speculative_tokens"] = "--axis";
  EXPECT_EQ(json::parse(read_file(manifest)).at("config_origins"), expected);
  EXPECT_NE(read_file(only_run(workspace) / "report.html").find("Each value and where it was written."),
            std::string::npos);
}

TEST_F(Resume, LosesNothingWhereverItIsKilled) {
  const double wall_s = undisturbed().wall_s;
  const int disk_calls = num_disk_calls();
  const uint32_t seed = random_seed();
  std::mt19937 random(seed);
  const int points = num_kill_points();
  int with_record = 0;
  std::map<size_t, int> points_by_acknowledged;  // repetitions that were on disk when it was killed
  // A small sample may by chance hit runs without a folder only: it goes on then.
  for (int point = 0; point < points || (with_record <= points / 4 && point < 3 * points); ++point) {
    const Workspace workspace;
    // Half of them by the disk calls of the process itself, so that every kind of call is hit; half by the clock.
    std::string where;
    if (point % 2 == 0) {
      where = fmt::format("PACELINE_FAIL=any:kill:{}", 1 + random() % size_t(disk_calls));
      run_with(resumable_args(workspace, {"--in-process"}), {where});
    } else {
      const double after = double(random() % 1000) / 1000 * wall_s;
      where = fmt::format("after {} s", after);
      Process process(runexp_argv(resumable_args(workspace)),
                      {.folder = kSource, .environment = {}, .timeout_s = 60, .streams = Streams::pipes});
      process.wait(after);
      process.send(SIGKILL);
      process.finish();
      for (int i = 0; i < 200 && !only_run(workspace).empty(); ++i) {  // its child dies with it, a moment later
        if (run_with({"list", "--results", workspace.results().string()}).out.find("running") == std::string::npos)
          break;
      }
    }
    SCOPED_TRACE(fmt::format("{}, {}={}", where, kSeedVariable, seed));
    const std::set<std::string> before = acknowledged(only_run(workspace));
    if (only_run(workspace).empty()) continue;
    ++with_record;
    ++points_by_acknowledged[before.size()];
    const ProcessResult result = resume(workspace);
    ASSERT_EQ(result.exit_code, 0) << described(result);
    expect_complete(workspace, undisturbed().hashes);
    const std::set<std::string> after = acknowledged(only_run(workspace));
    for (const std::string& record : before) EXPECT_TRUE(after.contains(record)) << "lost: " << record;
    EXPECT_EQ(after.size(), 6u);
    if (HasFailure()) return;
  }
  EXPECT_GT(with_record, points / 4);
  nlohmann::ordered_json acknowledged_at;
  for (const auto& [repetitions, count] : points_by_acknowledged)
    acknowledged_at[fmt::format("{} of 6", repetitions)] = count;
  record_long_sample("kill_points", {{"what", "kill -9, half at a disk call, half by the clock; then resume"},
                                     {"kill_points", points},
                                     {"after_the_run_had_a_folder", with_record},
                                     {"repetitions_acknowledged_when_killed", acknowledged_at},
                                     {"acknowledged_repetitions_lost", 0},
                                     {"runs_with_other_tokens", 0}});
}

TEST_F(Resume, AFullDiskEndsTheRunAndWhatWasFinishedStays) {
  const std::vector<std::string> faults = {"write:ENOSPC:2", "write:ENOSPC:11", "write:short:5",   "write:short:14",
                                           "fsync:EIO:3",    "fsync:EIO:17",    "rename:EDQUOT:4", "open:EROFS:6",
                                           "mkdir:EACCES:2", "symlink:EIO:1"};
  const size_t stride = time_factor() > 1 ? 3 : 1;
  for (size_t i = 0; i < faults.size(); i += stride) {
    const std::string& fault = faults[i];
    const Workspace workspace;
    SCOPED_TRACE(fault);
    const ProcessResult broken = run_with(resumable_args(workspace), {"PACELINE_FAIL=" + fault});
    ASSERT_EQ(broken.exit_code, 6) << described(broken);
    EXPECT_TRUE(holds(broken.err, "--results")) << broken.err;
    if (!only_run(workspace).empty()) {
      EXPECT_TRUE(holds(broken.err, "runexp resume " + only_run(workspace).string())) << broken.err;
    }
    if (fault.starts_with("symlink")) {  // the last thing that is written: all was measured
      EXPECT_TRUE(holds(broken.out, "3 cells: 3 done")) << broken.out;
      EXPECT_FALSE(holds(broken.out, "report  ")) << broken.out;
      const std::string next =
          "; what was measured is in the journal: runexp resume " + only_run(workspace).string() + " writes the rest\n";
      EXPECT_TRUE(broken.err.ends_with(next)) << broken.err;
    }
    if (only_run(workspace).empty()) continue;
    const std::set<std::string> before = acknowledged(only_run(workspace));
    const ProcessResult result = resume(workspace);
    ASSERT_EQ(result.exit_code, 0) << described(result);
    expect_complete(workspace, undisturbed().hashes);
    const std::set<std::string> after = acknowledged(only_run(workspace));
    for (const std::string& record : before) EXPECT_TRUE(after.contains(record));
  }
}

TEST_F(Resume, WhatKillsTheProcessIsTriedAgain) {
  // Every process dies at that write of its own, each a little further on, and the last one has fewer left.
  int in_a_cell = 0;
  for (const int call : {20, 23, 26, 29}) {
    const Workspace workspace;
    const ProcessResult result =
        run_with(resumable_args(workspace), {fmt::format("PACELINE_FAIL=write:kill:{}", call)});
    SCOPED_TRACE(described(result));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_TRUE(holds(result.err, "killed by signal 9")) << result.err;
    in_a_cell += holds(result.err, "trying again (2 of 3)") ? 1 : 0;
    expect_complete(workspace, undisturbed().hashes);
  }
  EXPECT_GT(in_a_cell, 0);
}

TEST_F(Resume, ACellThatKillsThreeProcessesFailsAndTheSweepGoesOn) {
  // Every process dies at its seventh write: within a cell, and at last within the report.
  const Workspace workspace;
  const ProcessResult result = run_with(resumable_args(workspace), {"PACELINE_FAIL=write:kill:7"});
  SCOPED_TRACE(described(result));
  EXPECT_TRUE(holds(result.err, "trying again (3 of 3)")) << result.err;
  EXPECT_TRUE(holds(result.err, "failed: killed by signal 9")) << result.err;
  EXPECT_TRUE(holds(result.err, "nothing more gets recorded")) << result.err;
  EXPECT_EQ(result.exit_code, 4);
  // The record holds the failure, which a report shows and a resumed run tries again.
  EXPECT_EQ(resume(workspace, {"--keep-failed"}).exit_code, 1);
  int failed = 0;
  for (const json& cell : workspace.cells()) {
    if (cell.at("status") != "failed") continue;
    ++failed;
    EXPECT_TRUE(holds(cell.at("reason"), "killed by signal 9")) << cell.at("reason");
    EXPECT_TRUE(holds(cell.at("reason"), "3 times")) << cell.at("reason");
  }
  EXPECT_GT(failed, 0);
  EXPECT_EQ(resume(workspace).exit_code, 0);
  expect_complete(workspace, undisturbed().hashes);
}

/// What the journal says of the order of measuring: the tp of each repetition, in order, and the visits of loads.
struct MeasuringOrder {
  std::vector<int> tp;
  std::vector<json> visits;

  explicit MeasuringOrder(const Workspace& workspace) {
    const fs::path run = only_run(workspace);
    std::map<std::string, int> tp_of;
    for (const json& record : parse_journal(read_file(run / kJournalFile), run).records) {
      if (record.at("event") == "plan")
        for (const json& cell : record.at("cells"))
          tp_of[cell.at("plan").at("identity")] = cell.at("plan").at("axes").at("tp");
      if (record.at("event") == "repetition") tp.push_back(tp_of.at(record.at("cell")));
      if (record.contains("order")) visits.push_back(record.at("order"));
    }
  }
};

/// Two loads, four repetitions.
std::vector<std::string> two_loads(const Workspace& workspace, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = {"run",       workspace.config().string(),
                                   "--results", workspace.results().string(),
                                   "--ui",      "plain",
                                   "--set",     "measure.repetitions=4",
                                   "--set",     "measure.warmup_requests=0",
                                   "--axis",    "tp=1,2",
                                   "--axis",    "proposer=none"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST_F(Resume, LoadsAreMeasuredThereAndBackAndTheJournalSaysSo) {
  const Workspace workspace;
  ASSERT_EQ(run_with(two_loads(workspace, {"--set", "sampling.max_tokens=200"})).exit_code, 0);
  const MeasuringOrder order(workspace);
  ASSERT_FALSE(order.visits.empty());
  EXPECT_EQ(order.visits[0].at("way"), 1);
  EXPECT_EQ(order.visits[0].at("until"), 2);
  const bool dear = order.visits[1].contains("reload_share");
  if (dear) {
    EXPECT_GE(order.visits[1].at("reload_share").get<double>(), 0.1);
    EXPECT_EQ(order.tp, (std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2}));
  } else {
    ASSERT_EQ(order.visits.size(), 3u);
    EXPECT_EQ(order.visits[2].at("way"), 2);
    EXPECT_EQ(order.tp, (std::vector<int>{1, 1, 2, 2, 2, 2, 1, 1}));
  }
  // Killed anywhere, the other half is measured by the process that goes on.
  for (const int write : {12, 16, 20, 24}) {
    const Workspace killed;
    run_with(two_loads(killed, {"--set", "sampling.max_tokens=200", "--set", "sweep.max_failures=1"}),
             {"PACELINE_FAIL=write:kill:" + std::to_string(write)});
    ASSERT_EQ(resume(killed).exit_code, 0) << write;
    EXPECT_EQ(token_hashes(killed), token_hashes(workspace)) << write;
    EXPECT_EQ(std::ssize(MeasuringOrder(killed).tp), 8) << write;
  }
}

TEST_F(Resume, AnOddRepetitionIsMeasuredOnAThirdWay) {
  const Workspace workspace;
  ASSERT_EQ(
      run_with(two_loads(workspace, {"--set", "sampling.max_tokens=200", "--set", "measure.repetitions=3"})).exit_code,
      0);
  const MeasuringOrder order(workspace);
  const bool dear = std::any_of(order.visits.begin(), order.visits.end(),
                                [](const json& visit) { return visit.contains("reload_share"); });
  if (dear) {
    EXPECT_EQ(order.tp.size(), 6u);
  } else {
    EXPECT_EQ(order.tp, (std::vector<int>{1, 2, 2, 1, 1, 2}));
    EXPECT_EQ(order.visits.back().at("way"), 3);
  }
}

TEST_F(Resume, AGrownSweepRunsNothingAgain) {
  const Workspace workspace;
  ASSERT_EQ(run_with(resumable_args(workspace)).exit_code, 0);
  const std::set<std::string> before = acknowledged(only_run(workspace));
  const ProcessResult result = resume(workspace, {"--axis", "k=3,5"});
  SCOPED_TRACE(described(result));
  ASSERT_EQ(result.exit_code, 0);
  const std::set<std::string> after = acknowledged(only_run(workspace));
  for (const std::string& record : before) EXPECT_TRUE(after.contains(record));
  EXPECT_EQ(after.size(), before.size() + 4u) << "two new cells of two repetitions";
  EXPECT_EQ(workspace.cells().size(), 5u);
  for (const json& cell : workspace.cells()) {
    EXPECT_EQ(cell.at("status"), "done");
    // Two repetitions in one load are by turns; those of the grown sweep come after all of the baseline's.
    EXPECT_EQ(cell.at("paired_with_baseline"), cell.at("axes").at("num_speculative_tokens") != 5) << cell.at("id");
    if (cell.at("axes").at("proposer") != "none") {
      EXPECT_TRUE(cell.at("baseline_apart_s").is_number());
    }
  }
  // Values that are not named again stay, those of a key that was no axis too.
  ASSERT_EQ(resume(workspace, {"--axis", "k=5"}).exit_code, 0);
  EXPECT_EQ(workspace.cells().size(), 5u);
  EXPECT_EQ(acknowledged(only_run(workspace)), after);
  ASSERT_EQ(resume(workspace, {"--axis", "concurrency=2", "--axis", "tp=1"}).exit_code, 0);
  EXPECT_EQ(workspace.cells().size(), 10u);
  for (const std::string& record : after) EXPECT_TRUE(acknowledged(only_run(workspace)).contains(record));
  // A run that is complete has nothing to do.
  const std::set<std::string> all = acknowledged(only_run(workspace));
  EXPECT_EQ(resume(workspace).exit_code, 0);
  EXPECT_EQ(acknowledged(only_run(workspace)), all);
}

// Zipped axes may hold a value twice: it is another cell each time.
TEST_F(Resume, AGrownSweepKeepsItsZippedCells) {
  const Workspace workspace;
  ASSERT_EQ(run_with({"run", workspace.config().string(), "--results", workspace.results().string(), "--axis",
                      "concurrency=1,1,2", "--axis", "sampling.max_tokens=4,8,8", "--set",
                      "sweep.zip=[[\"load.concurrency\", \"sampling.max_tokens\"]]"})
                .exit_code,
            0);
  EXPECT_EQ(workspace.cells().size(), 6u);
  const ProcessResult result = resume(workspace, {"--axis", "k=5"});
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_EQ(workspace.cells().size(), 9u);
}

TEST_F(Resume, AnAxisOverAnExpressionIsRefused) {
  const Workspace workspace;
  ASSERT_EQ(run_with(resumable_args(workspace, {"--set", "load.concurrency==1+1"})).exit_code, 0);
  const ProcessResult result = resume(workspace, {"--axis", "concurrency=4"});
  EXPECT_EQ(result.exit_code, 2) << described(result);
  EXPECT_TRUE(holds(result.err, "--axis load.concurrency: an expression gives this key its value")) << result.err;
}

TEST_F(Resume, KeepsTheOrderOfThePlan) {
  const Workspace workspace;
  ASSERT_EQ(run_with(resumable_args(workspace, {"--axis", "k=1,3"})).exit_code, 0);
  const auto order = [&] {
    std::vector<std::string> ids;
    for (const json& cell : workspace.cells()) ids.push_back(cell.at("id"));
    return ids;
  };
  const std::vector<std::string> planned = order();
  ASSERT_EQ(planned.size(), 5u);
  ASSERT_EQ(resume(workspace).exit_code, 0);
  EXPECT_EQ(order(), planned);
}

TEST_F(Resume, RefusesOtherInputs) {
  const Workspace workspace;
  const fs::path data = workspace.folder() / "prompts.jsonl";
  fs::copy_file(kSource / "configs/workloads/reading_qa.jsonl", data);
  ASSERT_EQ(run_with(resumable_args(workspace, {"--set", "workload.dataset=" + data.string()})).exit_code, 0);
  std::string text = read_file(data);
  text.insert(text.find('{') + 1, " ");
  write_file(data, text);
  const ProcessResult result = resume(workspace);
  EXPECT_EQ(result.exit_code, 2) << described(result);
  EXPECT_TRUE(holds(result.err, "prompts.jsonl: changed")) << result.err;
  fs::remove(only_run(workspace) / "environment.json");
  const ProcessResult without = resume(workspace);
  EXPECT_EQ(without.exit_code, 2) << described(without);
  EXPECT_TRUE(holds(without.err, "environment.json, which names the program's build: is gone")) << without.err;
}

TEST_F(Resume, ACompleteRunOfAnotherBuildStaysAsItIs) {
  const Workspace workspace;
  ASSERT_EQ(run_with(resumable_args(workspace)).exit_code, 0);
  const fs::path file = only_run(workspace) / "environment.json";
  json environment = json::parse(read_file(file));
  environment["binary_hash"] = "of another build";
  write_file(file, environment.dump());
  const ProcessResult result = resume(workspace);
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_FALSE(json::parse(read_file(file)).contains("mixed_builds"));
  const ProcessResult more = resume(workspace, {"--axis", "k=2,3"});
  EXPECT_EQ(more.exit_code, 2) << described(more);
  EXPECT_TRUE(holds(more.err, "the program: another build")) << more.err;
}

TEST_F(Resume, RefusesATemplatePutBesideTheModel) {
  const Workspace workspace;
  const fs::path model = workspace.copy_model(kSource / "configs/models/draft-600k", "model");
  ASSERT_EQ(run_with({"run", workspace.config().string(), "--results", workspace.results().string(), "--set",
                      "engine.target.path=" + model.string()})
                .exit_code,
            0);
  write_file(model / "chat_template.jinja", "{{ messages[0].content }}");
  const ProcessResult result = resume(workspace);
  EXPECT_EQ(result.exit_code, 2) << described(result);
  EXPECT_TRUE(holds(result.err, "chat_template.jinja: is new")) << result.err;
}

TEST_F(Resume, KeepsTheThreadsOfTheCellsItHas) {
  const Workspace workspace;
  ASSERT_EQ(run_with(resumable_args(workspace)).exit_code, 0);
  const json threads = workspace.cells().front().at("effective").at("threads_per_rank");
  const ProcessResult result = resume(workspace, {"--axis", "tp=1,2", "--axis", "k=3,4"});
  ASSERT_EQ(result.exit_code, 0) << described(result);
  for (const json& cell : workspace.cells()) EXPECT_EQ(cell.at("effective").at("threads_per_rank"), threads);
}

TEST_F(Resume, ACrashInOneCellLeavesOthersAlone) {
  const Workspace workspace;
  // Three processes die within the first cell, each in one command of its own; then it gets by.
  for (int i = 0; i < 3; ++i) {
    if (i == 0)
      run_with(resumable_args(workspace, {"--in-process"}), {"PACELINE_FAIL=write:kill:9"});
    else
      run_with({"resume", "--in-process", "--results", workspace.results().string()}, {"PACELINE_FAIL=write:kill:6"});
  }
  ASSERT_FALSE(only_run(workspace).empty());
  const ProcessResult result =
      run_with({"resume", "--results", workspace.results().string()}, {"PACELINE_FAIL=write:kill:24"});
  EXPECT_EQ(result.exit_code, 0) << described(result);
  expect_complete(workspace, undisturbed().hashes);
}

TEST_F(Resume, ClosedStreamsDoNotReachTheRecord) {
  const Workspace workspace;
  std::string command = "exec";
  for (const std::string& word : runexp_argv(resumable_args(workspace))) command += " '" + word + "'";
  const ProcessResult closed =
      run_process({"/bin/sh", "-c", command + " <&- >&- 2>&-"},
                  {.folder = kSource, .environment = {}, .timeout_s = 60 * time_factor(), .streams = Streams::pipes});
  EXPECT_EQ(closed.exit_code, 0) << described(closed);
  EXPECT_EQ(resume(workspace).exit_code, 0);
  expect_complete(workspace, undisturbed().hashes);
  const ProcessResult full =
      run_process({"/bin/sh", "-c", command + " 2>/dev/full"}, {.folder = kSource,
                                                                .environment = {"PACELINE_FAIL=write:kill:24"},
                                                                .timeout_s = 60 * time_factor(),
                                                                .streams = Streams::pipes});
  EXPECT_EQ(full.exit_code, 0) << described(full);
}

TEST_F(Resume, ARunningRunIsLeftAlone) {
  const Workspace workspace;
  Process process(runexp_argv(resumable_args(workspace, {"--set", "measure.repetitions=1000"})),
                  {.folder = kSource, .environment = {}, .timeout_s = 60, .streams = Streams::pipes});
  for (int i = 0; i < 500 && only_run(workspace).empty(); ++i) process.wait(0.02);
  const ProcessResult result = resume(workspace);
  EXPECT_EQ(result.exit_code, 6) << described(result);
  EXPECT_TRUE(holds(result.err, "is working on this run")) << result.err;
  EXPECT_TRUE(holds(run_with({"list", "--results", workspace.results().string()}).out, "running"));
  process.send(SIGINT);
  EXPECT_EQ(process.finish().exit_code, 130);
}

TEST_F(Resume, ATornLineIsLeftOutAndADamagedOneNamed) {
  const Workspace workspace;
  ASSERT_EQ(run_with(resumable_args(workspace)).exit_code, 0);
  const fs::path journal = only_run(workspace) / kJournalFile;
  const std::string text = read_file(journal);
  write_file(journal, text + "0123abcd {\"event\":\"rep");
  const ProcessResult torn = resume(workspace);
  EXPECT_EQ(torn.exit_code, 0) << described(torn);
  EXPECT_TRUE(holds(torn.err, "half a record")) << torn.err;
  std::string damaged = text;
  damaged[text.size() / 2] ^= 1;
  write_file(journal, damaged);
  const ProcessResult result = resume(workspace);
  EXPECT_EQ(result.exit_code, 6) << described(result);
  EXPECT_TRUE(holds(result.err, "journal.log:")) << result.err;
}

}  // namespace
}  // namespace paceline::test
