// runexp compare: several runs, cell by cell

#include "experiments/analysis/comparison/compare.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "experiments/analysis/read_run.h"
#include "experiments/commands/command_line.h"
#include "experiments/report/comparison/comparison.h"
#include "experiments/results/files/run_names.h"
#include "experiments/results/files/store.h"
#include "experiments/ui/output_columns.h"

namespace paceline {
namespace {

struct CompareCommand {
  std::vector<std::string> runs;
  std::filesystem::path results_root = "results";
  std::string format = "text";
  std::string min_effect = "2%";
  bool force = false;
};

/// "2%" or "0.02"
double parse_effect(const std::string& text) {
  const bool percent = text.ends_with('%');
  const char* const end = text.data() + text.size() - (percent ? 1 : 0);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (percent) value /= 100;
  if (error != std::errc() || stop != end || !(value > 0) || !(value < 1))
    fail(ExitCode::usage, "--min-effect {}: expected a share between 0 and 1, such as 2% or 0.02", text);
  return value;
}

/// columns: of the terminal that reads it; 0: none does.
std::string formatted(const RunComparison& comparison, const std::string& format, int columns) {
  if (format == "md") return comparison_markdown(comparison);
  if (format == "html") return comparison_html(comparison);
  if (format == "json") return dump_json(comparison_to_json(comparison)) + "\n";
  if (format == "csv") return comparison_csv(comparison);
  return comparison_text(comparison, columns);
}

/// Times of another model, data set or seed say nothing about a change.
void check_same_subject(const RunComparison& comparison) {
  if (comparison.subject.empty()) return;
  std::string keys;
  for (const KeyDifference& difference : comparison.subject)
    keys += fmt::format("{}{} ({})", keys.empty() ? "" : ", ", difference.key, fmt::join(difference.values, " / "));
  fail(ExitCode::usage, "these runs are different experiments: {}; --force compares them all the same", keys);
}

/// Rows of which no two runs have the cell set nothing side by side.
void check_common_cells(const RunComparison& comparison) {
  for (const CellRow& row : comparison.cells)
    if (std::count_if(row.runs.begin(), row.runs.end(), [](const auto& of) { return !of.id.empty(); }) > 1) return;
  std::string examples;
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    const auto first = std::find_if(comparison.cells.begin(), comparison.cells.end(),
                                    [&](const CellRow& row) { return !row.runs[i].id.empty(); });
    examples += fmt::format("{}{} has {}", i == 0 ? "" : ", ", comparison.runs[i].id,
                            first == comparison.cells.end() ? "none" : first->runs[i].id + ", …");
  }
  fail(ExitCode::usage, "these runs have no cell in common: {}", examples);
}

ExitCode compare_command(const CompareCommand& command) {
  const CompareOptions options{.min_effect = parse_effect(command.min_effect)};
  std::vector<RunResult> runs;
  for (const std::string& name : command.runs) {
    runs.push_back(read_run(find_run(command.results_root, name)));
    const auto named_before = std::find_if(runs.begin(), runs.end() - 1,
                                           [&](const RunResult& run) { return run.folder == runs.back().folder; });
    if (named_before != runs.end() - 1)
      spdlog::warn("{} and {} are the same run, {}", command.runs[size_t(named_before - runs.begin())], name,
                   runs.back().info.id);
  }
  const RunComparison comparison = compare_runs(runs, options);
  if (!command.force) check_same_subject(comparison);
  check_common_cells(comparison);
  std::fputs(formatted(comparison, command.format, output_columns()).c_str(), stdout);
  return ExitCode::ok;
}

}  // namespace

void add_compare_command(const Command& program) {
  const auto compare = std::make_shared<CompareCommand>();
  add_results_option(program.below("compare", "compare runs: settings, tokens, counters, times"), compare->results_root)
      .option("runs", &compare->runs, "two runs or more: last, last~1, @tag, id, hash, folder",
              {.required = true, .type = "RUN", .fewest = 2, .greatest = 100})
      .option("--format", &compare->format, "print it as",
              {.shown = true, .words = {"text", "md", "html", "json", "csv"}})
      .option("--min-effect", &compare->min_effect, "ignore smaller changes", {.shown = true, .type = "SHARE"})
      .option("--force", &compare->force, "compare even if model, data set or seed differ")
      .footer(
          "Examples:\n"
          "  runexp compare last~1 last\n"
          "  runexp compare @before @after --format html > difference.html\n\n"
          "Statistics: docs/regression.md.")
      .calls([compare] { return compare_command(*compare); });
}

}  // namespace paceline
