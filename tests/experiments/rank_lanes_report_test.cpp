// The ranks' lanes in report.html, in the trace and in the run's folder.

#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "experiments/analysis/read_run.h"
#include "experiments/report/documents.h"
#include "experiments/report/trace.h"
#include "tests/experiments/recorded_run.h"
#include "tests/experiments/report_page.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline::test {
namespace {

using nlohmann::json;

/// 48 passes of 1 ms: stage 1 waits for stage 0 half of each, shards wait `waits` times in a pass.
RankLanes made_lanes(const CellAxes& axes, int waits) {
  RankLanes lanes{.window_ns = 48'000'000, .deciding_rank = (axes.pp - 1) * axes.tp, .ranks = {}};
  for (int rank = 0; rank < axes.tp * axes.pp; ++rank) {
    RankLane lane{.stage = rank / axes.tp, .shard = rank % axes.tp, .device = "cpu", .activities = {}};
    for (int64_t pass = 0; pass < 48; ++pass) {
      const int64_t start = pass * 1'000'000, work = axes.pp > 1 && lane.stage == 0 ? 500'000 : 950'000;
      lane.activities.push_back({ActivityKind::pass, start, work, pass + 10});
      if (lane.stage > 0) lane.activities.push_back({ActivityKind::wait_stage, start, 480'000, 0});
      for (int i = 0; axes.tp > 1 && i < waits; ++i)
        lane.activities.push_back(
            {ActivityKind::wait_peers, start + 500'000 + i * 400'000 / waits, 240'000 / waits, 0});
    }
    lanes.ranks.push_back(std::move(lane));
  }
  return lanes;
}

RunResult run_with_lanes(int waits = 4) {
  RunResult run = synthetic_run({.with_trouble = false});
  for (CellResult& cell : run.cells) cell.repetitions.front().lanes = made_lanes(cell.axes, waits);
  return run;
}

TEST(BubblesSection, EveryKindHasAColourOfItsOwn) {
  const std::string section = section_of(report_of(run_with_lanes()), "bubbles");
  const std::string legend = section.substr(section.find("<div class=\"legend\">"));
  std::set<std::string> colors;
  const std::string swatch = "<rect class=\"b p";
  size_t swatches = 0;
  for (size_t at = 0; (at = legend.find(swatch, at)) != std::string::npos && at < legend.find("</div>");
       ++at, ++swatches)
    colors.insert(legend.substr(at + swatch.size(), 1));
  EXPECT_EQ(swatches, 9u);
  EXPECT_EQ(colors.size(), swatches);
}

TEST(BubblesSection, ShowsTheBestTpAndPpCellOfOneProposer) {
  const RunResult run = run_with_lanes();
  const std::string html = report_of(run), section = section_of(html, "bubbles");
  ASSERT_FALSE(section.empty());
  EXPECT_EQ(nesting_error(html), "");
  EXPECT_EQ(count(section, ": when each rank worked and waited\"><desc>"), 2u);
  EXPECT_EQ(count(section, "<h3>"), 2u);
  const size_t first = section.find("<h3>") + 4, second = section.find("<h3>", first) + 4;
  const std::string tensor = section.substr(first, section.find("</h3>", first) - first);
  const std::string stages = section.substr(second, section.find("</h3>", second) - second);
  EXPECT_TRUE(tensor.starts_with("tp2 pp1 ")) << tensor;
  EXPECT_NE(stages.find(" pp2 "), std::string::npos) << stages;
  EXPECT_EQ(tensor.substr(8, 5), stages.substr(8, 5)) << "one proposer";
  EXPECT_NE(section.find("48 passes in 48.0 ms"), std::string::npos);
  EXPECT_EQ(count(section, "<td class=\"s\">rank "), 6u) << "a row a rank";
  for (const char* const head : {">waits</th>", ">previous stage</th>", "title=\"for other ranks in collectives\""})
    EXPECT_EQ(count(section, head), 1u) << head;
  EXPECT_NE(section.find("On average a rank waits"), std::string::npos);
  EXPECT_EQ(section.find("On GPUs"), std::string::npos);
}

// Waits about a pixel apart on eight lanes: as many passes are drawn as there is room for.
TEST(BubblesSection, StaysSmallHoweverOftenRanksWait) {
  for (const int waits : {4, 12, 200}) {
    RunResult run = synthetic_run({.with_trouble = false});
    CellResult cell = synthetic_cell(int(run.cells.size()), {.tp = 8, .pp = 1}, {});
    cell.repetitions.front().lanes = made_lanes(cell.axes, waits);
    run.cells.push_back(std::move(cell));
    const std::string section = section_of(report_of(run), "bubbles");
    EXPECT_LT(section.size(), 60'000u);
    EXPECT_EQ(section.find("drawn: the last 12") == std::string::npos, waits == 12) << waits;
  }
}

TEST(BubblesSection, OneRankDrawsOneLane) {
  RunResult run = synthetic_run({.with_trouble = false});
  for (CellResult& cell : run.cells)
    if (cell.axes.tp * cell.axes.pp == 1) cell.repetitions.front().lanes = made_lanes(cell.axes, 0);
  const std::string section = section_of(report_of(run), "bubbles");
  EXPECT_EQ(count(section, ": when each rank worked and waited\"><desc>"), 1u);
  EXPECT_NE(section.find(">rank 0</text>"), std::string::npos);
  EXPECT_EQ(section.find(">rank 1</text>"), std::string::npos);
  EXPECT_NE(section.find("<desc>rank 0 waits 5 %. </desc>"), std::string::npos) << section;
  const std::string none = "<td>0 %</td>";
  EXPECT_NE(section.find("rank 0</td><td>95 %</td>" + none + none + "<td>5 %</td>" + none + none + none + none +
                         "<td>5 %</td></tr>"),
            std::string::npos)
      << section;
}

TEST(BubblesSection, OnGpusSaysThatLanesAreTheHosts) {
  RunResult run = run_with_lanes();
  for (CellResult& cell : run.cells)
    for (RankLane& lane : cell.repetitions.front().lanes.ranks) lane.device = "cuda:0";
  EXPECT_NE(section_of(report_of(run), "bubbles").find("On GPUs these are the hosts"), std::string::npos);
}

TEST(BubblesSection, IsAbsentWithoutARecord) { EXPECT_EQ(section_of(report_of(synthetic_run()), "bubbles"), ""); }

TEST(RankLanesFile, IsReadBackAndMayBeMissingOrDamaged) {
  const TempDir dir;
  RunResult run = run_with_lanes();
  std::filesystem::path file;
  {
    RunFolder folder(dir.path(), run, json::object());
    record_all(folder, run);
    folder.finish(run, run_documents(run));
    file = folder.path() / "cells" / run.cells.front().folder / "ranks.json";
  }
  const RunResult read = read_run(run.folder);
  EXPECT_EQ(section_of(report_of(read), "bubbles"), section_of(report_of(run), "bubbles"));
  EXPECT_EQ(read.cells.front().repetitions.front().lanes.ranks.size(), 1u);
  EXPECT_TRUE(read.cells.front().repetitions.back().lanes.empty()) << "of the first repetition only";
  for (const char* const content : {"", "{", "[1]", "{\"schema\": \"paceline.ranks\"}"}) {
    std::ofstream(file) << content;
    EXPECT_TRUE(read_run(run.folder).cells.front().repetitions.front().lanes.empty()) << content;
  }
  std::filesystem::remove(file);
  const RunResult without = read_run(run.folder);
  EXPECT_TRUE(without.cells.front().repetitions.front().lanes.empty());
  EXPECT_EQ(without.cells.size(), run.cells.size());
}

TEST(Trace, HasAProcessACellAndAThreadARank) {
  RunResult run = run_with_lanes();
  run.cells[0].repetitions.front().lanes = {};
  const std::vector<size_t> all = {0, 1, run.cells.size() - 1};
  const json trace = json::parse(chrome_trace(run, all).dump());
  std::set<int> processes;
  std::set<std::pair<int, int>> threads, named;
  std::map<std::pair<int, int>, double> work_us;
  for (const json& event : trace.at("traceEvents")) {
    const std::pair thread(event.at("pid").get<int>(), event.at("tid").get<int>());
    if (event.at("ph") == "M") {
      (event.at("name") == "process_name") ? void(processes.insert(thread.first)) : void(named.insert(thread));
      continue;
    }
    ASSERT_EQ(event.at("ph"), "X");
    threads.insert(thread);
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GT(event.at("dur").get<double>(), 0);
    if (event.at("name").get<std::string>().starts_with("pass ")) work_us[thread] += event.at("dur").get<double>();
  }
  const int last = int(run.cells.size()) - 1;
  EXPECT_EQ(processes, (std::set<int>{1, last})) << "a cell without lanes has none";
  EXPECT_EQ(threads, named);
  EXPECT_EQ(threads.size(), 1u + run.cells.back().repetitions.front().lanes.ranks.size());
  EXPECT_DOUBLE_EQ((work_us[{1, 0}]), 48 * 950.0);
}

// Whatever a rank waits for has an event: what remains of the window is work that no rank has.
TEST(Trace, NamesEveryWait) {
  RunResult run = run_with_lanes();
  const std::vector<size_t> all = {run.cells.size() - 1};
  const RankLanes& lanes = run.cells.back().repetitions.front().lanes;
  std::map<int, std::map<int64_t, int64_t>> spans;  // by rank: start to end, in ns
  const json trace = chrome_trace(run, all);
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") continue;
    const int64_t start = std::llround(event.at("ts").get<double>() * 1e3);
    int64_t& end = spans[event.at("tid").get<int>()][start];
    end = std::max(end, start + int64_t(std::llround(event.at("dur").get<double>() * 1e3)));
  }
  for (const auto& [rank, of_rank] : spans) {
    SCOPED_TRACE(rank);
    int64_t covered = 0;
    for (const auto& [start, end] : of_rank) {
      EXPECT_LE(start, covered + 2) << "a hole";
      covered = std::max(covered, end);
    }
    EXPECT_GE(covered, lanes.window_ns - 2);
  }
}

}  // namespace
}  // namespace paceline::test
