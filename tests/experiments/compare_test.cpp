// Comparisons of runs that were made up, so that the right words are known.

#include "experiments/analysis/comparison/compare.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include "experiments/report/comparison/comparison.h"
#include "experiments/report/text/text.h"
#include "experiments/results/files/baseline.h"
#include "tests/experiments/synthetic_run.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::synthetic_run;

/// Two like runs of n repetitions whose wall times differ by a little noise.
std::vector<RunResult> two_runs(int repetitions, double noise = 0.002) {
  const RunResult run = synthetic_run({.repetitions = repetitions, .with_trouble = false});
  std::vector<RunResult> runs = {run, run};
  runs[1].info.id = "2026-11-22T093012Z_ngram_tp2_7f3a";
  uint64_t random = 5;
  for (RunResult& each : runs)
    for (CellResult& cell : each.cells) {
      cell.oversubscribed = false;
      cell.repetitions.resize(1, cell.repetitions.front());
      cell.repetitions.resize(size_t(repetitions), cell.repetitions.front());
      for (RepetitionResult& r : cell.repetitions)
        r.wall_s *= 1 + noise * (double(test::next_random(random) % 2001) / 1000 - 1);
    }
  return runs;
}

void scale_times(CellResult& cell, double factor) {
  for (RepetitionResult& r : cell.repetitions) {
    r.wall_s *= factor;
    for (RequestRecord& q : r.requests) {
      q.ttft_ms *= factor;
      q.e2e_ms *= factor;
      for (double& gap : q.itl_ms) gap *= factor;
    }
  }
}

Change rate_change(const RunComparison& comparison, size_t cell, size_t run = 1) {
  return comparison.cells[cell].runs[run].changes[size_t(Metric::output_tok_s)].change;
}

bool lists(const std::vector<KeyDifference>& list, const std::string& key) {
  return std::any_of(list.begin(), list.end(), [&](const KeyDifference& d) { return d.key == key; });
}

TEST(Compare, EqualRunsAreTheSameInEveryCellAndMetric) {
  const RunComparison comparison = compare_runs(two_runs(7));
  EXPECT_EQ(comparison.cells.size(), 28u);
  EXPECT_TRUE(comparison.subject.empty() && comparison.environment.empty() && comparison.config.empty());
  for (const CellRow& row : comparison.cells) {
    const CellSide& side = row.runs[1];
    EXPECT_TRUE(side.same_tokens()) << side.first_difference;
    EXPECT_TRUE(side.counters.empty());
    for (const Metric metric : kMetrics) {
      const bool drafts = row.axes.proposer != "none";
      const Change want = metric == Metric::acceptance_length && !drafts ? Change::none : Change::same;
      EXPECT_EQ(side.changes[size_t(metric)].change, want) << to_string(metric);
    }
  }
}

TEST(Compare, OnlyRequestsOfBothAreCounted) {
  std::vector<RunResult> runs = two_runs(3);
  CellResult& cell = runs[1].cells[0];
  const size_t both = cell.repetitions[0].requests.size();
  for (RepetitionResult& r : cell.repetitions) {
    r.requests.push_back(r.requests.back());
    r.requests.back().id = "another";
  }
  const CellSide side = compare_runs(runs).cells[0].runs[1];
  EXPECT_EQ(side.requests_compared, int64_t(3 * both));
  EXPECT_FALSE(side.same_tokens());
}

TEST(Compare, TheWordsFollowTimeAndMinimumEffect) {
  std::vector<RunResult> runs = two_runs(7);
  scale_times(runs[1].cells[0], 1 / 1.05);
  scale_times(runs[1].cells[1], 1.05);
  scale_times(runs[1].cells[2], 1.012);  // real, and below the least effect
  const RunComparison comparison = compare_runs(runs);
  EXPECT_EQ(rate_change(comparison, 0), Change::better);
  EXPECT_EQ(rate_change(comparison, 1), Change::worse);
  EXPECT_EQ(rate_change(comparison, 2), Change::same);
  EXPECT_EQ(rate_change(comparison, 3), Change::same);
  const auto change = [&](size_t cell, Metric metric) {
    return comparison.cells[cell].runs[1].changes[size_t(metric)];
  };
  for (const Metric metric : {Metric::decode_tok_s, Metric::ttft_ms, Metric::tpot_ms}) {
    EXPECT_EQ(change(0, metric).change, Change::better) << to_string(metric);
    EXPECT_EQ(change(1, metric).change, Change::worse) << to_string(metric);
  }
  EXPECT_NEAR(change(1, Metric::ttft_ms).test->ratio, 1.05, 1e-9);
  EXPECT_NEAR(change(1, Metric::decode_tok_s).test->ratio, 1 / 1.05, 1e-9);
  const RunComparison strict = compare_runs(runs, {.min_effect = 0.005});
  EXPECT_EQ(rate_change(strict, 2), Change::worse);
  EXPECT_EQ(rate_change(compare_runs(runs, {.min_effect = 0.1}), 1), Change::same);
  // Surely slower, but not surely by less or more than the least effect.
  const RatioInterval slower = *change(1, Metric::output_tok_s).test;
  const double inside = 1 / std::sqrt(slower.ratio * *slower.low) - 1;
  EXPECT_EQ(rate_change(compare_runs(runs, {.min_effect = inside}), 1), Change::inconclusive);
}

TEST(Compare, NoiseAndTooFewRepetitionsAreInconclusive) {
  std::vector<RunResult> runs = two_runs(3, 0.3);
  const RunComparison noisy = compare_runs(runs);
  const MetricChange& change = noisy.cells[0].runs[1].changes[size_t(Metric::output_tok_s)];
  EXPECT_EQ(change.change, Change::inconclusive);
  ASSERT_TRUE(change.repetitions_needed);
  EXPECT_GT(*change.repetitions_needed, 50);
  const RunComparison single = compare_runs(two_runs(1));
  EXPECT_EQ(rate_change(single, 0), Change::inconclusive);
  EXPECT_EQ(change_text(Metric::output_tok_s, single.cells[0].runs[1].changes[0]), "inconclusive (needs n >= 7)");
}

TEST(Compare, DisturbedTimesShowNothingAndTokensStillDo) {
  for (const size_t disturbed : {0, 1}) {
    std::vector<RunResult> runs = two_runs(7);
    scale_times(runs[1].cells[0], 1.5);
    runs[disturbed].cells[0].repetitions[2].disturbance = Disturbance{.wall_s = 1, .cores = 2, .foreign_cpu_s = 1.5};
    const RunComparison comparison = compare_runs(runs);
    const CellSide& side = comparison.cells[0].runs[1];
    for (const Metric metric : {Metric::output_tok_s, Metric::decode_tok_s, Metric::ttft_ms, Metric::tpot_ms}) {
      const MetricChange& change = side.changes[size_t(metric)];
      EXPECT_EQ(change.change, Change::inconclusive) << to_string(metric);
      EXPECT_FALSE(change.adjusted_p) << to_string(metric);
      EXPECT_EQ(change_text(metric, change), "inconclusive (disturbed)");
    }
    EXPECT_EQ(side.changes[size_t(Metric::steps)].change, Change::same);
    EXPECT_TRUE(side.same_tokens());
    EXPECT_EQ(rate_change(comparison, 1), Change::same);
  }
}

TEST(Compare, HolmKeepsManyCellsFromCryingWolf) {
  // Cells of pure noise: at 5 % each, some of 28 would be called; in the family of all, hardly ever one.
  int alarms = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<RunResult> runs = two_runs(5, 0.05 + 0.001 * round);
    const RunComparison comparison = compare_runs(runs);
    for (size_t cell = 0; cell < comparison.cells.size(); ++cell) {
      const Change change = rate_change(comparison, cell);
      alarms += change == Change::better || change == Change::worse;
    }
  }
  EXPECT_LE(alarms, 6);  // 40 families at 5 %: 2 expected
}

TEST(Compare, OtherTokensAndCountersAreNamed) {
  std::vector<RunResult> runs = two_runs(3);
  CellResult& cell = runs[1].cells[5];
  cell.repetitions[0].counters.accepted -= 1;
  cell.repetitions[0].counters.steps += 1;
  cell.repetitions[1].requests[2].output[7] ^= 1;
  const RunComparison comparison = compare_runs(runs);
  const CellSide& side = comparison.cells[5].runs[1];
  EXPECT_FALSE(side.same_tokens());
  EXPECT_EQ(side.requests_different, 1);
  EXPECT_TRUE(side.first_difference.starts_with("repetition 1, request q2: output token 7 is "));
  ASSERT_EQ(side.counters.size(), 2u);
  EXPECT_EQ(side.counters[0].name, "accepted");
  EXPECT_EQ(side.counters[1].name, "steps");
  EXPECT_EQ(side.changes[size_t(Metric::steps)].change, Change::worse);
  const std::string text = comparison_text(comparison);
  EXPECT_NE(text.find("B: output tokens identical to A's in 27 of 28 cells, counters in 27"), std::string::npos)
      << text;
  EXPECT_NE(text.find("1 of 36 outputs differ; repetition 1, request q2"), std::string::npos) << text;
  EXPECT_NE(text.find("tp1 pp1 draft k=3 c=1: accepted: A "), std::string::npos) << text;
}

TEST(Compare, AcceptanceLengthIsComparedRequestByRequest) {
  std::vector<RunResult> runs = two_runs(3);
  for (RepetitionResult& r : runs[1].cells[5].repetitions)  // every step that could accept one more does
    for (RequestRecord& q : r.requests)
      for (size_t i = 0; i < q.drafted.size(); ++i)
        if (q.accepted[i] < q.drafted[i]) ++q.accepted[i];
  const auto change = compare_runs(runs).cells[5].runs[1].changes[size_t(Metric::acceptance_length)];
  EXPECT_EQ(change.change, Change::better);
  ASSERT_TRUE(change.test && change.test->low);
  EXPECT_GT(*change.test->low, 1.02);
}

TEST(Compare, SettingsAreSortedByWhatTheyMean) {
  std::vector<RunResult> runs = two_runs(3);
  runs.push_back(runs[0]);
  const json base = {{"engine", {{"target", {{"path", "builtin:a"}}}, {"parallel", {{"tp", 1}}}}},
                     {"name", "x"},
                     {"sampling", {{"temperature", 0}, {"seed", 1}}},
                     {"load", {{"concurrency", 1}}},
                     {"speculation", {{"ngram", {{"max", 4}}}}},
                     {"sweep", {{"axes", {{"speculation.ngram.max", {2, 4}}}}, {"max_failures", 5}}},
                     {"workload", {{"dataset", "builtin:reading_qa"}, {"chat_template", true}}}};
  for (RunResult& run : runs) run.config_resolved = base;
  json& other = runs[2].config_resolved;
  other["name"] = "y";
  other["engine"]["target"]["path"] = "builtin:b";
  other["engine"]["parallel"]["tp"] = 2;
  other["sampling"] = {{"temperature", 1}, {"seed", 2}};
  other["load"]["concurrency"] = 8;
  other["speculation"]["ngram"]["max"] = 5;
  other["sweep"]["max_failures"] = 1;
  other["workload"].erase("chat_template");
  runs[1].environment["gpu_driver"] = "580";
  runs[1].info.numerics = "fast";
  const RunComparison comparison = compare_runs(runs);
  EXPECT_EQ(comparison.subject.size(), 2u);
  EXPECT_TRUE(lists(comparison.subject, "engine.target.path") && lists(comparison.subject, "sampling.seed"));
  EXPECT_EQ(comparison.environment.size(), 3u);
  EXPECT_TRUE(lists(comparison.environment, "gpu_driver") && lists(comparison.environment, "numerics"));
  EXPECT_TRUE(lists(comparison.environment, "sampling.temperature"));
  ASSERT_EQ(comparison.config.size(), 1u);  // neither name, sweep and axes nor what is swept in all runs
  EXPECT_EQ(comparison.config[0].key, "workload.chat_template");
  EXPECT_EQ(comparison.config[0].values, (std::vector<std::string>{"true", "true", "–"}));
}

TEST(Compare, BuildsAndThreadsInEffectAreEnvironment) {
  std::vector<RunResult> runs = two_runs(3);
  const auto value_of = [&](const std::string& key) -> std::vector<std::string> {
    for (const KeyDifference& difference : compare_runs(runs).environment)
      if (difference.key == key) return difference.values;
    return {};
  };
  EXPECT_TRUE(value_of("effective.threads_per_rank").empty());
  for (CellResult& cell : runs[0].cells) cell.effective["threads_per_rank"] = 4;
  for (CellResult& cell : runs[1].cells) cell.effective["threads_per_rank"] = 8;  // `auto` on another machine
  EXPECT_EQ(value_of("effective.threads_per_rank"), (std::vector<std::string>{"[4]", "[8]"}));
  runs[0].environment.update(nlohmann::json{{"git_commit", "aaaa"}, {"git_dirty", false}});
  runs[1].environment.update(nlohmann::json{{"git_commit", "bbbb"}, {"git_dirty", true}});
  EXPECT_EQ(value_of("git_commit"), (std::vector<std::string>{"\"aaaa\"", "\"bbbb\""}));
  EXPECT_EQ(value_of("git_dirty"), (std::vector<std::string>{"false", "true"}));
  EXPECT_NE(made_on(make_baseline(runs[0])).find("4 threads a rank"), std::string::npos);
}

TEST(Compare, ModelFilesThatChangedAreNamed) {
  std::vector<RunResult> runs = two_runs(3);
  runs.push_back(runs[0]);
  runs[0].info.inputs = {{"m/draft/config.json", "10-aa"}, {"m/draft/model.safetensors", "99-bb"}, {"a.json", "1-cc"}};
  runs[1].info.inputs = {{"m/draft/config.json", "10-aa"}, {"m/draft/model.safetensors", "99-dd"}, {"b.json", "1-ee"}};
  const std::vector<KeyDifference> files = compare_runs(runs).environment;  // the third run recorded none
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].key, "file m/draft/model.safetensors");
  EXPECT_EQ(files[0].values, (std::vector<std::string>{"99-bb", "99-dd", "–"}));
  EXPECT_NE(comparison_text(compare_runs(runs)).find("model files"), std::string::npos);
}

TEST(Compare, CellsOfOneRunOnlyAndFailedOnesAreListedNotCompared) {
  std::vector<RunResult> runs = two_runs(3);
  runs[1].cells[3].status = CellStatus::failed;
  runs[1].cells[3].reason = "rank 1 did not answer";
  runs[1].cells[3].repetitions.clear();
  runs[1].cells[4].axes.concurrency = 8;
  const RunComparison comparison = compare_runs(runs);
  EXPECT_EQ(comparison.cells.size(), 29u);
  EXPECT_FALSE(comparison.cells[3].runs[1].compared);
  EXPECT_EQ(rate_change(comparison, 3), Change::none);
  EXPECT_TRUE(comparison.cells[28].runs[0].id.empty());
  const std::string text = comparison_text(comparison);
  EXPECT_NE(text.find("not compared: A done, B failed (rank 1 did not answer)"), std::string::npos) << text;
  EXPECT_NE(text.find("c=8: not compared: A absent, B done"), std::string::npos) << text;
}

TEST(Compare, IsNoWiderThanTheTerminal) {
  std::vector<RunResult> runs = two_runs(7);
  const RunComparison comparison = compare_runs(runs);
  const std::string whole = comparison_text(comparison), narrow = comparison_text(comparison, 60);
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 60) << line;
  EXPECT_NE(narrow.find("\n  tp1 pp1 none c=1\n    tok/s A "), std::string::npos) << narrow;
  EXPECT_NE(whole.find("\n  tp1 pp1 none c=1 "), std::string::npos) << whole;
  EXPECT_EQ(comparison_text(comparison, 1000), whole);
}

TEST(Compare, EveryFormHoldsTheSame) {
  std::vector<RunResult> runs = two_runs(7);
  runs.push_back(runs[0]);
  scale_times(runs[2].cells[1], 1.08);
  runs[2].environment["cpu_model"] = "Another <CPU> & more | less";
  const RunComparison comparison = compare_runs(runs);
  const std::string text = comparison_text(comparison), markdown = comparison_markdown(comparison),
                    html = comparison_html(comparison), csv = comparison_csv(comparison);
  for (const std::string& form : {text, markdown})
    for (const char* part : {"B against A, tok/s: 28 same", "C against A, tok/s: 1 slower, 27 same", "cpu_model"})
      EXPECT_NE(form.find(part), std::string::npos) << part << "\n" << form;
  EXPECT_NE(markdown.find("more \\| less"), std::string::npos);
  EXPECT_NE(html.find("Another &lt;CPU&gt; &amp; more"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "no network";
  EXPECT_LT(html.size(), 200'000u);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 28 * 2 * int(kNumMetrics));
  const json data = comparison_to_json(comparison);
  EXPECT_EQ(data.at("schema"), "paceline.comparison");
  EXPECT_EQ(data.at("cells").at(1).at("runs").at(2).at("against_first").at("changes").at("ttft_ms").at("change"),
            "slower");
  EXPECT_FALSE(data.at("cells").at(1).at("runs").at(0).contains("against_first"));
  EXPECT_EQ(data.at("environment").at(0).at("key"), "cpu_model");
  for (const Metric metric : kMetrics)
    EXPECT_TRUE(data["cells"][0]["runs"][0]["values"].contains(to_string(metric))) << to_string(metric);
}

}  // namespace
}  // namespace paceline
