// The timing gate on times that were made up, and on work that is really done.

#include "experiments/analysis/comparison/timing_gate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/long_samples.h"

namespace paceline {
namespace {

/// What CPU times of neighbouring runs look like: drift that both share, noise of their own, and now and then a run
/// that something else disturbed.
std::vector<TimingPair> noisy_pairs(int count, double slowdown, std::mt19937_64& random) {
  std::normal_distribution<double> noise;
  std::vector<TimingPair> pairs;
  double drift = 0;
  const auto run = [&](double factor) {
    const double disturbed = random() % 20 == 0 ? 1.3 : 1.0;
    return 0.3 * factor * std::exp(drift + 0.03 * noise(random)) * disturbed;
  };
  for (int i = 0; i < count; ++i) {
    drift += 0.02 * noise(random);
    pairs.push_back({.baseline_s = run(1), .now_s = run(slowdown)});
  }
  return pairs;
}

/// Windows of seven cells in which at least one fails.
int alarms(int windows, double slowdown, uint64_t seed) {
  std::mt19937_64 random(seed);
  int count = 0;
  for (int window = 0; window < windows; ++window) {
    std::vector<TimedCell> cells;
    for (int cell = 0; cell < 7; ++cell)
      cells.push_back({.id = std::to_string(cell), .pairs = noisy_pairs(kTimingPairs, slowdown, random)});
    bool fails = false;
    for (const TimingVerdict& verdict : judge_timing(cells)) fails = fails || verdict.fails();
    count += fails;
  }
  return count;
}

TEST(TimingGate, RaisesNoAlarmForEqualBinaries) { EXPECT_EQ(alarms(400, 1.0, 1), 0); }

TEST(TimingGate, CatchesFivePerCent) { EXPECT_GE(alarms(100, 1.05, 2), 99); }

TEST(TimingGate, SaysWhatItWouldSee) {
  // The slowdown that it names must fail about nine times in ten.
  for (const double noise : {0.03, 0.1}) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    const auto pairs = [&](double slowdown) {
      std::vector<TimingPair> out;
      for (int i = 0; i < kTimingPairs; ++i)
        out.push_back({.baseline_s = 1, .now_s = slowdown * std::exp(noise * normal(random))});
      return out;
    };
    double resolves = 0;
    for (int i = 0; i < 100; ++i) resolves += judge_timing({{.id = "a", .pairs = pairs(1)}}).front().resolves / 100;
    int caught = 0;
    for (int i = 0; i < 400; ++i) caught += judge_timing({{.id = "a", .pairs = pairs(1 + resolves)}}).front().fails();
    EXPECT_GE(caught, 330) << noise << " " << resolves;
    EXPECT_LE(caught, 385) << noise << " " << resolves;
  }
  EXPECT_TRUE(std::isinf(resolved_slowdown({})));
}

TEST(TimingGate, IsNotMovedBySpeedups) { EXPECT_EQ(alarms(50, 0.9, 3), 0); }

TEST(TimingGate, DriftThatBothMeetDoesNotCount) {
  std::vector<TimingPair> pairs;
  for (int i = 0; i < 40; ++i) {  // the machine slows down to a half; the order ABBA puts each first in turn
    const double now = 1 + i / 40.0, next = now + 1 / 80.0;
    pairs.push_back(i % 2 == 0 ? TimingPair{.baseline_s = now, .now_s = next}
                               : TimingPair{.baseline_s = next, .now_s = now});
  }
  const TimingVerdict verdict = judge_timing({{.id = "a", .pairs = pairs}}).front();
  EXPECT_FALSE(verdict.slower);
  EXPECT_GT(verdict.p_value, 0.2);
}

TEST(TimingGate, BothConditionsMustHold) {
  const auto verdict_of = [](std::vector<TimingPair> pairs) {
    return judge_timing({{.id = "a", .pairs = std::move(pairs)}}).front();
  };
  const std::vector<TimingPair> steady_2(40, {.baseline_s = 1, .now_s = 1.02});  // sure, but small
  EXPECT_LT(verdict_of(steady_2).p_value, 1e-9);
  EXPECT_FALSE(verdict_of(steady_2).fails());
  const std::vector<TimingPair> steady_5(40, {.baseline_s = 1, .now_s = 1.05});
  EXPECT_TRUE(verdict_of(steady_5).fails());
  EXPECT_NEAR(verdict_of(steady_5).median_ratio, 1.05, 1e-12);
  EXPECT_FALSE(verdict_of({steady_5.begin(), steady_5.begin() + 7}).fails()) << "2^-7 > 0.005";
  EXPECT_TRUE(verdict_of({steady_5.begin(), steady_5.begin() + 8}).fails()) << "2^-8 < 0.005";
}

TEST(TimingGate, CellsOfSeveralRanksAreAdviceAndCostNoPower) {
  const std::vector<TimingPair> slow(8, {.baseline_s = 1, .now_s = 1.5}), same(8, {.baseline_s = 1, .now_s = 1});
  const auto verdicts = judge_timing(
      {{.id = "one", .pairs = slow}, {.id = "two", .judged = false, .pairs = slow}, {.id = "three", .pairs = same}});
  EXPECT_TRUE(verdicts[1].slower);
  EXPECT_FALSE(verdicts[1].fails());
  EXPECT_DOUBLE_EQ(verdicts[0].adjusted_p, 2.0 / 256) << "Holm over the two judged cells";
  EXPECT_FALSE(verdicts[0].fails());
  EXPECT_EQ(fewest_timing_pairs(1), 8);
  EXPECT_EQ(fewest_timing_pairs(2), 9);
  EXPECT_EQ(fewest_timing_pairs(7), 11);
}

TEST(TimingGate, PairsWithoutTimesAreLeftOut) {
  std::vector<TimingPair> pairs(10, {.baseline_s = 1, .now_s = 1.2});
  pairs.push_back({.baseline_s = 0, .now_s = 1});
  pairs.push_back({.baseline_s = 1, .now_s = NAN});
  EXPECT_EQ(judge_timing({{.id = "a", .pairs = pairs}}).front().pairs, 10);
  EXPECT_FALSE(judge_timing({{.id = "a", .pairs = {}}}).front().fails());
  EXPECT_TRUE(judge_timing({}).empty());
}

/// CPU seconds of a fixed amount of work on this machine, as busy as it is: the least of three, for a neighbour on the
/// same core takes some of a core's speed for a millisecond without a trace in this process's time.
double work_seconds(int rounds) {
  const auto cpu_s = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const double start = cpu_s();
    double x = 1;
    for (int round = 0; round < rounds; ++round) x = x * 1.0000001 + 1e-9;
    volatile double sink = x;
    (void)sink;
    least = std::min(least, cpu_s() - start);
  }
  return least;
}

std::vector<TimingPair> real_pairs(int baseline_rounds, int now_rounds) {
  std::vector<TimingPair> pairs;
  for (int i = 0; i < kTimingPairs; ++i) {
    TimingPair pair;
    for (const bool now : {i % 2 == 1, i % 2 == 0})
      (now ? pair.now_s : pair.baseline_s) = work_seconds(now ? now_rounds : baseline_rounds);
    pairs.push_back(pair);
  }
  return pairs;
}

constexpr int kRounds = 500'000;

int windows() { return test::long_samples() ? 200 : 8; }

TEST(TimingGate, RealWorkAgainstItselfRaisesNoAlarm) {
  for (int window = 0; window < windows(); ++window) {
    const TimingVerdict verdict = judge_timing({{.id = "a", .pairs = real_pairs(kRounds, kRounds)}}).front();
    EXPECT_FALSE(verdict.fails()) << "window " << window << ": " << verdict.median_ratio << ", p " << verdict.p_value;
  }
  if (!HasFailure())
    test::record_long_sample("timing_gate_alarms", {{"what", "the timing gate, work against itself, 40 pairs a window"},
                                                    {"windows", windows()},
                                                    {"false_alarms", 0}});
}

// Where others take the machine's time, pairs spread further, and the gate says that it would not see 5 %: what it may
// not do is let 5 % pass and claim that it would have seen them. The long sample asks for all of it.
TEST(TimingGate, FivePerCentMoreRealWorkIsCaught) {
  int caught = 0, too_noisy = 0;
  for (int window = 0; window < windows(); ++window) {
    const TimingVerdict verdict =
        judge_timing({{.id = "a", .pairs = real_pairs(kRounds, kRounds * 105 / 100)}}).front();
    caught += verdict.fails();
    too_noisy += !verdict.fails() && verdict.resolves > 0.05;
  }
  EXPECT_GE(caught + (test::long_samples() ? 0 : too_noisy), windows() * 9 / 10);
  test::record_long_sample(
      "timing_gate_power",
      {{"what", "the timing gate, 5 % more work, 40 pairs a window"}, {"windows", windows()}, {"caught", caught}});
}

}  // namespace
}  // namespace paceline
