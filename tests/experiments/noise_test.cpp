// Disturbed repetitions: from the kernel's counters to the mark on the cell and what gates make of it.

#include "experiments/analysis/statistics/noise.h"

#include <csignal>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/analysis/metrics/summary.h"
#include "experiments/report/text/gate_report.h"
#include "experiments/report/text/text.h"
#include "experiments/results/results.h"
#include "experiments/run/measure/measure_devices.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using test::synthetic_run;
using test::write_file;

int first_cpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) return cpu;
  return 0;
}

/// Counters as a kernel would write them, for one core of the process's mask.
class FakeMachine {
 public:
  FakeMachine() {
    for (const char* const folder : {"proc/self", "cgroup/a/b", "cpus"}) fs::create_directories(dir_ / folder);
    fs::create_directories(core() / "thermal_throttle");
    fs::create_directories(core() / "cpufreq");
    write_file(roots().proc / "self/cgroup", "0::/a/b\n");
  }
  CounterRoots roots() const { return {.proc = dir_ / "proc", .cgroup = dir_ / "cgroup", .cpus = dir_ / "cpus"}; }
  fs::path core() const { return dir_ / "cpus" / fmt::format("cpu{}", first_cpu()); }

  void set_ticks(int64_t user, int64_t idle, int64_t steal) const {
    write_file(roots().proc / "stat",
               fmt::format("cpu  9 9 9 9 9 9 9 9 0 0\ncpu{} {} 0 5 {} 2 0 3 {} 0 0\ncpu9999 77 0 0 0 0 0 0 0 0 0\n"
                           "intr 12 0 3\n",
                           first_cpu(), user, idle, steal));
  }
  void set_quota(int64_t periods, int64_t usec) const {
    write_file(roots().cgroup / "a/b/cpu.stat",
               fmt::format("usage_usec 5\nnr_periods 10\nnr_throttled {}\nthrottled_usec {}\n", periods, usec));
  }
  void set_heat(int64_t events, int64_t khz) const {
    write_file(core() / "thermal_throttle/core_throttle_count", fmt::format("{}\n", events));
    write_file(core() / "cpufreq/scaling_cur_freq", fmt::format("{}\n", khz));
  }

 private:
  test::TempDir dir_;
};

TEST(MachineCounters, ReadsWhatTheKernelCounts) {
  const FakeMachine machine;
  const double hz = double(sysconf(_SC_CLK_TCK));
  machine.set_ticks(100, 1000, 1);
  machine.set_quota(3, 500'000);
  machine.set_heat(4, 3'000'000);
  const MachineCounters before = read_machine_counters(machine.roots());
  machine.set_ticks(100 + int64_t(40 * hz), 1001, 1 + int64_t(2 * hz));
  machine.set_quota(5, 1'750'000);
  machine.set_heat(6, 2'100'000);
  const MachineCounters after = read_machine_counters(machine.roots());
  const Disturbance found = disturbance_between(before, after);
  EXPECT_GE(found.wall_s, 0);
  EXPECT_GE(found.cores, 1);
  ASSERT_TRUE(found.foreign_cpu_s && found.stolen_s && found.throttled_s && found.throttled_periods);
  EXPECT_NEAR(*found.foreign_cpu_s, 40 - (after.own_cpu_s - before.own_cpu_s), 1e-9);
  EXPECT_NEAR(*found.stolen_s, 2, 1e-9);
  EXPECT_NEAR(*found.throttled_s, 1.25, 1e-9);
  EXPECT_EQ(*found.throttled_periods, 2);
  EXPECT_EQ(found.thermal_events, 2);
  EXPECT_NEAR(found.clock_ghz.value_or(0), 2.1, 1e-9);
}

TEST(MachineCounters, OwnWorkIsNoDisturbanceAndMissingFilesAreUnknown) {
  MachineCounters before{.at_s = 10, .own_cpu_s = 5, .cores = 4, .busy_s = 100.0};
  MachineCounters after{.at_s = 20, .own_cpu_s = 35, .cores = 4, .busy_s = 130.1};
  EXPECT_NEAR(disturbance_between(before, after).foreign_cpu_s.value_or(-1), 0.1, 1e-9);
  after.busy_s = 129.9;  // ticks count less than the process's own clock
  EXPECT_EQ(disturbance_between(before, after).foreign_cpu_s, 0.0);

  const MachineCounters none = read_machine_counters({.proc = "/absent", .cgroup = "/absent", .cpus = "/absent"});
  const Disturbance unknown = disturbance_between(none, none);
  EXPECT_FALSE(unknown.foreign_cpu_s || unknown.stolen_s || unknown.throttled_s || unknown.thermal_events ||
               unknown.clock_ghz);
  EXPECT_EQ(noise_of(unknown), "");
  const FakeMachine strange;
  write_file(strange.roots().proc / "stat", fmt::format("cpu{} x y z\ncpu\ncpu{} 0 0 0 0 0 0 0 0\n", first_cpu(), 0));
  write_file(strange.roots().proc / "self/cgroup", "0::abc\n7:cpu\n:\n3:cpuacct,cpu:/a\n");
  EXPECT_FALSE(read_machine_counters(strange.roots()).busy_s) << "a machine that counts nothing says nothing";
  CellResult cell;
  cell.repetitions.push_back({.disturbance = unknown});
  EXPECT_FALSE(was_watched(cell));
  cell.repetitions.push_back({.disturbance = Disturbance{.stolen_s = 0.0}});
  EXPECT_TRUE(was_watched(cell));
}

TEST(MachineCounters, AProcessThatTakesTheCoresIsSeen) {
  const MachineCounters start = read_machine_counters();
  if (!start.busy_s) GTEST_SKIP() << "no /proc/stat here";
  std::vector<pid_t> hogs;
  for (int i = 0; i < start.cores; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (volatile uint64_t spin = 0;;) {
        const uint64_t next = spin + 1;
        spin = next;
      }
    }
    hogs.push_back(child);
  }
  const MachineCounters before = read_machine_counters();
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  const Disturbance found = disturbance_between(before, read_machine_counters());
  for (const pid_t hog : hogs) {
    kill(hog, SIGKILL);
    waitpid(hog, nullptr, 0);
  }
  ASSERT_TRUE(found.foreign_cpu_s);
  EXPECT_GT(*found.foreign_cpu_s, kForeignShare * found.wall_s * found.cores);
  EXPECT_NE(noise_of(found).find("other processes used"), std::string::npos) << noise_of(found);
}

TEST(Noise, EachCauseIsNamedInNumbersAndTheWorstOnly) {
  Disturbance d{.wall_s = 10, .cores = 4, .foreign_cpu_s = 4.0, .stolen_s = 0.8, .throttled_s = 0.8};
  EXPECT_EQ(noise_of(d), "") << "at the limits";
  d.foreign_cpu_s = 15.2;
  EXPECT_EQ(noise_of(d), "other processes used 38 % of the cores");
  d.stolen_s = 8;
  EXPECT_EQ(noise_of(d), "other virtual machines took 20 % of the cores");
  d.throttled_s = 20;  // summed over the cores
  EXPECT_EQ(noise_of(d), "the cgroup's CPU quota held threads back for 50 % of the cores' time");
  EXPECT_EQ(noise_of({.wall_s = 1, .cores = 1, .thermal_events = 3}),
            "cores were slowed down 3 times as they were too hot");
  EXPECT_EQ(noise_of({.wall_s = 1, .cores = 1, .clock_ghz = 2.0}, 3.0),
            "the cores ran at 2.00 GHz, at 3.00 GHz in another repetition");
  EXPECT_EQ(noise_of({.wall_s = 1, .cores = 1, .clock_ghz = 2.6}, 3.0), "");
  EXPECT_EQ(noise_of({.wall_s = 0.1, .cores = 1, .foreign_cpu_s = 0.09}), "") << "lost in the ticks";
  EXPECT_EQ(noise_of({.wall_s = 0.2, .cores = 1, .foreign_cpu_s = 0.11}), "other processes used 55 % of the cores");
}

/// The synthetic run with one cell that was disturbed in its second repetition.
RunResult noisy_run(size_t& index) {
  RunResult run = synthetic_run();
  for (CellResult& cell : run.cells)
    for (RepetitionResult& r : cell.repetitions)
      r.disturbance = Disturbance{.wall_s = 2, .cores = 2, .foreign_cpu_s = 0.1};
  for (index = 0; run.cells[index].status != CellStatus::done || run.cells[index].axes.proposer == "none"; ++index) {
  }
  run.cells[index].repetitions[1].disturbance->foreign_cpu_s = 1.52;
  return run;
}

TEST(Noise, MarksTheCellInEveryFormAndStaysRanked) {
  size_t index = 0;
  const RunResult run = noisy_run(index);
  const RunSummary summary = summarize(run);
  const std::string why =
      fmt::format("other processes used 38 % of the cores in repetition 2 of {}", run.cells[index].repetitions.size());
  EXPECT_EQ(summary.cells[index].noise, why);
  const nlohmann::json json = summary_to_json(run, summary);
  int noisy = 0;
  for (const auto& cell : json.at("cells")) noisy += cell.at("noisy").get<bool>() ? 1 : 0;
  EXPECT_EQ(noisy, 1);
  EXPECT_EQ(json.at("cells")[index].at("noise"), why);
  EXPECT_EQ(summary.cells[index].rankable, summarize(synthetic_run()).cells[index].rankable);
  EXPECT_NE(cell_verdict(VerdictView(run, summary), summary.cells[index]).find("disturbed"), std::string::npos);
  EXPECT_NE(summary_markdown(run, summary).find("1 of 26 cells was disturbed ("), std::string::npos);
  EXPECT_NE(summary_to_csv(run, summary).find(",true\n"), std::string::npos);
  const std::string headline = json.at("headline").dump();
  EXPECT_NE(headline.find("INVALID timings: "), std::string::npos) << headline;
  EXPECT_NE(headline.find("lossless ("), std::string::npos)
      << "a long reason leaves room for the outputs: " << headline;
}

TEST(Noise, SurvivesTheJournalAndOldRecordsHaveNone) {
  RepetitionResult r;
  r.disturbance = Disturbance{.wall_s = 2,
                              .cores = 3,
                              .foreign_cpu_s = 0.5,
                              .stolen_s = 0.25,
                              .throttled_s = {},
                              .throttled_periods = 7,
                              .thermal_events = {},
                              .clock_ghz = 2.5};
  const auto back = repetition_from_json(repetition_to_json(r)).disturbance;
  ASSERT_TRUE(back);
  EXPECT_EQ(fields_to_json(*back), fields_to_json(*r.disturbance));
  EXPECT_EQ(back->throttled_periods, 7);
  EXPECT_FALSE(back->throttled_s || back->thermal_events);
  nlohmann::json old = repetition_to_json(r);
  old.erase("disturbance");
  EXPECT_FALSE(repetition_from_json(old).disturbance);
  EXPECT_FALSE(repetition_from_json(repetition_to_json(RepetitionResult())).disturbance);
}

TEST(Noise, TrendsLeaveDisturbedTimesOutAndBaselinesKeepTheFacts) {
  size_t index = 0;
  const RunResult noisy = noisy_run(index), quiet = synthetic_run();
  const auto names = [](const RunResult& run) {
    std::vector<std::string> out;
    for (const auto& entry : benchmark_entries(run)) out.push_back(entry.at("name"));
    return out;
  };
  const std::vector<std::string> kept = names(noisy);
  const std::string id = noisy.cells[index].id;
  EXPECT_EQ(kept.size() + 2, names(quiet).size());
  EXPECT_EQ(std::count(kept.begin(), kept.end(), id + " steps"), 1);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), id + " TPOT"), 0);
  EXPECT_EQ(make_baseline(noisy), make_baseline(quiet)) << "exact facts are no times";
}

TEST(Noise, TheGateLeavesDisturbedPairsOutWhereTheyAreTheException) {
  TimedCell cell{.id = "a"};
  for (int i = 0; i < 9; ++i) cell.pairs.push_back({.baseline_s = 1, .now_s = 1 + 0.001 * i});
  for (int i = 0; i < 8; ++i) cell.disturbed.push_back({.baseline_s = 1, .now_s = 3});
  GateReport report{
      .name = "x", .started_at = "", .baseline_bin = "old", .timing = judge_timing({cell}), .strict = true};
  EXPECT_TRUE(report.timing[0].quiet);
  EXPECT_EQ(report.timing[0].pairs, 9);
  EXPECT_LT(report.timing[0].median_ratio, 1.01);
  EXPECT_EQ(gate_exit_code(report), ExitCode::ok);
  EXPECT_NE(gate_text(report).find("ok, 8 disturbed pairs left out"), std::string::npos) << gate_text(report);
}

TEST(Noise, TheGateJudgesAllPairsOfABusyMachineAndSaysSo) {
  TimedCell cell{.id = "a"};
  for (int i = 0; i < 7; ++i) cell.pairs.push_back({.baseline_s = 1, .now_s = 1});
  for (int i = 0; i < 33; ++i) cell.disturbed.push_back({.baseline_s = 1, .now_s = 1.001});
  GateReport report{.name = "x", .started_at = "", .baseline_bin = "old", .timing = judge_timing({cell})};
  EXPECT_FALSE(report.timing[0].quiet);
  EXPECT_EQ(report.timing[0].pairs, 40);
  EXPECT_EQ(gate_exit_code(report), ExitCode::ok);
  EXPECT_NE(gate_text(report).find("ok, BUSY MACHINE: 33 of 40 pairs disturbed"), std::string::npos)
      << gate_text(report);
  EXPECT_NE(github_annotations(report).find("::warning title=timing gate%3A a"), std::string::npos);
  report.strict = true;
  EXPECT_EQ(gate_exit_code(report), ExitCode::inconclusive);
  for (TimingPair& pair : cell.disturbed) pair.now_s = 2;
  report.timing = judge_timing({cell});
  EXPECT_EQ(gate_exit_code(report), ExitCode::timing) << "a slowdown of both is one on a busy machine too";
}

TEST(Noise, ALateClientIsNoise) {
  CellResult cell;
  for (const double late_ms : {0.2, kLateClient_ms, 1.5, 3.0}) {
    RepetitionResult& repetition = cell.repetitions.emplace_back();
    repetition.client = ClientRecord{.late_p99_ms = late_ms};
    EXPECT_EQ(noise_of(repetition).empty(), late_ms <= kLateClient_ms) << late_ms;
  }
  EXPECT_EQ(noise_of(cell), "the client was up to 1.5 ms late (p99) in repetition 3 of 4 (and in 1 more)");
  EXPECT_DOUBLE_EQ(worst_noise_of(cell).times_limit, 3);
  cell.repetitions.resize(2);
  EXPECT_EQ(noise_of(cell), "");
}

}  // namespace
}  // namespace paceline
