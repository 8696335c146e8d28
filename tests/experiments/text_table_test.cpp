// Tables and sentences that are no wider than the terminal.

#include <sstream>

#include <gtest/gtest.h>

#include "experiments/report/text/text.h"
#include "experiments/report/text/text_lines.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using test::holds;
using Lines = std::vector<std::string>;

TEST(WrappedLines, BreakBetweenWords) {
  EXPECT_EQ(wrapped_lines("  one two three", 0, 4), Lines{"  one two three"});
  EXPECT_EQ(wrapped_lines("  one two three", 15, 4), Lines{"  one two three"});
  EXPECT_EQ(wrapped_lines("  one two three", 14, 4), (Lines{"  one two", "    three"}));
  EXPECT_EQ(wrapped_lines("  one two three", 1, 4), (Lines{"  one", "    two", "    three"}));
  EXPECT_EQ(wrapped_lines("a  b  1.00× é", 10, 0), (Lines{"a  b", "1.00× é"}));
  EXPECT_EQ(wrapped_text("one two", 3, 0), "one\ntwo\n");
}

TEST(WrappedLines, KeepPathsWholeAndBreakListsBehindCommas) {
  EXPECT_EQ(wrapped_lines("data results/a_long_name/x.json y", 12, 5),
            (Lines{"data", "     results/a_long_name/x.json", "     y"}));
  EXPECT_EQ(wrapped_lines("x {\"a\":1,\"b\":2,\"c\":3}", 12, 2), (Lines{"x {\"a\":1,", "  \"b\":2,", "  \"c\":3}"}));
}

int widest(const std::string& text) {
  int most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, display_width(line));
  return most;
}

/// The words behind the table.
Lines words_of(const std::string& text) {
  std::istringstream stream(text.substr(text.find("\n\n")));
  Lines words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST(EndOfRunText, IsNoWiderThanTheTerminal) {
  for (const bool is_open : {false, true}) {
    RunResult run = test::synthetic_run({.requests = 24});
    run.folder = "results/x";
    run.slo = {.ttft_ms = 30, .tpot_ms = {}};
    for (CellResult& cell : run.cells) {
      if (!is_open) break;
      cell.load = cell.axes.variant = "poisson 1/s";
      cell.axes.concurrency = 0;
      for (RepetitionResult& r : cell.repetitions)
        for (size_t i = 0; i < r.requests.size(); ++i) r.requests[i].arrival_ms = 1000.0 * double(i);
    }
    const RunSummary summary = summarize(run);
    const std::string whole = end_of_run_text(run, summary, TextColor::off);
    for (const int columns : {60, 80, 120}) {
      const std::string text = end_of_run_text(run, summary, TextColor::off, {}, columns);
      EXPECT_LE(widest(text), columns) << text;
      EXPECT_EQ(words_of(text), words_of(whole)) << "whole words, and all of them";
      EXPECT_TRUE(holds(text, "\n  Hidden at this width, all in summary.md: req/dev/min,")) << text;
      const bool is_below = holds(text, "\n      baseline");
      EXPECT_EQ(is_below, !holds(text.substr(0, text.find('\n')), "verdict")) << text;
      EXPECT_TRUE(holds(text, is_open ? "decode speedup" : "speedup [95 %]"));
    }
    EXPECT_FALSE(holds(whole, "Hidden at this width"));
  }
}

TEST(EndOfRunText, PublishedReasonsStandBelowTheirRows) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  run.cells.resize(3);
  run.cells[0].axes.variant = "base";
  run.cells[2].axes.variant = "drafts";
  run.cells[2].published = {.over = "base", .speedup = 1.6, .source = "a paper"};
  const std::string text = end_of_run_text(run, summarize(run), TextColor::off, {}, 60);
  EXPECT_TRUE(holds(text, "\n  drafts  base ")) << text;
  EXPECT_TRUE(holds(text, "      1.60×\n      ")) << text;
  EXPECT_LE(widest(text), 60) << text;
}

}  // namespace
}  // namespace paceline
