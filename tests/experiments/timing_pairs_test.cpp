// Two binaries by turns: made-up programs that say what their cells cost.

#include "experiments/run/timing_pairs.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/error.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCell = R"({"id": "%s", "status": "done", "axes": {"tp": %d, "pp": 1}, "repetitions": [
  {"wall_s": 0.5, "output_hash": "%s", "counters": {"steps": 7}%s}]})";

/// A program that notes its letter in a log and writes cells as runexp does: after --results comes the folder.
class FakeBinaries {
 public:
  fs::path add(const std::string& letter, const std::string& body) const {
    const fs::path file = dir_ / ("runexp-" + letter);
    test::write_file(file, fmt::format(R"sh(#!/bin/sh
echo {0} >> '{1}'
while [ "$1" != --results ]; do shift; done
out="$2/run/cells"
cell() {{ mkdir -p "$out/$1"; cat > "$out/$1/cell.json"; }}
n=$(grep -c {0} '{1}')
{2}
)sh",
                                       letter, log().string(), body));
    fs::permissions(file, fs::perms::owner_all);
    return file;
  }
  /// One cell of one rank whose CPU time is `base` ms, and 0 to 3 ms more from run to run.
  fs::path add_timed(const std::string& letter, int base_ms, const std::string& hash = "same") const {
    return add(letter, fmt::format("ms=$(({} + n * 7 % 4))\n"
                                   "printf '{}' one 1 {} \", \\\"cpu_s\\\": $((ms / 1000)).$(printf %03d $((ms % "
                                   "1000))), \\\"cpu_wait_s\\\": 0\" | cell 000_one",
                                   base_ms, kCell, hash));
  }
  fs::path log() const { return dir_ / "log"; }
  std::string letters() const {
    std::string all;
    std::ifstream in(log());
    for (std::string line; std::getline(in, line);) all += line;
    return all;
  }
  const fs::path& path() const { return dir_.path(); }

 private:
  test::TempDir dir_;
};

PairPlan plan_of(const fs::path& baseline, const fs::path& now, int pairs) {
  return {.baseline_bin = baseline,
          .now_bin = now,
          .arguments = {"config.json"},
          .pairs = pairs,
          .timeout_s = 60,
          .interrupts = {},
          .on_pair_done = {}};
}

TEST(TimingPairs, RunsByTurnsAfterAWarmUpOfEach) {
  const FakeBinaries binaries;
  const fs::path a = binaries.add_timed("A", 400), b = binaries.add_timed("B", 400);
  int done = 0;
  PairPlan plan = plan_of(a, b, 9);
  plan.on_pair_done = [&](int pairs) { EXPECT_EQ(pairs, ++done); };
  const PairTimes times = time_pairs(plan);
  EXPECT_EQ(binaries.letters(),
            "AB"
            "ABBAABBAABBAABBAAB");
  EXPECT_EQ(done, 9);
  ASSERT_EQ(times.cells.size(), 1u);
  EXPECT_EQ(times.cells[0].id, "one");
  EXPECT_EQ(times.cells[0].pairs.size(), 9u);
  EXPECT_TRUE(times.cells[0].judged && times.cells[0].same_work);
  EXPECT_FALSE(times.whole_process);
  EXPECT_NEAR(times.cells[0].pairs[0].baseline_s, 0.402, 1e-9);  // the second run of A: 400 + 2 * 7 % 4
}

TEST(TimingPairs, FivePerCentIsCaughtAndEqualProgramsPass) {
  const FakeBinaries binaries;
  const fs::path a = binaries.add_timed("A", 400), b = binaries.add_timed("B", 400),
                 slow = binaries.add_timed("S", 420);
  EXPECT_FALSE(judge_timing(time_pairs(plan_of(a, b, kTimingPairs)).cells).front().fails());
  const TimingVerdict verdict = judge_timing(time_pairs(plan_of(a, slow, kTimingPairs)).cells).front();
  EXPECT_TRUE(verdict.fails());
  EXPECT_NEAR(verdict.median_ratio, 1.05, 0.01);
}

// Of two threads one has lost its work: as much CPU time, twice the wall time.
TEST(TimingPairs, AProgramThatWaitsMoreIsTold) {
  const FakeBinaries binaries;
  const auto waiting = [&](const char* letter, int wall_s) {
    return binaries.add(letter, fmt::format("printf '{}' one 1 same \", \\\"cpu_s\\\": 0.40$((n * 7 % 4)), "
                                            "\\\"cpu_wait_s\\\": 0\" | sed 's/: 0.5,/: {}.0'$((n * 5 % 3))',/' | cell "
                                            "000_one",
                                            kCell, wall_s));
  };
  const fs::path quick = waiting("A", 1), slow = waiting("B", 2);
  const TimingVerdict verdict = judge_timing(time_pairs(plan_of(quick, slow, kTimingPairs)).cells).front();
  EXPECT_FALSE(verdict.fails());
  ASSERT_TRUE(verdict.waits);
  EXPECT_NEAR(*verdict.waits, 2, 0.1);
  EXPECT_FALSE(judge_timing(time_pairs(plan_of(quick, quick, kTimingPairs)).cells).front().waits);
}

TEST(TimingPairs, OtherWorkIsSaidAndRanksAreAdvice) {
  const FakeBinaries binaries;
  const std::string cpu = ", \\\"cpu_s\\\": 0.4, \\\"cpu_wait_s\\\": 0.1";
  const auto body = [&](const std::string& hash) {
    return fmt::format("printf '{0}' one 1 {1} \"{2}\" | cell 000_one\nprintf '{0}' two 2 same \"{2}\" | cell 001_two",
                       kCell, hash, cpu);
  };
  const PairTimes times =
      time_pairs(plan_of(binaries.add("A", body("x")), binaries.add("B", body("y")), fewest_timing_pairs(1)));
  ASSERT_EQ(times.cells.size(), 2u);
  EXPECT_FALSE(times.cells[0].same_work);
  EXPECT_TRUE(times.cells[1].same_work);
  EXPECT_FALSE(times.cells[1].judged);
  EXPECT_NEAR(times.cells[0].pairs[0].now_s, 0.3, 1e-12) << "wait loops are no work";
  EXPECT_NEAR(times.cells[1].pairs[0].now_s, 0.5, 1e-12) << "wall time";
}

TEST(TimingPairs, AnOlderProgramIsTimedAsAWhole) {
  const FakeBinaries binaries;
  const fs::path old = binaries.add("A", fmt::format("printf '{}' one 1 same '' | cell 000_one", kCell));
  const PairTimes times = time_pairs(plan_of(old, binaries.add_timed("B", 400), 8));
  EXPECT_TRUE(times.whole_process);
  ASSERT_EQ(times.cells.size(), 1u);
  EXPECT_EQ(times.cells[0].id, "process");
  EXPECT_EQ(times.cells[0].pairs.size(), 8u);
}

TEST(TimingPairs, DisturbedPairsAreKeptApartWhereBothProgramsSaySo) {
  const FakeBinaries binaries;
  const auto body = [](const std::string& foreign) {
    const std::string cpu = ", \\\"cpu_s\\\": 0.4, \\\"cpu_wait_s\\\": 0";
    return fmt::format(
        "f=0; if {}; then f=0.5; fi\nprintf '{}' one 1 same \"{}, \\\"disturbance\\\": {{\\\"wall_s\\\": "
        "1, \\\"cores\\\": 2, \\\"foreign_cpu_s\\\": $f}}\" | cell 000_one",
        foreign, kCell, cpu);
  };
  const fs::path quiet = binaries.add("A", body("false")), always = binaries.add("N", body("true")),
                 some = binaries.add("S", body("[ $((n % 4)) = 0 ]"));
  const PairTimes now_and_then = time_pairs(plan_of(quiet, some, 9));
  EXPECT_EQ(now_and_then.cells[0].pairs.size(), 7u);
  EXPECT_EQ(now_and_then.cells[0].disturbed.size(), 2u);
  const PairTimes throughout = time_pairs(plan_of(quiet, always, 9));
  EXPECT_EQ(throughout.cells[0].pairs.size(), 0u);
  EXPECT_EQ(throughout.cells[0].disturbed.size(), 9u);
  const PairTimes one_sided = time_pairs(plan_of(binaries.add_timed("B", 400), always, 9));
  EXPECT_EQ(one_sided.cells[0].pairs.size(), 9u) << "an older program does not say";
  EXPECT_TRUE(one_sided.cells[0].disturbed.empty());
}

TEST(TimingPairs, OtherNumbersOfThreadsAreSaid) {
  const FakeBinaries binaries;
  const auto with_threads = [&](const std::string& letter, int threads) {
    return binaries.add(
        letter,
        fmt::format("printf '{}' one 1 same ', \"cpu_s\": 0.4, \"cpu_wait_s\": 0' | sed 's/\"status\"/\"effective\": "
                    "{{\"threads_per_rank\": {}}}, \"status\"/' | cell 000_one",
                    kCell, threads));
  };
  const fs::path two = with_threads("A", 2), four = with_threads("B", 4);
  EXPECT_FALSE(time_pairs(plan_of(two, four, 8)).cells[0].same_threads);
  EXPECT_TRUE(time_pairs(plan_of(two, two, 8)).cells[0].same_threads);
  EXPECT_TRUE(time_pairs(plan_of(two, binaries.add_timed("C", 400), 8)).cells[0].same_threads) << "does not say";
}

TEST(TimingPairs, TooFewPairsAreAUsageError) {
  const FakeBinaries binaries;
  const fs::path a = binaries.add_timed("A", 400);
  test::expect_error(ExitCode::usage,
                     {"--pairs 7: too few to find any slowdown in 1 cells at p < 0.005: use 8 or more"},
                     [&] { time_pairs(plan_of(a, a, 7)); });
}

TEST(BinaryRun, WhatGoesWrongIsOneLine) {
  const FakeBinaries binaries;
  const auto run = [&](const fs::path& binary, double timeout_s = 30) {
    return run_binary({.binary = binary,
                       .arguments = {"c.json"},
                       .scratch = binaries.path(),
                       .timeout_s = timeout_s,
                       .interrupts = {}});
  };
  test::expect_error(ExitCode::correctness, {"exit code 7: the tokens differ"},
                     [&] { run(binaries.add("C", "echo first >&2; echo the tokens differ >&2; exit 7")); });
  test::expect_error(ExitCode::usage, {"exit code 99: it printed no message"},
                     [&] { run(binaries.add("D", "exit 99")); });
  test::expect_error(ExitCode::store, {"left no finished cell"}, [&] { run(binaries.add("E", "exit 0")); });
  test::expect_error(ExitCode::store, {"wrote a cell.json of another form"},
                     [&] { run(binaries.add("F", "echo 7 | cell x")); });
  test::expect_error(ExitCode::device, {"ended by signal 6"}, [&] { run(binaries.add("G", "kill -ABRT $$")); });
  test::expect_error(ExitCode::device, {"did not end within 0.2 s"},
                     [&] { run(binaries.add("H", "exec sleep 30"), 0.2); });
  test::expect_error(ExitCode::usage, {"cannot be started"}, [&] { run(binaries.path() / "absent"); });
  EXPECT_FALSE(fs::exists(binaries.path() / "results" / "run")) << "results are removed again";
}

TEST(BinaryRun, AStopOfTheUserEndsTheProgram) {
  const FakeBinaries binaries;
  const fs::path sleeper = binaries.add("A", "exec sleep 30");
  test::expect_error(ExitCode::interrupted, {"stopped by the user"}, [&] {
    run_binary({.binary = sleeper, .arguments = {}, .scratch = binaries.path(), .timeout_s = 25, .interrupts = [] {
                  return 1;
                }});
  });
}

}  // namespace
}  // namespace paceline
