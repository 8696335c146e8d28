// runexp regress: the exact gate (token hashes and counters against a baseline) and the timing gate (two binaries by
// turns). docs/regression.md

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "engine/util/clock.h"
#include "engine/util/counted.h"
#include "engine/util/printable.h"
#include "experiments/analysis/read_run.h"
#include "experiments/commands/command_line.h"
#include "experiments/commands/commands.h"
#include "experiments/report/text/gate_report.h"
#include "experiments/results/files/baseline.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/run_names.h"
#include "experiments/results/files/store.h"
#include "experiments/run/timing_pairs.h"
#include "experiments/ui/output_columns.h"
#include "experiments/ui/progress.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kOneRankCells = "single";

struct RegressCommand {
  RunCommand run;
  std::string baseline = "results/baselines/cpu.json";  // a file, or a run as find_run() takes it
  bool update = false;
  fs::path junit, markdown, benchmark_json;  // files to write; empty: none
  bool github = false;
  fs::path baseline_bin;  // empty: no timing gate
  int pairs = kTimingPairs;
  std::string timing_cells = kOneRankCells;  // or all
  bool timing_only = false;
  bool strict = false;
};

void write_where_asked(const fs::path& file, const std::string& text) {
  if (!file.empty()) write_file_atomic(file, text);
}

/// What the two binaries run: the experiment as the user changed it, one repetition a process.
std::vector<std::string> child_arguments(const RegressCommand& command) {
  const ConfigOverrides& overrides = command.run.overrides;
  std::vector<std::string> arguments = {command.run.config.string()};
  const auto add = [&](const char* option, const std::string& value) {
    arguments.insert(arguments.end(), {option, value});
  };
  if (!overrides.profile.empty()) add("--profile", overrides.profile);
  for (const std::string& set : overrides.set) add("--set", set);
  for (const std::string& axis : overrides.axis) add("--axis", axis);
  add("--set", "measure.repetitions=1");
  std::string only = overrides.only;
  if (command.timing_cells == kOneRankCells)
    only = only.empty() ? "tp == 1 && pp == 1" : fmt::format("({}) && tp == 1 && pp == 1", only);
  if (!only.empty()) add("--only", only);
  return arguments;
}

void run_timing_gate(const RegressCommand& command, Progress& progress, GateReport& report) {
  const int quarter = std::max(1, command.pairs / 4);
  progress.phase(fmt::format("timing {} against this program", command.baseline_bin.string()));
  const PairTimes times =
      time_pairs({.baseline_bin = command.baseline_bin,
                  .now_bin = fs::read_symlink("/proc/self/exe"),
                  .arguments = child_arguments(command),
                  .pairs = command.pairs,
                  .interrupts = num_interrupts,
                  .on_pair_done = [&](int done) {
                    if (done % quarter == 0)
                      progress.message(fmt::format("timing: {} of {} pairs\n", done, command.pairs));
                  }});
  progress.end();
  report.timing = judge_timing(times.cells);
  report.timing_note =
      fmt::format("{} by turns, {}; slower means p < {} and a median ratio above {}", counted(command.pairs, "pair"),
                  times.whole_process ? "CPU time of whole processes, as one binary does not write cpu_s"
                                      : "CPU time without wait loops",
                  kTimingChance, kTimingTolerance);
}

/// The report in every form that was asked for, but for the text.
void write_forms(const RegressCommand& command, const GateReport& report) {
  if (command.github) fmt::print("{}", github_annotations(report));
  write_where_asked(command.junit, gate_junit(report));
  write_where_asked(command.markdown, gate_markdown(report));
}

void check_options(const RegressCommand& command) {
  if (command.timing_only && command.baseline_bin.empty())
    fail(ExitCode::usage, "--timing-only: needs --baseline-bin, the program to compare with");
  if (command.timing_only && (command.update || !command.benchmark_json.empty()))
    fail(ExitCode::usage, "--timing-only: runs no exact gate, which --update-baseline and --benchmark-json need");
  const char* const of_timing = command.pairs != kTimingPairs           ? "--pairs"
                                : command.timing_cells != kOneRankCells ? "--timing-cells"
                                                                        : nullptr;
  if (of_timing && command.baseline_bin.empty())
    fail(ExitCode::usage, "{}: goes with --baseline-bin, the program to compare with", of_timing);
  std::error_code ignored;
  if (!command.baseline_bin.empty() && !fs::is_regular_file(command.baseline_bin, ignored))
    fail(ExitCode::usage, "--baseline-bin {}: no such file; expected a runexp program", command.baseline_bin.string());
}

/// Whether --baseline names a file, there or not, and no run.
bool is_file_name(const std::string& name) {
  std::error_code ignored;
  return name.ends_with(".json") || fs::is_regular_file(name, ignored);
}

/// Before the run, which may take long.
void check_files(const RegressCommand& command) {
  const auto check = [](const char* option, const fs::path& file) {
    if (file.empty()) return;
    const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored))
      fail(ExitCode::store, "{} {}: there is no folder {}: make it, or name another file", option, file.string(),
           folder.string());
    if (::access(folder.c_str(), W_OK) != 0 || fs::is_directory(file, ignored))
      fail(ExitCode::store, "{} {}: cannot be written: make the folder writable, or name another file", option,
           file.string());
  };
  check("--junit", command.junit);
  check("--markdown", command.markdown);
  check("--benchmark-json", command.benchmark_json);
  if (!command.update) return;
  if (!is_file_name(command.baseline))
    fail(ExitCode::usage, "--baseline {}: --update-baseline writes a file: expected a name that ends in .json",
         user_text(command.baseline));
  check("--baseline", command.baseline);
  std::error_code ignored;
  if (!command.run.overrides.only.empty() && fs::exists(command.baseline, ignored))
    fail(ExitCode::usage,
         "--baseline {}: --update-baseline with --only would drop its other cells: run all, or name another file",
         command.baseline);
}

/// What --baseline names: a file, or a run by its id.
struct FoundBaseline {
  std::string name;
  json facts;  // as make_baseline() makes them
};

/// A baseline file, else a recorded run as find_run() takes it.
FoundBaseline find_baseline(const std::filesystem::path& results_root, const std::string& name) {
  if (is_file_name(name)) return {.name = name, .facts = read_baseline(name)};
  const RunResult run = read_run(find_run(results_root, name));
  return {.name = run.info.id, .facts = make_baseline(run)};
}

/// Cell by cell, another experiment differs everywhere, which says nothing about the program.
void check_same_subject(const FoundBaseline& baseline, const LoadedConfig& loaded) {
  const BaselineSubject before = subject_of(baseline.facts);
  const BaselineSubject now{.name = loaded.config.name,
                            .profile = loaded.profile,
                            .requests = loaded.config.workload.requests,
                            .settings = exact_settings(config_to_json(loaded.config))};
  std::vector<std::string> differences = subject_differences(before, now);
  if (differences.empty()) return;
  constexpr size_t kMostNamed = 6;
  if (differences.size() > kMostNamed) {
    const size_t more = differences.size() - kMostNamed;
    differences.resize(kMostNamed);
    differences.push_back(fmt::format("{} more", more));
  }
  const bool has_profile =
      before.name == now.name && before.profile != now.profile &&
      std::find(loaded.profiles.begin(), loaded.profiles.end(), before.profile) != loaded.profiles.end();
  const std::string was = described(before), is = described(now);
  fail(ExitCode::usage,
       "{} is of {}: {}; {}name a baseline with --baseline, or make one with --baseline FILE --update-baseline",
       baseline.name, was == is ? "other settings" : fmt::format("{}, this is {}", was, is),
       fmt::join(differences, "; "), has_profile ? fmt::format("add --profile {}, ", before.profile) : "");
}

/// Why a run is no baseline: "tp1_pp1_draft_k3_c1 failed: draft/model.safetensors: …".
std::string unfit_text(const SupervisedEnd& end) {
  if (end.code == ExitCode::correctness) return "a cell is not lossless";
  if (end.code != ExitCode::failed_cells || !end.folder) return "the run did not come to its end";
  const RunResult run = read_run(*end.folder);
  const auto failed = std::ranges::find(run.cells, CellStatus::failed, &CellResult::status);
  return failed == run.cells.end() ? "a cell failed" : fmt::format("{} failed: {}", failed->id, failed->reason);
}

/// Writes the baseline, or says why not.
ExitCode update_baseline(const RegressCommand& command, const SupervisedEnd& end, GateReport& report) {
  if (end.code != ExitCode::ok) {
    report.error = fmt::format("{} is not written: {}", command.baseline, unfit_text(end));
    print_line("{}", report.error);
    write_forms(command, report);
    return end.code;
  }
  const json current = make_baseline(read_run(*end.folder));
  write_file_atomic(command.baseline, dump_json(current));
  fmt::print("wrote {}: {}\n", command.baseline, counted(int64_t(current.at("cells").size()), "cell"));
  return ExitCode::ok;
}

void judge_exact(const RegressCommand& command, FoundBaseline baseline, const RunResult& run, GateReport& report) {
  const json current = make_baseline(run);
  if (!command.run.overrides.only.empty()) {  // what was not to run is no difference; what was skipped is one
    std::set<std::string> chosen;
    for (const CellResult& cell : run.cells) chosen.insert(cell.id);
    json& cells = baseline.facts.at("cells");
    for (auto cell = cells.begin(); cell != cells.end();)
      cell = chosen.contains(cell.key()) ? std::next(cell) : (++report.left_out, cells.erase(cell));
  }
  report.started_at = run.info.started_at;
  report.baseline = baseline.name;
  report.exact = exact_verdicts(run, baseline.facts);
  const std::string then = made_on(baseline.facts), now = made_on(current);
  if (then != now)
    report.made_on = fmt::format("{}; this run: {}", then.empty() ? "a machine it does not name" : then, now);
}

ExitCode run_gates(const RegressCommand& command, const LoadedConfig& loaded, GateReport& report) {
  SupervisedEnd end;
  std::optional<RunResult> run;
  if (!command.timing_only) {
    auto baseline = command.update ? FoundBaseline{} : find_baseline(command.run.results_root, command.baseline);
    if (!command.update) check_same_subject(baseline, loaded);
    // In a process of its own, so that a crash costs a cell and not the gate.
    end = in_a_process(command.run, [&](const SupervisedTask& task) {
      return run_as_task(command.run, task, loaded, EndOfRun::silent);
    });
    if (end.is_child) return end.code;
    if (command.update) return update_baseline(command, end, report);
    const bool has_record =
        end.code == ExitCode::ok || end.code == ExitCode::failed_cells || end.code == ExitCode::correctness;
    if (!end.folder || !has_record) {
      const bool was_ended = end.code == ExitCode::interrupted || end.code == ExitCode::terminated;
      if (end.code == ExitCode::store || was_ended) {  // of what else the child threw, it wrote the forms itself
        report.error = was_ended ? "the run was interrupted: the gate has judged nothing"
                                 : "the results store refused: exit code 6; the log says why";
        write_forms(command, report);
      }
      if (end.folder)  // the run has said how it goes on, as under `runexp run`
        std::fputs("runexp: the gate has judged nothing: resume finishes this run, regress starts another\n", stderr);
      return end.code;
    }
    run = read_run(*end.folder);
    judge_exact(command, std::move(baseline), *run, report);
  }
  if (!command.baseline_bin.empty()) {
    if (end.code == ExitCode::ok && gate_exit_code(report) == ExitCode::ok) {
      install_interrupt_handler();
      const std::unique_ptr<Progress> progress =
          make_progress(parse_progress_mode(command.run.progress), standard_error_terminal());
      run_timing_gate(command, *progress, report);
    } else {
      report.timing_note = "not timed, as the exact gate did not pass";
    }
  }
  print_wrapped_lines(gate_text(report));
  write_forms(command, report);
  if (run) write_where_asked(command.benchmark_json, dump_json(benchmark_entries(*run)));
  const ExitCode gates = gate_exit_code(report);
  return gates != ExitCode::ok ? gates : end.code;
}

ExitCode regress_command(const RegressCommand& command) {
  GateReport report;
  report.name = command.run.config.stem().string();
  report.started_at = utc_now();
  report.baseline_bin = command.baseline_bin.string();
  report.strict = command.strict;
  check_files(command);
  try {
    check_options(command);
    const LoadedConfig loaded = load_config(command.run.config, command.run.overrides);
    report.name = loaded.config.name;
    return run_gates(command, loaded, report);
  } catch (const Error& error) {
    // Who reads the files only must not find those of an earlier run, or none.
    report.error = error.what();
    try {
      write_forms(command, report);
    } catch (const Error& second) {
      std::fputs(fmt::format("runexp: error: {}\n", second.what()).c_str(), stderr);  // throws nothing
    }
    throw;
  }
}

}  // namespace

void add_regress_command(const Command& program) {
  const auto regress = std::make_shared<RegressCommand>();
  const Command command = program.below(
      "regress", "check an experiment: tokens and counters against a baseline, times against another build");
  add_config_options(command, regress->run.config, regress->run.overrides)
      .option("--baseline", &regress->baseline, "baseline file, or a run: last~1, @tag, id, folder", {.shown = true})
      .option("--update-baseline", &regress->update, "write the baseline instead of comparing")
      .option("--junit", &regress->junit, "write the verdicts as JUnit XML", {.type = "FILE"})
      .option("--markdown", &regress->markdown, "write the verdicts as Markdown", {.type = "FILE"})
      .option("--github", &regress->github, "print GitHub annotations (::error …)")
      .option("--benchmark-json", &regress->benchmark_json, "write TPOT, TTFT and steps for github-action-benchmark",
              {.type = "FILE"})
      .option("--baseline-bin", &regress->baseline_bin,
              "also compare times with those of another runexp binary, in alternating runs", {.type = "FILE"})
      .option("--pairs", &regress->pairs, "number of alternating runs of each binary",
              {.shown = true, .least = 1, .most = 10000})
      .option("--timing-cells", &regress->timing_cells, "cells to time (single: one-rank cells only)",
              {.shown = true, .words = {kOneRankCells, "all"}})
      .option("--timing-only", &regress->timing_only, "skip the check of tokens and counters")
      .option("--strict", &regress->strict, "with --baseline-bin: exit with 9 if other processes disturbed the timing");
  add_run_options(command, regress->run)
      .footer(
          "Examples:\n"
          "  runexp regress configs/ngram_tp2.json --profile quick\n"
          "  runexp regress configs/ngram_tp2.json --profile quick --baseline last --junit regress.xml --github\n"
          "  runexp regress configs/ngram_tp2.json --profile quick --baseline-bin ../base/build/release/runexp\n\n"
          "Without --baseline-bin only tokens and counters are compared.\n"
          "Exit codes: 2: baseline of another experiment; 7: tokens or counters differ;\n"
          "8: slower than --baseline-bin; 9: times were disturbed (with --strict). All: runexp explain exit-codes.")
      .calls([regress] { return regress_command(*regress); });
}

}  // namespace paceline
