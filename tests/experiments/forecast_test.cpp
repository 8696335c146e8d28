// What is predicted of a step, how it held, and what the next plan makes of that.

#include "experiments/run/plan/forecast.h"

#include <fstream>
#include <functional>
#include <set>
#include <span>

#include <gtest/gtest.h>

#include "experiments/analysis/metrics/forecast_ratio.h"
#include "experiments/analysis/read_run.h"
#include "experiments/report/documents.h"
#include "experiments/results/files/environment.h"
#include "speculative/cascade_proposer.h"
#include "speculative/eagle3_proposer.h"
#include "tests/experiments/recorded_run.h"
#include "tests/experiments/report_page.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

using nlohmann::json;

Cell cell_of(const std::string& proposer, int k) {
  Cell cell;
  cell.config.builtin_root = source_dir() / "configs";
  cell.config.engine.backend = "cpu";
  cell.config.speculation.proposer = proposer;
  cell.config.speculation.num_speculative_tokens = k;
  cell.load_key = "load";
  cell.draft_key = proposer == "draft" ? "draft" : "";
  derive_paths(cell.config);
  return cell;
}

TEST(Forecast, AStepReadsTheTargetAndKTimesTheDraft) {
  const std::vector<Cell> cells = {cell_of("none", 0), cell_of("ngram", 4), cell_of("draft", 4)};
  Forecaster forecaster(cells);
  std::vector<StepForecast> steps;
  for (const Cell& cell : cells) steps.push_back(forecaster.step(cell).value());
  EXPECT_GT(steps[0].target_bytes, 10e6);
  for (const StepForecast& step : steps) {
    EXPECT_EQ(step.target_bytes, steps[0].target_bytes);
    EXPECT_EQ(step.read_bytes_s, steps[0].read_bytes_s) << "measured once";
  }
  EXPECT_EQ(steps[0].draft_bytes, 0);
  EXPECT_EQ(steps[1].step_ms, steps[0].step_ms);
  EXPECT_DOUBLE_EQ(steps[0].step_ms, steps[0].target_bytes / steps[0].read_bytes_s * 1e3);
  EXPECT_GT(steps[2].draft_bytes, 1e6);
  EXPECT_LT(steps[2].draft_bytes, 0.2 * steps[2].target_bytes);
  EXPECT_DOUBLE_EQ(steps[2].step_ms, (steps[2].target_bytes + 4 * steps[2].draft_bytes) / steps[2].read_bytes_s * 1e3);
}

// The first stage holds an embedding, of which a step reads a row; the last one the same matrix as its head.
TEST(Forecast, AnEmbeddingThatIsLookedUpIsNotRead) {
  std::vector<Cell> cells = {cell_of("none", 0), cell_of("none", 0)};
  cells[1].config.engine.parallel.pp = 2;
  cells[1].load_key = "stages";
  Forecaster forecaster(cells);
  const StepForecast one = forecaster.step(cells[0]).value(), two = forecaster.step(cells[1]).value();
  EXPECT_NEAR(two.target_bytes / one.target_bytes, 1, 0.01);
  EXPECT_EQ(one.read_bytes_s, two.read_bytes_s);
}

TEST(Forecast, ADraftModelPaysFromWhereItsReadingIsMadeGood) {
  const StepForecast step{.target_bytes = 100, .draft_bytes = 10, .read_bytes_s = 1, .step_ms = 1};
  EXPECT_DOUBLE_EQ(break_even_length(cell_of("draft", 4).config, step).value(), 1.4);
  EXPECT_FALSE(break_even_length(cell_of("ngram", 4).config, step)) << "its cost is not reading";
  EXPECT_FALSE(break_even_length(cell_of("none", 0).config, step));
}

TEST(Forecast, ATreeHasAPassForEachLevel) {
  const StepForecast step{.target_bytes = 100, .draft_bytes = 10, .read_bytes_s = 100, .step_ms = 1};
  Cell cell = cell_of("eagle3", 16);
  EXPECT_DOUBLE_EQ(break_even_length(cell.config, step).value(), 1 + 16 * 0.1);
  auto& draft = std::any_cast<Eagle3DraftOptions&>(cell.config.speculation.of("eagle3").options);
  draft = {.width = 2, .depth = 4};
  EXPECT_DOUBLE_EQ(break_even_length(cell.config, step).value(), 1 + 4 * 0.1);
  EXPECT_DOUBLE_EQ(forecast(cell.config, step, 10).low * 5, forecast(cell.config, step, 10).high)
      << "no more than a path is kept";
}

TEST(Forecast, AHeadBehindOtherStagesMayNeverDraft) {
  const StepForecast step{.target_bytes = 100, .draft_bytes = 10, .read_bytes_s = 100, .step_ms = 1};
  std::vector<Cell> cells = {cell_of("cascade", 4)};
  Cell& cell = cells[0];
  auto& stages = std::any_cast<CascadeOptions&>(cell.config.speculation.of("cascade").options).stages;
  stages = "ngram, draft";
  const StepForecast without = Forecaster(cells).step(cell).value();
  EXPECT_GT(without.draft_bytes, 0);
  EXPECT_DOUBLE_EQ(without.step_ms, without.target_bytes / without.read_bytes_s * 1e3);
  EXPECT_FALSE(break_even_length(cell.config, step));
  stages = "draft, ngram";
  EXPECT_DOUBLE_EQ(break_even_length(cell.config, step).value(), 1.4);
}

TEST(Forecast, ASweepTakesItsSteps) {
  Cell cell = cell_of("ngram", 3);
  cell.config.workload.requests = 12;
  cell.config.measure.repetitions = 2;
  cell.config.measure.warmup_requests = 6;
  cell.config.load.concurrency = 4;
  const SecondsRange range = forecast(cell.config, {.target_bytes = 1, .read_bytes_s = 1, .step_ms = 2}, 40);
  EXPECT_DOUBLE_EQ(range.high, 2.5 * 3 * 40 * 2e-3);
  EXPECT_DOUBLE_EQ(range.low, range.high / 4);
}

TEST(Forecast, WarmingUpIsABatchHoweverSmall) {
  Cell cell = cell_of("none", 0);
  cell.config.workload.requests = 64;
  cell.config.measure.repetitions = 2;
  cell.config.load.concurrency = 16;
  for (const auto& [warmup, turns] : {std::pair(0, 8.0), std::pair(1, 9.0), std::pair(16, 9.0), std::pair(32, 10.0)}) {
    cell.config.measure.warmup_requests = warmup;
    EXPECT_DOUBLE_EQ(num_turns(cell.config), turns) << warmup;
  }
}

TEST(Forecast, ABatchIsNoLargerThanTheEngineTakes) {
  Cell cell = cell_of("none", 0);
  cell.config.workload.requests = 256;
  cell.config.measure.repetitions = 1;
  cell.config.measure.warmup_requests = 0;
  cell.config.load.mode = LoadMode::offline;
  const StepForecast step{.target_bytes = 1, .read_bytes_s = 1, .step_ms = 1000};
  cell.config.engine.scheduler.max_num_seqs = 64;
  EXPECT_DOUBLE_EQ(forecast(cell.config, step, 10).high, 4 * 10);
  cell.config.engine.scheduler.batching = BatchingMode::static_turns;
  cell.config.engine.scheduler.static_batch_size = 32;
  EXPECT_DOUBLE_EQ(forecast(cell.config, step, 10).high, 8 * 10);
}

/// Every cell predicted at `share` of its median step.
RunResult predicted_run(double share) {
  RunResult run = synthetic_run({.with_trouble = false});
  for (CellResult& cell : run.cells) {
    cell.model = "models/a";
    const double step_ms = share * summarize_cell(cell).itl_ms.p50.value();
    cell.forecast = {.target_bytes = 14e6, .draft_bytes = 1e6, .read_bytes_s = 14e9 / step_ms, .step_ms = step_ms};
  }
  return run;
}

TEST(ForecastRatio, IsTheMedianStepOverThePrediction) {
  RunResult run = predicted_run(0.5);
  run.cells[3].forecast->step_ms /= 4;
  run.cells[5].forecast->step_ms *= 2;
  run.cells[7].oversubscribed = true;
  run.cells[8].forecast.reset();
  const auto ratios = forecast_ratios(run, summarize(run));
  EXPECT_EQ(ratios.size(), run.cells.size() - 2);
  EXPECT_NEAR(median_ratio(ratios).value(), 2, 1e-9);
  ASSERT_NE(farthest_off(ratios), nullptr);
  EXPECT_EQ(farthest_off(ratios)->cell, 3u);
  EXPECT_NEAR(farthest_off(ratios)->ratio(), 8, 1e-9);
  EXPECT_FALSE(median_ratio({}));
  EXPECT_FALSE(time_ratio(run, {}));
  EXPECT_EQ(farthest_off({}), nullptr);
}

TEST(ForecastRatio, OfTheTimeIsRepetitionsOverPassesAtThePrediction) {
  RunResult run;
  run.cells.resize(2);
  for (CellResult& cell : run.cells) cell.repetitions.resize(2);
  run.cells[0].repetitions[0] = {.wall_s = 3, .idle_s = 1, .counters = {.target_forwards = 100}};
  run.cells[0].repetitions[1] = {.wall_s = 3, .counters = {.target_forwards = 150}};
  run.cells[1].repetitions[0] = {.wall_s = 100, .counters = {.target_forwards = 1}};
  EXPECT_DOUBLE_EQ(time_ratio(run, {{.cell = 0, .predicted_ms = 10, .measured_ms = 1}}).value(), 5 / 2.5);
}

TEST(ForecastSection, SetsEveryCellsPredictionAgainstItsMedianStep) {
  RunResult run = predicted_run(0.8);
  run.cells[3].forecast->step_ms /= 4;
  const std::string html = report_of(run), section = section_of(html, "forecast");
  EXPECT_EQ(nesting_error(html), "");
  EXPECT_NE(section.find("Measured over predicted: from 1.25× ("), std::string::npos) << section;
  EXPECT_NE(section.find(fmt::format(" to 5.00× (tp1 pp1 ngram k=5); median of {} cells: 1.25×.", run.cells.size())),
            std::string::npos)
      << section;
  EXPECT_EQ(count(section, "<tr"), run.cells.size() + 1) << "a row a cell, and the head";
  EXPECT_EQ(count(section, "<td>5.00×</td>"), 1u);
  EXPECT_EQ(section_of(report_of(synthetic_run()), "forecast"), "") << "nothing was predicted";
}

TEST(ForecastRecord, ComesBackFromTheFolder) {
  const TempDir dir;
  RunResult run = predicted_run(0.8);
  run.cells.back().forecast.reset();
  {
    RunFolder folder(dir.path(), run, json::object());
    record_all(folder, run);
    folder.finish(run, run_documents(run));
  }
  const RunResult read = read_run(run.folder);
  const StepForecast &before = *run.cells[0].forecast, &after = read.cells[0].forecast.value();
  EXPECT_EQ(after.step_ms, before.step_ms);
  EXPECT_EQ(after.target_bytes, before.target_bytes);
  EXPECT_EQ(after.draft_bytes, before.draft_bytes);
  EXPECT_EQ(after.read_bytes_s, before.read_bytes_s);
  EXPECT_FALSE(read.cells.back().forecast);
}

/// Records a finished run that took 1/share of its floor.
std::string recorded(const std::filesystem::path& root, double share, const std::string& time,
                     const std::string& machine, const std::string& status = "done", int noisy_cells = 0) {
  RunResult run = predicted_run(share);
  for (CellResult& cell : std::span(run.cells).first(size_t(noisy_cells)))
    cell.repetitions[0].disturbance = Disturbance{.wall_s = 10, .cores = 2, .foreign_cpu_s = 15};
  run.info.started_at = time;
  run.info.status = status;
  run.environment["machine_id"] = machine;
  RunFolder folder(root, run, json::object());
  record_all(folder, run);
  folder.finish(run, run_documents(run));
  return run.info.id;
}

std::set<CellKind> kinds_of(const RunResult& run) {
  std::set<CellKind> kinds;
  for (const CellResult& cell : run.cells)
    if (cell.status == CellStatus::done)
      kinds.insert({cell.model, cell.load, cell.axes.proposer, cell.axes.concurrency});
  return kinds;
}

TEST(Calibration, IsTheNewestFinishedRunOfThisMachineAndTheseKinds) {
  const TempDir dir;
  const std::set<CellKind> kinds = kinds_of(predicted_run(1));
  ASSERT_GT(kinds.size(), 1u);
  EXPECT_FALSE(find_calibration(dir.path(), "m1", kinds, 12));
  const std::string older = recorded(dir.path(), 0.5, "2026-11-20T09:00:00Z", "m1");
  const std::string newer = recorded(dir.path(), 0.8, "2026-11-21T09:00:00Z", "m1");
  recorded(dir.path(), 0.1, "2026-11-22T09:00:00Z", "m2");
  recorded(dir.path(), 0.2, "2026-11-23T09:00:00Z", "m1", "interrupted");
  const auto found = find_calibration(dir.path(), "m1", kinds, 12);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->run, newer);
  const RunResult run = read_run(dir.path() / newer);
  EXPECT_NEAR(found->ratio, time_ratio(run, forecast_ratios(run, summarize(run))).value(), 1e-9);
  EXPECT_FALSE(find_calibration(dir.path(), "m3", kinds, 12)) << "of another machine";
  using Change = std::function<void(CellKind&)>;
  for (const Change& change :
       {Change([](CellKind& kind) { kind.model = "models/b"; }), Change([](CellKind& kind) { kind.load = "offline"; }),
        Change([](CellKind& kind) { kind.proposer = "other"; }),
        Change([](CellKind& kind) { kind.concurrency += 7; })}) {
    std::set<CellKind> others;
    for (CellKind kind : kinds) {
      change(kind);
      others.insert(kind);
    }
    EXPECT_FALSE(find_calibration(dir.path(), "m1", others, 12));
  }
  std::set<CellKind> fewer = kinds;
  fewer.erase(fewer.begin());
  EXPECT_FALSE(find_calibration(dir.path(), "m1", fewer, 12)) << "its ratio mixes in what is not planned";
  std::ofstream(dir.path() / newer / "summary.json") << "{";
  EXPECT_EQ(find_calibration(dir.path(), "m1", kinds, 12).value().run, older) << "damaged files are passed over";
}

TEST(Calibration, PrefersARunThatWasNotDisturbedAndIsNotMuchSmaller) {
  const TempDir dir;
  const std::set<CellKind> kinds = kinds_of(predicted_run(1));
  const std::string quiet = recorded(dir.path(), 0.5, "2026-11-20T09:00:00Z", "m1");
  const std::string noisy = recorded(dir.path(), 0.5, "2026-11-21T09:00:00Z", "m1", "done", 3);
  const Calibration found = find_calibration(dir.path(), "m1", kinds, 24).value();
  EXPECT_EQ(found.run, quiet);
  EXPECT_EQ(found.num_noisy, 0);
  EXPECT_EQ(found.requests, 12);
  EXPECT_EQ(find_calibration(dir.path(), "m1", kinds, 25).value().run, quiet) << "both are much smaller";
  std::filesystem::remove_all(dir / quiet);
  const Calibration other = find_calibration(dir.path(), "m1", kinds, 12).value();
  EXPECT_EQ(other.run, noisy);
  EXPECT_EQ(other.num_noisy, 3);
  EXPECT_EQ(other.cells.size(), predicted_run(1).cells.size());
}

TEST(Calibration, OfTheSameSweepIsTheTimeThatItTook) {
  const TempDir dir;
  const RunResult run = predicted_run(0.5);
  recorded(dir.path(), 0.5, "2026-11-20T09:00:00Z", "m1");
  const Calibration found = find_calibration(dir.path(), "m1", kinds_of(run), 12).value();
  for (const CellResult& cell : run.cells) {
    double measured_s = 0;
    for (const RepetitionResult& repetition : cell.repetitions) measured_s += repetition.phases.total_ms() / 1e3;
    const PlannedCell planned{.id = cell.id,
                              .kind = {cell.model, cell.load, cell.axes.proposer, cell.axes.concurrency},
                              .num_turns = 3 * 12,
                              .mean_output = 1000};
    const SecondsRange range = calibrated_forecast(found, planned);
    EXPECT_NEAR(range.low, measured_s, 1e-6 * measured_s) << cell.id;
    EXPECT_NEAR(range.high, measured_s, 1e-6 * measured_s) << cell.id;
  }
}

TEST(Calibration, ACellThatWasNotMeasuredLiesBetweenThoseOfItsKind) {
  const CellKind ngram{.model = "a", .load = "closed", .proposer = "ngram", .concurrency = 4};
  CellKind draft = ngram;
  draft.proposer = "draft";
  const Calibration known{.run = "r",
                          .max_tokens = 48,
                          .cells = {{.id = "k1", .kind = ngram, .turn_s = 2, .mean_output = 30},
                                    {.id = "k5", .kind = ngram, .turn_s = 3, .mean_output = 30},
                                    {.id = "d", .kind = draft, .turn_s = 50, .mean_output = 30}}};
  PlannedCell planned{.id = "k3", .kind = ngram, .num_turns = 10, .mean_output = 48, .max_tokens = 48};
  EXPECT_DOUBLE_EQ(calibrated_forecast(known, planned).low, 20);
  EXPECT_DOUBLE_EQ(calibrated_forecast(known, planned).high, 30);
  planned.id = "k5";
  EXPECT_DOUBLE_EQ(calibrated_forecast(known, planned).low, 30);
  planned.max_tokens = 96;
  planned.mean_output = 96;
  EXPECT_DOUBLE_EQ(calibrated_forecast(known, planned).low, 30) << "answers may end as they did";
  EXPECT_DOUBLE_EQ(calibrated_forecast(known, planned).high, 60) << "or go on";
  planned.max_tokens = 15;
  planned.mean_output = 15;
  EXPECT_DOUBLE_EQ(calibrated_forecast(known, planned).high, 15);
}

TEST(Environment, NamesThisMachineInTwoPlacesAlike) {
  EXPECT_EQ(collect_environment().at("machine_id"), this_machine_id());
}

}  // namespace
}  // namespace paceline::test
