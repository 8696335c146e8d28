#include "experiments/report/comparison/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "engine/util/utf8_chars.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/statistics/statistics.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"
#include "experiments/report/text/text_lines.h"

namespace paceline {

namespace {

/// What the text, Markdown and HTML forms share: sentences and tables in reading order.
struct Sheet {
  std::vector<Table> settings;         // runs, then what differs; each with a column for every run
  std::vector<std::string> semantics;  // tokens and counters
  std::vector<Table> changes;          // one for each run but A
  std::vector<std::string> counts;     // "B: tok/s: 2 faster, 5 same"
  std::vector<std::string> notes;      // how to read it
};

constexpr size_t kMostDifferences = 12;  // lines of counters a run
constexpr size_t kMostText = 48;         // columns of a setting's value

Table table_of(std::string title, std::vector<std::string> heads, size_t text_columns) {
  Table table{.title = std::move(title), .columns = {}, .rows = {}};
  for (size_t c = 0; c < heads.size(); ++c)
    table.columns.push_back({.name = std::move(heads[c]), .is_text = c < text_columns || c + 1 == heads.size()});
  return table;
}

Table runs_table(const RunComparison& comparison) {
  Table table = table_of("Runs", {"", "run", "numerics", "started"}, 4);
  for (size_t run = 0; run < comparison.runs.size(); ++run) {
    const ComparedRun& r = comparison.runs[run];
    table.rows.push_back({.cells = {run_letter(run), r.id, r.numerics, r.started_at}});
  }
  return table;
}

void add_differences(const std::string& title, const std::vector<KeyDifference>& differences, size_t num_runs,
                     std::vector<Table>& out) {
  if (differences.empty()) return;
  std::vector<std::string> heads = {"key"};
  for (size_t run = 0; run < num_runs; ++run) heads.push_back(run_letter(run));
  Table table = table_of(title, heads, num_runs + 1);
  for (const KeyDifference& difference : differences) {
    table.rows.push_back({.cells = {difference.key}});
    for (const std::string& value : difference.values)
      table.rows.back().cells.push_back(utf8_shortened(value, kMostText + 1));
  }
  out.push_back(std::move(table));
}

/// Tokens and counters of one run against A.
void add_semantics(const RunComparison& comparison, size_t run, std::vector<std::string>& out) {
  size_t compared = 0, same_tokens = 0, same_counters = 0, lines = 0;
  std::vector<std::string> details;
  const auto add = [&](std::string line) {
    if (++lines <= kMostDifferences) details.push_back(std::move(line));
  };
  for (const CellRow& row : comparison.cells) {
    const CellSide& side = row.runs[run];
    if (!side.compared) continue;
    ++compared;
    same_tokens += side.same_tokens();
    same_counters += side.counters.empty();
    if (!side.same_tokens())
      add(fmt::format("  {}: {} of {} outputs differ; {}", axes_label(row.axes), side.requests_different,
                      side.requests_compared, side.first_difference));
    for (const CounterChange& c : side.counters)
      add(fmt::format("  {}: {}: A {}, {} {}", axes_label(row.axes), c.name, c.first.dump(), run_letter(run),
                      c.other.dump()));
  }
  out.push_back(fmt::format("{}: output tokens identical to A's in {} of {}, counters in {}", run_letter(run),
                            same_tokens, counted(compared, "cell"), same_counters));
  out.insert(out.end(), details.begin(), details.end());
  if (lines > kMostDifferences)
    out.push_back(fmt::format("  … {} more (--format json has all)", lines - kMostDifferences));
}

/// Cells that only one side has, or that did not run on one.
void add_missing(const RunComparison& comparison, size_t run, std::vector<std::string>& out) {
  for (const CellRow& row : comparison.cells) {
    const CellSide &first = row.runs[0], &other = row.runs[run];
    if (other.compared) continue;
    const auto state = [](const CellSide& side) {
      if (side.id.empty()) return std::string("absent");
      if (side.status == CellStatus::done) return std::string("done");
      return fmt::format("{}{}", to_string(side.status), side.reason.empty() ? "" : " (" + side.reason + ")");
    };
    if (first.id.empty() && other.id.empty()) continue;
    out.push_back(fmt::format("  {}: not compared: A {}, {} {}", axes_label(row.axes), state(first), run_letter(run),
                              state(other)));
  }
}

constexpr int kDigits = 3;  // of a ratio: builds differ by less than cells

std::string short_text(Metric metric, const MetricChange& change) {
  if (!change.test) return "–";
  return fmt::format("{:.{}f}× {}", change.test->ratio, kDigits,
                     change.change == Change::inconclusive ? "?" : change_word(metric, change.change));
}

Table::Cell word_cell(const std::string& text) {
  const bool is_good = text.starts_with("faster") || text.ends_with(" faster");
  const bool is_bad = text.starts_with("slower") || text.ends_with(" slower") || text == "DIFFER";
  return {text, "", is_good ? "good" : is_bad ? "bad" : ""};
}

Table changes_table(const RunComparison& comparison, size_t run) {
  const std::string letter = run_letter(run);
  const std::string rate = metric_title(Metric::output_tok_s);
  std::vector<std::string> heads = {"cell", rate + " A", rate + " " + letter, letter + "/A (95 % interval)"};
  for (const Metric metric : kMetrics)
    if (metric != Metric::output_tok_s) heads.push_back(metric_title(metric));
  heads.insert(heads.end(), {"tokens", rate});
  Table table = table_of(fmt::format("{} against A", letter), heads, 1);
  for (const CellRow& row : comparison.cells) {
    const CellSide &first = row.runs[0], &other = row.runs[run];
    if (!other.compared) continue;
    constexpr auto kRate = size_t(Metric::output_tok_s);
    const MetricChange& change = other.changes[kRate];
    std::vector<Table::Cell> cells = {
        axes_label(row.axes), number_text(first.values[kRate], 1), number_text(other.values[kRate], 1),
        change.test ? interval_text(change.test->ratio, change.test->low, change.test->high, kDigits) : "–"};
    for (const Metric metric : kMetrics)
      if (metric != Metric::output_tok_s) cells.push_back(word_cell(short_text(metric, other.changes[size_t(metric)])));
    cells.push_back(word_cell(other.same_tokens() ? "same" : "DIFFER"));
    cells.push_back(word_cell(change_text(Metric::output_tok_s, change) +
                              (first.rankable && other.rankable ? "" : ", not ranked")));
    table.rows.push_back({.cells = std::move(cells)});
  }
  return table;
}

std::string counts_of(const RunComparison& comparison, size_t run) {
  constexpr std::array kOrder = {Change::better, Change::worse, Change::same, Change::inconclusive};
  std::vector<std::string> parts;
  for (const Change change : kOrder) {
    const auto n = std::count_if(comparison.cells.begin(), comparison.cells.end(), [&](const CellRow& row) {
      return row.runs[run].changes[size_t(Metric::output_tok_s)].change == change;
    });
    if (n > 0) parts.push_back(fmt::format("{} {}", n, change_word(Metric::output_tok_s, change)));
  }
  return fmt::format("{} against A, {}: {}", run_letter(run), metric_title(Metric::output_tok_s),
                     parts.empty() ? "no cell to compare" : fmt::format("{}", fmt::join(parts, ", ")));
}

Sheet sheet_of(const RunComparison& comparison) {
  Sheet sheet;
  const size_t num_runs = comparison.runs.size();
  sheet.settings.push_back(runs_table(comparison));
  add_differences("Another experiment: compared only because of --force", comparison.subject, num_runs, sheet.settings);
  add_differences("Warning: machine, build, model files, numerics or sampling differ", comparison.environment, num_runs,
                  sheet.settings);
  add_differences("Settings that differ outside the axes", comparison.config, num_runs, sheet.settings);
  for (size_t run = 1; run < num_runs; ++run) {
    add_semantics(comparison, run, sheet.semantics);
    add_missing(comparison, run, sheet.semantics);
    sheet.changes.push_back(changes_table(comparison, run));
    sheet.counts.push_back(counts_of(comparison, run));
  }
  sheet.notes = {
      fmt::format(
          "faster, slower: Holm-adjusted p < 0.05 over the cells and a change of {0:g} % or more; same: the 95 % "
          "interval lies within {0:g} %; ?: inconclusive, as are times where something disturbed a side.",
          comparison.options.min_effect * 100),
      "Times: Welch's t on logs over repetitions, which are not paired, as the runs are separate processes; AL: "
      "bootstrap-t over requests.",
      "Drift of the machine between the runs is in no interval: runexp regress --baseline-bin interleaves two binaries "
      "and judges."};
  return sheet;
}

}  // namespace

std::string run_letter(size_t run) { return run < 26 ? std::string(1, char('A' + run)) : fmt::format("R{}", run + 1); }

std::string change_text(Metric metric, const MetricChange& change) {
  const std::string word = change_word(metric, change.change);
  if (change.change != Change::inconclusive || metric == Metric::acceptance_length) return word;
  if (change.may_be_drift) return word + " (disturbed)";
  if (change.repetitions_needed) return fmt::format("{} (needs n >= {})", word, *change.repetitions_needed);
  const bool no_spread = change.test && !change.test->low;
  return no_spread ? fmt::format("{} (needs n >= {})", word, kFewestRepetitions) : word + " (too noisy)";
}

std::string comparison_text(const RunComparison& comparison, int columns) {
  const Sheet sheet = sheet_of(comparison);
  std::string out;
  const auto add_line = [&](const std::string& line) {
    out += wrapped_text(line, columns, line.starts_with("  ") ? 4 : 2);
  };
  const auto add_table = [&](const Table& table) {
    add_line(table.title);
    for (const auto& lines : stacked_table(table, columns).lines)
      for (const std::string& line : lines) out += line + "\n";
    out += "\n";
  };
  for (const Table& table : sheet.settings) add_table(table);
  for (const std::string& line : sheet.semantics) add_line(line);
  out += "\n";
  for (const Table& table : sheet.changes) add_table(table);
  for (const std::string& line : sheet.counts) add_line(line);
  for (const std::string& line : sheet.notes) add_line(line);
  return out;
}

std::string comparison_markdown(const RunComparison& comparison) {
  const Sheet sheet = sheet_of(comparison);
  std::string out = "# Comparison\n\n";
  for (const std::string& line : sheet.counts) out += "**" + line + "**\n\n";
  const auto add_table = [&](const Table& table) {
    out += "## " + table.title + "\n\n" + markdown_table(table) + "\n";
  };
  for (const Table& table : sheet.settings) add_table(table);
  out += "## Tokens and counters\n\n";
  for (const std::string& line : sheet.semantics)
    out += (line.starts_with("  ") ? "  - " + line.substr(2) : "- " + line) + "\n";
  out += "\n";
  for (const Table& table : sheet.changes) add_table(table);
  for (const std::string& line : sheet.notes) out += line + "\n";
  return out;
}

namespace {

std::string titled(const Table& table) {
  return fmt::format("<h2>{}</h2>", html_escaped(table.title)) + html_table(table, "titled fits");
}

/// Ratios of one run's rates to A's; grey where nothing can be said.
std::string ratio_chart(const RunComparison& comparison, size_t run) {
  constexpr int kBetter = 2, kWorse = 1, kSame = 0, kOpen = 7;
  BarChart chart{.title = fmt::format("{}: {} against A's", run_letter(run), metric_title(Metric::output_tok_s)),
                 .x_label = "ratio; 1 is as fast as A",
                 .rows = {},
                 .scale_to = {},
                 .reference = 1.0};
  for (const CellRow& row : comparison.cells) {
    const MetricChange& change = row.runs[run].changes[size_t(Metric::output_tok_s)];
    if (!change.test || !std::isfinite(change.test->ratio)) continue;
    const int color = change.change == Change::better  ? kBetter
                      : change.change == Change::worse ? kWorse
                      : change.change == Change::same  ? kSame
                                                       : kOpen;
    chart.rows.push_back({.label = axes_label(row.axes),
                          .value = change.test->ratio,
                          .low = change.test->low,
                          .high = change.test->high,
                          .color = color,
                          .faded = !row.runs[0].rankable || !row.runs[run].rankable,
                          .text = change_text(Metric::output_tok_s, change)});
  }
  return chart.rows.empty() ? "" : html::wide(chart.title, svg_bar_chart(chart));
}

}  // namespace

std::string comparison_html(const RunComparison& comparison) {
  const Sheet sheet = sheet_of(comparison);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" "
      "content=\"light dark\"><title>Comparison</title>"
      "<style>{}</style></head><body><main><h1>Comparison of {} runs</h1>\n",
      html::page_style(), comparison.runs.size());
  for (const std::string& line : sheet.counts) out += fmt::format("<p><b>{}</b></p>\n", html_escaped(line));
  for (const Table& table : sheet.settings) out += titled(table);
  out += "<h2>Tokens and counters</h2>\n";
  for (const std::string& line : sheet.semantics) out += fmt::format("<p class=\"note\">{}</p>\n", html_escaped(line));
  for (size_t run = 1; run < comparison.runs.size(); ++run)
    out += titled(sheet.changes[run - 1]) + ratio_chart(comparison, run);
  for (const std::string& line : sheet.notes) out += fmt::format("<p class=\"note\">{}</p>\n", html_escaped(line));
  return out + "</main></body></html>\n";
}

}  // namespace paceline
