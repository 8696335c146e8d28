// runexp list, show, trace, report, tag, note, rm: the runs of a results folder

#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "engine/util/printable.h"
#include "engine/util/suggest.h"
#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/read_run.h"
#include "experiments/analysis/statistics/noise.h"
#include "experiments/analysis/statistics/statistics.h"
#include "experiments/commands/command_line.h"
#include "experiments/report/html/html.h"
#include "experiments/report/text/text.h"
#include "experiments/report/text/text_lines.h"
#include "experiments/report/trace.h"
#include "experiments/results/fields.h"
#include "experiments/results/files/cell_log.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/read.h"
#include "experiments/results/files/run_names.h"
#include "experiments/results/files/store.h"
#include "experiments/ui/output_columns.h"

namespace paceline {
namespace {

using nlohmann::json;

/// What these commands take.
struct RunsCommand {
  NamedRun run;
  std::string cell, text;         // cell empty: the run
  std::vector<std::string> runs;  // to remove
  std::vector<std::string> tags;
  std::filesystem::path output;
  std::optional<int> keep;
  bool as_json = false, take_away = false, dry_run = false;
};

/// A run that says it runs and that no process works on was killed.
std::string status_of(const json& manifest, const std::filesystem::path& folder) {
  std::string status = text_of(manifest, "status");
  return status == "running" && !RunLock::is_held(folder) ? "killed" : status;
}

/// Whether the program was built with changes that no commit holds; older manifests do not say, environment.json does.
bool is_dirty(const json& manifest, const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path environment = folder / "environment.json";
  const bool in_manifest = manifest.contains("git_dirty");
  if (!in_manifest && !std::filesystem::exists(environment, ignored)) return false;
  const json facts = in_manifest ? manifest : read_json_object(environment);
  const auto dirty = facts.find("git_dirty");
  return dirty != facts.end() && dirty->is_boolean() && dirty->get<bool>();
}

/// Whether a cell's gain is shown, corrected for all that the run compares; older summaries have the outcome alone.
bool is_gain_shown(const json& summary, const std::string& id, const std::string& outcome) {
  for (const json& claim : summary.value("claims", json::array()))
    if (text_of(claim, "kind") == "over_baseline" && text_of(claim, "cell") == id && claim.contains("shown"))
      return text_of(claim, "shown") == to_string(Outcome::faster);
  return outcome == to_string(Outcome::faster);
}

/// The fastest of the ranked cells whose gain is shown, as the verdict has it, else the one whose interval begins
/// highest. Where timings are invalid no gain is shown.
void add_best_gain(const json& summary, json& line) {
  struct Gain {
    RatioInterval over_baseline;
    std::string cell;
    bool is_shown = false;
    double tok_s = 0.0;

    bool is_better_than(const Gain& other) const {
      if (is_shown != other.is_shown) return is_shown;
      return is_shown ? tok_s > other.tok_s : begins_higher(over_baseline, other.over_baseline);
    }
  };
  const bool is_valid = summary.value("valid", true);
  std::optional<Gain> best;
  for (const json& cell : summary.value("cells", json::array())) {
    const json speedup = cell.value("speedup", json(nullptr)), ends = cell.value("speedup_ci95", json(nullptr));
    const std::string outcome = cell.value("outcome", "");
    if (!cell.value("rankable", false) || !speedup.is_number() || outcome == "baseline") continue;
    Gain gain{.over_baseline = {.ratio = speedup.get<double>()}, .cell = cell.value("id", "")};
    if (ends.is_array() && ends.size() == 2 && ends[0].is_number() && ends[1].is_number()) {
      gain.over_baseline.low = ends[0].get<double>();
      gain.over_baseline.high = ends[1].get<double>();
    }
    gain.is_shown = is_valid && is_gain_shown(summary, gain.cell, outcome);
    if (const json tok_s = cell.value("output_tok_s", json(nullptr)); tok_s.is_number()) gain.tok_s = tok_s;
    if (!best || gain.is_better_than(*best)) best = std::move(gain);
  }
  if (!best) return;
  line["best_speedup"] = best->over_baseline.ratio;
  line["best_speedup_cell"] = best->cell;
  line["best_speedup_shown"] = best->is_shown;
}

/// A line of list --json, from the files that are short: of runs with many requests the journal is not read.
json line_of(const std::string& reference, const std::filesystem::path& folder) {
  json line = {{"reference", reference},
               {"id", folder.filename().string()},
               {"name", ""},
               {"status", "unreadable"},
               {"done", 0},
               {"partial", 0},
               {"failed", 0},
               {"skipped", 0},
               {"not_run", 0},
               {"cells", 0},
               {"best_speedup", nullptr},
               {"best_speedup_cell", nullptr},
               {"best_speedup_shown", false},
               {"git_commit", ""},
               {"tags", json::array()},
               {"note", ""}};
  try {
    const json manifest = read_json_object(folder / "manifest.json"), cells = manifest.value("cells", json::array());
    const RunLabels labels = read_labels(folder);
    const std::string status = status_of(manifest, folder);
    const bool is_over = status != "killed" && status != "running";
    std::error_code ignored;
    if (is_over && std::filesystem::exists(folder / "summary.json", ignored)) {  // else the manifest holds the plan
      for (const json& cell : cells) {                                           // of older runs, which do not say
        const std::string state = text_of(cell, "status");
        json& count = line[state == "done" || state == "failed" ? state : "skipped"];
        count = count.get<int>() + 1;
      }
      for (const char* const count : {"done", "partial", "failed", "skipped", "not_run"})
        line[count] = manifest.value(std::string("num_") + count, line[count].get<int>());
      add_best_gain(read_json_object(folder / "summary.json"), line);
    }
    line.update({{"name", text_of(manifest, "name")},
                 {"status", status},
                 {"cells", cells.size()},
                 {"git_commit", text_of(manifest, "git_commit").substr(0, 7) + (is_dirty(manifest, folder) ? "+" : "")},
                 {"tags", labels.tags},
                 {"note", labels.note}});
  } catch (const Error& error) {  // one damaged run does not hide the others
    line["note"] = error.what();
  } catch (const json::exception&) {
    line["note"] =
        fmt::format("a value in manifest.json or summary.json is of the wrong kind; runexp show {} reads the journal",
                    folder.string());
  }
  return line;
}

ExitCode list_command(const std::filesystem::path& root, bool as_json) {
  if (std::error_code ignored; std::filesystem::exists(root, ignored) && !std::filesystem::is_directory(root, ignored))
    fail(ExitCode::usage, "--results {}: not a folder", root.string());
  std::vector<std::string> ids = list_runs(root);
  std::reverse(ids.begin(), ids.end());
  json lines = json::array();
  for (size_t i = 0; i < ids.size(); ++i)
    lines.push_back(line_of(i == 0 ? "last" : fmt::format("last~{}", i), root / ids[i]));
  if (as_json) {
    fmt::print("{}", dump_json(lines));
    return ExitCode::ok;
  }
  constexpr const char* kLine = "{:<9} {:<18} {:<12} {:>9}  {:<9} {:<8}  {}";
  if (ids.empty()) fmt::print("{}: no runs\n", root.string());
  if (!ids.empty())
    print_line(kLine, "run", "when (UTC)", "status", "cells", "best gain", "git",
               "name, tags, note, cell of the best gain");
  for (const json& line : lines) {
    const std::string status = line["status"];
    const bool is_over = status != "killed" && status != "running";
    std::string said = user_text(text_of(line, "name"));
    for (const std::string tag : line["tags"]) said += " @" + user_text(tag);
    if (!text_of(line, "note").empty()) said += "  " + user_text(text_of(line, "note"));
    if (!line["best_speedup"].is_null()) said += fmt::format("  [{}]", user_text(text_of(line, "best_speedup_cell")));
    print_line(
        kLine, text_of(line, "reference"), user_text(text_of(line, "id").substr(0, 17)), user_text(status),
        fmt::format("{}/{}", is_over ? std::to_string(line["done"].get<int>() - line["partial"].get<int>()) : "?",
                    line["cells"].dump()),
        line["best_speedup"].is_null() ? "–"
                                       : fmt::format("{:.2f}×{}", line["best_speedup"].get<double>(),
                                                     line["best_speedup_shown"].get<bool>() ? "" : " ?"),
        user_text(text_of(line, "git_commit")), said);
  }
  return ExitCode::ok;
}

std::string disturbed_text(const CellResult& cell, const CellSummary& summary) {
  std::string text = !summary.noise.empty() ? "yes: " + summary.noise : was_watched(cell) ? "no" : "not watched";
  const json devices = cell.effective.is_object() ? cell.effective.value("devices", json::array()) : json::array();
  const bool on_gpus = devices.is_array() && devices.dump().find("cuda:") != std::string::npos;
  return on_gpus && was_watched(cell) ? text + " (CPUs; GPUs are not watched)" : text;
}

/// As the verdict judges the cell: over the same placement without speculation where that ran, else its baseline.
std::string break_even_text(const VerdictView& view, const CellSummary& cell) {
  const Claim* const gain = view.claim(ClaimKind::over_plain, cell);
  const std::optional<double> length = gain ? break_even_length(cell, *gain->over) : std::nullopt;
  if (!length) return "";
  return fmt::format("{} for decoding alone, over {}", *length > 1 ? fmt::format("{:.2f}", *length) : "any",
                     view.label(*gain->over));
}

void print_fact(const char* name, const std::string& text) {
  constexpr int kHang = 17;
  fmt::print("{}", wrapped_text(fmt::format("  {:<14} {}", name, text), output_columns(), kHang));
}

std::string certificate_text(const CertificateResult& certificate) {
  std::string text = to_string(certificate.status);
  if (!certificate.method.empty())
    text += fmt::format(" ({}; {})", certificate.method, counted(certificate.tokens_checked, "token"));
  return certificate.detail.empty() ? text : text + ": " + certificate.detail;
}

/// "prefill 12, 56 % of the time, 20.10 ms each; decode 480, 41 %, 0.820 ms each"
std::string passes_text(const PassSummaries& passes) {
  std::string text;
  for (const auto& [name, pass] : {std::pair("prefill", &passes.prefill), std::pair("decode", &passes.decode),
                                   std::pair("mixed", &passes.mixed)}) {
    if (!pass->pass_ms) continue;
    text += fmt::format("{}{} {}, {}, {:.3f} ms each", text.empty() ? "" : "; ", name, pass->passes,
                        percent_text(pass->share) + (text.empty() ? " of the time" : ""), *pass->pass_ms);
  }
  return text;
}

/// What a finished cell was measured to be.
void print_measurements(const RunResult& run, const RunSummary& summary, const CellSummary& facts) {
  const CellResult& cell = run.cells[facts.cell];
  if (cell.status == CellStatus::done) print_fact("certificate", certificate_text(cell.certificate));
  print_fact("disturbed", disturbed_text(cell, facts));
  if (facts.output_tok_s) {
    std::string text = fmt::format("{:.1f}", *facts.output_tok_s);
    for (size_t r = 0; r < facts.output_tok_s_per_repetition.size(); ++r)
      text += fmt::format("{}{:.1f}", r == 0 ? "   by repetition: " : ", ", facts.output_tok_s_per_repetition[r]);
    print_fact("tok/s", text);
  }
  const VerdictView view(run, summary);
  print_fact("speedup",
             fmt::format("{}   {}", facts.speedup ? interval_text(*facts.speedup, 3) : "–", cell_verdict(view, facts)));
  if (facts.decode_speedup) print_fact("decode speedup", interval_text(*facts.decode_speedup, 3));
  if (facts.mean_acceptance_length)
    print_fact("acceptance",
               fmt::format("length {:.2f}, rate {}, coverage {}", *facts.mean_acceptance_length,
                           number_text(facts.draft_acceptance_rate, 2), number_text(facts.draft_coverage, 2)));
  for (const Claim& claim : view.claims()) {
    const bool is_speedup = claim.kind == &ClaimKind::over_plain && claim.over == view.baseline_of(facts);
    if (claim.cell != &facts || claim.kind == &ClaimKind::over_baseline || is_speedup) continue;  // printed above
    std::string name = claim.kind->name;
    std::ranges::replace(name, '_', ' ');
    const std::string of = claim.category.empty() ? "" : claim.category + ": ";
    print_fact(name.c_str(), fmt::format("{}{} over {}, {}", of, interval_text(claim.ratio, 3), view.label(*claim.over),
                                         outcome_text(claim)));
  }
  if (const std::string text = break_even_text(view, facts); !text.empty()) print_fact("break-even AL", text);
  const auto print_percentiles = [](const char* name, const Percentiles& of, int digits) {
    if (of.p50)
      print_fact(name, fmt::format("p50 {} ms, p90 {} ms", number_text(of.p50, digits), number_text(of.p90, digits)));
  };
  print_percentiles("ttft", facts.ttft_ms, 2);
  print_percentiles("tpot", facts.tpot_ms, 3);
  const PhaseTimes& phases = facts.phase_ms_per_step;
  if (facts.step_ms)
    print_fact("pass",
               fmt::format("{:.3f} ms, prefill included = draft {:.3f}, verify {:.3f}, sample {:.3f}, schedule {:.3f}, "
                           "communicate {:.3f}, bubble {:.3f}, other {:.3f}",
                           *facts.step_ms, phases.draft_ms, phases.verify_ms, phases.sample_ms, phases.schedule_ms,
                           phases.communicate_ms, phases.bubble_ms, phases.other_ms));
  if (facts.passes) print_fact("passes", passes_text(*facts.passes));
  const json counted_facts = counters_to_json(facts.counters);
  const bool is_of_server = run.cells[facts.cell].repetitions.front().client.has_value();
  std::string counters;
  for (const auto& [name, value] : counted_facts.items())
    if (!is_of_server || is_told_by_servers(name))
      counters += fmt::format("{}{} {}", counters.empty() ? "" : ", ", name, value.dump());
  print_fact("counters", counters);
}

/// What was asked, what ran, what came out; of a cell that did not run, no more than that.
void print_cell(const RunResult& run, const RunSummary& summary, const CellSummary& facts) {
  const CellResult& cell = run.cells[facts.cell];
  fmt::print("{}  {}{}\n", cell.id, to_string(cell.status), cell.reason.empty() ? "" : ": " + cell.reason);
  print_fact("folder", (std::filesystem::path(run.folder) / "cells" / cell.folder).string());
  print_fact("hash", cell.identity);
  print_fact("baseline", cell.baseline_id.empty() ? "none" : cell.baseline_id);
  if (!cell.repetitions.empty()) print_measurements(run, summary, facts);
  if (cell.effective.is_object() && !cell.effective.empty()) print_fact("effective", cell.effective.dump());
  const std::filesystem::path log = cell_log_file(run.folder, cell);
  const std::vector<std::string> last = log_tail(log);
  if (!last.empty()) print_fact("log", log.string() + " (last lines):");
  for (const std::string& line : last) print_line("    {}", line);
}

const CellSummary& cell_of(const RunResult& run, const RunSummary& summary, const std::string& name) {
  std::vector<CellName> cells;
  for (const CellSummary& s : summary.cells) cells.push_back({run.cells[s.cell].id, run.cells[s.cell].identity});
  return summary.cells[find_cell(cells, name, run.info.id)];
}

ExitCode show_command(const RunsCommand& command) {
  const std::filesystem::path folder = find_run(command.run.root, command.run.name);
  const RunResult run = read_run(folder);
  const RunSummary summary = summarize(run);
  const CellSummary* const cell = command.cell.empty() ? nullptr : &cell_of(run, summary, command.cell);
  if (command.as_json) {
    const json all = summary_to_json(run, summary);
    fmt::print("{}", dump_json(cell ? all.at("cells").at(cell->cell) : all));
    return ExitCode::ok;
  }
  if (cell) {
    print_cell(run, summary, *cell);
    return ExitCode::ok;
  }
  const RunLabels labels = read_labels(folder);
  fmt::print("{}  {}", user_text(run.info.id),
             user_text(status_of(read_json_object(folder / "manifest.json"), folder)));
  for (const std::string& tag : labels.tags) fmt::print("  @{}", user_text(tag));
  fmt::print("\n");
  if (!labels.note.empty()) fmt::print("{}\n", printable(labels.note));
  const bool color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
  fmt::print("{}", end_of_run_text(run, summary, color ? TextColor::on : TextColor::off, {}, output_columns()));
  return ExitCode::ok;
}

ExitCode trace_command(const NamedRun& named, const std::string& name) {
  const RunResult run = read_run(find_run(named.root, named.name));
  std::vector<size_t> cells;
  std::vector<CellName> names;
  const auto has_record = [](const CellResult& cell) {
    return !cell.repetitions.empty() && !cell.repetitions.front().lanes.empty();
  };
  for (size_t i = 0; i < run.cells.size(); ++i) {
    names.push_back({run.cells[i].id, run.cells[i].identity});
    if (has_record(run.cells[i])) cells.push_back(i);
  }
  if (cells.empty())
    fail(ExitCode::usage,
         "{}: no cell has a record of its ranks: they were measured over HTTP, by an older version, or not at all",
         run.info.id);
  if (!name.empty()) {
    const size_t found = find_cell(names, name, run.info.id);
    if (!has_record(run.cells[found]))
      fail(ExitCode::usage, "{}: cell {} has no record of its ranks", run.info.id, run.cells[found].id);
    cells = {found};
  }
  fmt::print("{}\n", chrome_trace(run, cells).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return ExitCode::ok;
}

ExitCode report_command(const NamedRun& named, const std::filesystem::path& output) {
  const std::filesystem::path folder = find_run(named.root, named.name);
  const RunResult run = read_run(folder);
  const std::filesystem::path file = output.empty() ? folder / "report.html" : output;
  const std::filesystem::path page_folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  write_file_atomic(file, report_html(run, summarize(run), std::filesystem::relative(folder, page_folder)));
  fmt::print("{}\n", file.string());
  return ExitCode::ok;
}

ExitCode tag_command(const RunsCommand& command) {
  const std::filesystem::path& root = command.run.root;
  const std::filesystem::path folder = find_run(root, command.run.name);
  RunLabels labels = read_labels(folder);
  for (const std::string& tag : command.tags) {
    const auto has = [&](const RunLabels& of) {
      return std::find(of.tags.begin(), of.tags.end(), tag) != of.tags.end();
    };
    if (command.take_away) {
      check_tag(tag);
      if (!has(labels))
        fail(ExitCode::usage, "{}: has no tag \"{}\"{}", folder.filename().string(), tag,
             did_you_mean(tag, labels.tags));
      std::erase(labels.tags, tag);
      continue;
    }
    check_new_tag(tag);
    for (const std::string& id : list_runs(root)) {
      std::error_code ignored;
      if (!std::filesystem::equivalent(root / id, folder, ignored) && has(read_labels(root / id)))
        fail(ExitCode::usage, "tag \"{}\": {} has it; a tag names one run (runexp tag --remove {} {})", tag, id, id,
             tag);
    }
    if (!has(labels)) labels.tags.push_back(tag);
  }
  write_labels(folder, labels);
  fmt::print("{}: {}\n", folder.filename().string(),
             labels.tags.empty() ? "no tags" : fmt::format("@{}", fmt::join(labels.tags, " @")));
  return ExitCode::ok;
}

constexpr size_t kMaxNoteBytes = 1000;  // a sentence or two; what is longer stands in a file

ExitCode note_command(const NamedRun& named, const std::string& text) {
  const std::filesystem::path folder = find_run(named.root, named.name);
  RunLabels labels = read_labels(folder);
  if (printable(text) != text)
    fail(ExitCode::usage, "note: found a line break or a control character, expected one line of text");
  if (text.size() > kMaxNoteBytes)
    fail(ExitCode::usage, "note: {} bytes, expected at most {}", text.size(), kMaxNoteBytes);
  labels.note = text;
  write_labels(folder, labels);
  fmt::print("{}: {}\n", folder.filename().string(), text.empty() ? "no note" : text);
  return ExitCode::ok;
}

/// What cannot be made again by a command stays: a run that works, and a run with a tag unless it is named.
ExitCode remove_command(const RunsCommand& command) {
  const std::filesystem::path& root = command.run.root;
  if (command.runs.empty() == !command.keep)
    fail(ExitCode::usage, "rm: {}name the runs to remove, or say with --keep N how many of the newest stay",
         command.keep ? "found both runs and --keep: " : "");
  std::vector<std::filesystem::path> folders;
  for (const std::string& name : command.runs) folders.push_back(find_run(root, name));
  if (command.keep) {
    const std::vector<std::string> ids = list_runs(root);
    const size_t stay = std::min(ids.size(), size_t(*command.keep));
    for (size_t i = 0; i + stay < ids.size(); ++i)
      if (read_labels(root / ids[i]).tags.empty()) folders.push_back(root / ids[i]);
  }
  for (const std::filesystem::path& folder : folders) {
    if (RunLock::is_held(folder)) {
      if (command.keep) continue;
      fail(ExitCode::usage, "{}: a process is working on it; stop that first", folder.string());
    }
    if (!command.dry_run) {
      std::error_code error;
      std::filesystem::remove(folder / "manifest.json", error);  // first: a folder half gone is no run
      std::filesystem::remove_all(folder, error);
      if (error) fail(ExitCode::store, "{}: cannot be removed: {}", folder.string(), error.message());
    }
    fmt::print("{} {}\n", command.dry_run ? "would remove" : "removed", folder.filename().string());
  }
  if (folders.empty()) fmt::print("nothing to remove\n");
  std::error_code ignored;
  const std::filesystem::path latest = root / "latest";
  if (std::filesystem::is_symlink(latest, ignored) && !std::filesystem::exists(latest, ignored)) {
    const std::vector<std::string> left = list_runs(root);
    if (left.empty())
      std::filesystem::remove(latest, ignored);
    else
      replace_symlink(latest, left.back());
  }
  return ExitCode::ok;
}

}  // namespace

void add_runs_commands(const Command& program) {
  const auto show = std::make_shared<RunsCommand>();
  add_run_argument(program.below("show", "print the table and the verdict of a run, or all about one cell"), show->run)
      .option("cell", &show->cell, kCellHelp)
      .option("--json", &show->as_json, "print JSON: what summary.json holds, or the cell's part of it")
      .footer(
          "Examples:\n"
          "  runexp show last\n"
          "  runexp show @before tp2_pp1_ngram_k3_c1    all about one cell")
      .calls([show] { return show_command(*show); });

  const auto trace = std::make_shared<RunsCommand>();
  add_run_argument(program.below("trace", "print when each rank worked and waited, for ui.perfetto.dev"), trace->run)
      .option("cell", &trace->cell, std::string(kCellHelp) + "; default: all")
      .footer(
          "Example:\n"
          "  runexp trace last tp2_pp1_ngram_k3_c1 > trace.json    # then open it in ui.perfetto.dev")
      .calls([trace] { return trace_command(trace->run, trace->cell); });

  const auto list = std::make_shared<RunsCommand>();
  add_results_option(program.below("list", "list the runs of a results folder, newest first"), list->run.root)
      .footer(
          "best gain: of the ranked cell whose interval begins highest; \"?\": not shown, corrected for all that the "
          "run compares.\n")
      .option("--json", &list->as_json, "print JSON")
      .calls([list] { return list_command(list->run.root, list->as_json); });

  const auto report = std::make_shared<RunsCommand>();
  add_run_argument(program.below("report", "write report.html of a run again"), report->run)
      .option("-o,--output", &report->output, "file to write; by default report.html in the run's folder")
      .calls([report] { return report_command(report->run, report->output); });

  const auto tag = std::make_shared<RunsCommand>();
  add_run_argument(program.below("tag", "tag a run; @TAG names it"), tag->run, true)
      .option("tags", &tag->tags, "letters, digits, '-', '_' and '.'", {.required = true})
      .option("--remove", &tag->take_away, "remove the tags")
      .calls([tag] { return tag_command(*tag); });

  const auto note = std::make_shared<RunsCommand>();
  add_run_argument(program.below("note", "attach a one-line note to a run; an empty text removes the note"), note->run,
                   true)
      .option("text", &note->text, "one line", {.required = true})
      .calls([note] { return note_command(note->run, note->text); });

  const auto remove = std::make_shared<RunsCommand>();
  add_results_option(program.below("rm", "remove runs, or all but the newest"), remove->run.root)
      .option("runs", &remove->runs, kRunHelp, {.type = "RUN"})
      .option("--keep", &remove->keep, "remove all but the newest N; runs with tags stay, too",
              {.least = 0, .most = 1'000'000})
      .option("--dry-run", &remove->dry_run, "say what would be removed")
      .calls([remove] { return remove_command(*remove); });
}

}  // namespace paceline
