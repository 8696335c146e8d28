// runexp list, show, report, tag, note, rm: the runs of a results folder

#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "engine/util/json_io_sax.h"
#include "engine/util/printable.h"
#include "engine/util/suggest.h"
#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/read_run.h"
#include "experiments/analysis/statistics/statistics.h"
#include "experiments/analysis/statistics/noise.h"
#include "experiments/commands/command_line.h"
#include "experiments/report/html/html.h"
#include "experiments/report/text/text.h"
#include "experiments/report/text/text_lines.h"
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

constexpr const char* kRunHelp = "last, last~N, @TAG, the beginning of an id or of its hash, or a folder";

/// A line of the list, from the files that are short: of runs with many requests the journal is not read.
struct RunLine {
  std::string id, name, status;
  std::string git;  // seven letters of the commit, "+" where the build had changes beside it
  CellCounts counts;
  size_t cells = 0;
  std::optional<double> best_speedup;  // of the ranked cell whose interval begins highest
  std::string best_cell;               // its id
  bool is_shown = false;               // the interval lies above 1
  RunLabels labels;
};

/// A run that says it runs and that no process works on was killed.
std::string status_of(const json& manifest, const std::filesystem::path& folder) {
  const std::string status = text_of(manifest, "status");
  return status == "running" && !RunLock::is_held(folder) ? "killed" : status;
}

/// As the run counted them when it ended; of older runs, by the states of their cells.
CellCounts counts_of(const json& manifest) {
  CellCounts counts;
  for (const json& cell : manifest.value("cells", json::array())) {
    const std::string status = text_of(cell, "status");
    ++(status == "done" ? counts.done : status == "failed" ? counts.failed : counts.skipped);
  }
  counts.done = manifest.value("num_done", counts.done);
  counts.failed = manifest.value("num_failed", counts.failed);
  counts.skipped = manifest.value("num_skipped", counts.skipped);
  counts.partial = manifest.value("num_partial", 0);
  counts.not_run = manifest.value("num_not_run", 0);
  return counts;
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

RunLine line_of(const std::filesystem::path& folder) {
  const json manifest = read_json_object(folder / "manifest.json");
  RunLine line{.id = folder.filename().string(),
               .name = text_of(manifest, "name"),
               .status = status_of(manifest, folder),
               .git = text_of(manifest, "git_commit").substr(0, 7) + (is_dirty(manifest, folder) ? "+" : ""),
               .counts = counts_of(manifest),
               .cells = manifest.value("cells", json::array()).size(),
               .best_speedup = {},
               .best_cell = {},
               .labels = read_labels(folder)};
  std::error_code ignored;
  const std::filesystem::path summary = folder / "summary.json";
  if (line.status == "killed" || line.status == "running" || !std::filesystem::exists(summary, ignored)) {
    line.counts = {};  // the manifest holds the plan: what was finished stands in the journal
    return line;
  }
  const json cells = read_json_object(summary).value("cells", json::array());
  RatioInterval best;
  for (const json& cell : cells) {
    const json speedup = cell.value("speedup", json(nullptr)), ends = cell.value("speedup_ci95", json(nullptr));
    if (!cell.value("rankable", false) || !speedup.is_number() || cell.value("outcome", "") == "baseline") continue;
    RatioInterval gain{.ratio = speedup.get<double>(), .low = {}, .high = {}, .pairs = 0};
    if (ends.is_array() && ends.size() == 2 && ends[0].is_number() && ends[1].is_number()) {
      gain.low = ends[0].get<double>();
      gain.high = ends[1].get<double>();
    }
    if (line.best_speedup && !begins_higher(gain, best)) continue;
    best = gain;
    line.best_speedup = gain.ratio;
    line.best_cell = cell.value("id", "");
    line.is_shown = cell.value("outcome", "") == to_string(Outcome::faster);
  }
  return line;
}

RunLine unreadable(const std::string& id, const std::string& why) {
  RunLine line;
  line.id = id;
  line.status = "unreadable";
  line.labels.note = why;
  return line;
}

ExitCode list_command(const std::filesystem::path& root, bool as_json) {
  std::vector<std::string> ids = list_runs(root);
  std::reverse(ids.begin(), ids.end());
  json out = json::array();
  if (!as_json && ids.empty()) fmt::print("{}: no runs\n", root.string());
  if (!as_json && !ids.empty())
    print_line("{:<9} {:<18} {:<12} {:>9}  {:<9} {:<8}  {}", "run", "when (UTC)", "status", "cells", "best gain", "git",
               "name, tags, note, cell of the best gain");
  for (size_t i = 0; i < ids.size(); ++i) {
    RunLine line;
    try {
      line = line_of(root / ids[i]);
    } catch (const Error& error) {  // one damaged run does not hide the others
      line = unreadable(ids[i], error.what());
    } catch (const json::exception& error) {
      line = unreadable(ids[i], json_error_text(error.what()));
    }
    const std::string reference = i == 0 ? "last" : fmt::format("last~{}", i);
    if (as_json) {
      out.push_back({{"reference", reference},
                     {"id", line.id},
                     {"name", line.name},
                     {"status", line.status},
                     {"done", line.counts.done},
                     {"partial", line.counts.partial},
                     {"failed", line.counts.failed},
                     {"skipped", line.counts.skipped},
                     {"not_run", line.counts.not_run},
                     {"cells", line.cells},
                     {"best_speedup", json_number(line.best_speedup)},
                     {"best_speedup_cell", line.best_cell.empty() ? json(nullptr) : json(line.best_cell)},
                     {"best_speedup_shown", line.is_shown},
                     {"git_commit", line.git},
                     {"tags", line.labels.tags},
                     {"note", line.labels.note}});
      continue;
    }
    const bool is_over = line.status != "killed" && line.status != "running";
    std::string said = user_text(line.name);
    for (const std::string& tag : line.labels.tags) said += " @" + user_text(tag);
    if (!line.labels.note.empty()) said += "  " + user_text(line.labels.note);
    if (!line.best_cell.empty()) said += fmt::format("  [{}]", user_text(line.best_cell));
    print_line("{:<9} {:<18} {:<12} {:>9}  {:<9} {:<8}  {}", reference, user_text(line.id.substr(0, 17)),
               user_text(line.status),
               is_over ? fmt::format("{}/{}", line.counts.done, line.cells) : fmt::format("?/{}", line.cells),
               line.best_speedup ? fmt::format("{:.2f}×{}", *line.best_speedup, line.is_shown ? "" : " ?") : "–",
               user_text(line.git), said);
  }
  if (as_json) fmt::print("{}", dump_json(out));
  return ExitCode::ok;
}

std::string disturbed_text(const CellResult& cell, const CellSummary& summary) {
  std::string text = !summary.noise.empty() ? "yes, so the cell is noisy: " + summary.noise
                     : was_watched(cell)    ? "no"
                                            : "not watched";
  const json devices = cell.effective.is_object() ? cell.effective.value("devices", json::array()) : json::array();
  const bool on_gpus = devices.is_array() && devices.dump().find("cuda:") != std::string::npos;
  return on_gpus && was_watched(cell) ? text + " (CPUs; GPUs are not watched)" : text;
}

/// As the verdict judges the cell: over the same placement without speculation where that ran, else its baseline.
std::string break_even_text(const RunResult& run, const RunSummary& summary, const CellSummary& cell) {
  const VerdictView view(run, summary);
  const Claim* const gain = view.claim(ClaimKind::over_plain, cell);
  const std::optional<double> length = gain ? break_even_length(cell, *gain->over) : std::nullopt;
  if (!length) return "";
  const std::string text = *length > 1
                               ? fmt::format("decoding: at {:.2f} tokens per drafted step, bonus included", *length)
                               : "decoding: any acceptance would do";
  return fmt::format("{}, over {}", text, view.label(*gain->over));
}

void print_fact(const char* name, const std::string& text) {
  constexpr int kHang = 16;
  fmt::print("{}", wrapped_text(fmt::format("  {:<13} {}", name, text), output_columns(), kHang));
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
  print_fact("speedup",
             fmt::format("{}   {}", facts.speedup ? interval_text(*facts.speedup, 3) : "–", cell_verdict(cell, facts)));
  if (facts.decode_speedup) print_fact("decoding", interval_text(*facts.decode_speedup, 3));
  if (facts.mean_acceptance_length)
    print_fact("acceptance",
               fmt::format("length {:.2f}, rate {}, coverage {}", *facts.mean_acceptance_length,
                           number_text(facts.draft_acceptance_rate, 2), number_text(facts.draft_coverage, 2)));
  if (const std::string text = break_even_text(run, summary, facts); !text.empty()) print_fact("break-even", text);
  const auto print_percentiles = [](const char* name, const Percentiles& of, int digits) {
    if (of.p50)
      print_fact(name, fmt::format("p50 {} ms, p90 {} ms", number_text(of.p50, digits), number_text(of.p90, digits)));
  };
  print_percentiles("ttft", facts.ttft_ms, 2);
  print_percentiles("tpot", facts.tpot_ms, 3);
  const PhaseTimes& phases = facts.phase_ms_per_step;
  if (facts.step_ms)
    print_fact("step", fmt::format("{:.3f} ms = draft {:.3f}, verify {:.3f}, sample {:.3f}, schedule {:.3f}, "
                                   "communicate {:.3f}, bubble {:.3f}, other {:.3f}",
                                   *facts.step_ms, phases.draft_ms, phases.verify_ms, phases.sample_ms,
                                   phases.schedule_ms, phases.communicate_ms, phases.bubble_ms, phases.other_ms));
  if (facts.passes) print_fact("passes", passes_text(*facts.passes));
  print_fact("counters", counters_to_json(facts.counters).dump());
}

/// What was asked, what ran, what came out; of a cell that did not run, no more than that.
void print_cell(const RunResult& run, const RunSummary& summary, const CellSummary& facts) {
  const CellResult& cell = run.cells[facts.cell];
  fmt::print("{}  {}{}\n", cell.id, to_string(cell.status), cell.reason.empty() ? "" : ": " + cell.reason);
  print_fact("folder", (std::filesystem::path(run.folder) / "cells" / cell.folder).string());
  print_fact("identity", cell.identity);
  print_fact("baseline", cell.baseline_id.empty() ? "none" : cell.baseline_id);
  if (!cell.repetitions.empty()) print_measurements(run, summary, facts);
  if (cell.effective.is_object() && !cell.effective.empty()) print_fact("effective", cell.effective.dump());
  const std::filesystem::path log = cell_log_file(run.folder, cell);
  const std::vector<std::string> last = log_tail(log);
  if (!last.empty()) print_fact("log", log.string() + ", the end of it:");
  for (const std::string& line : last) print_line("    {}", line);
}

/// By id, or by the beginning of its identity.
const CellSummary& find_cell(const RunResult& run, const RunSummary& summary, const std::string& name) {
  std::vector<std::string> ids;
  for (const CellSummary& s : summary.cells) {
    const CellResult& cell = run.cells[s.cell];
    if (cell.id == name || (cell.identity.starts_with(name) && name.size() >= 4)) return s;
    ids.push_back(cell.id);
  }
  fail(ExitCode::usage, "{}: no cell \"{}\"{}; cells: {}", run.info.id, name, did_you_mean(name, ids),
       fmt::join(ids, ", "));
}

struct ShowCommand {
  std::string cell;  // empty: the run
  bool as_json = false;
};

ExitCode show_command(const std::filesystem::path& root, const std::string& name, const ShowCommand& command) {
  const std::filesystem::path folder = find_run(root, name);
  const RunResult run = read_run(folder);
  const RunSummary summary = summarize(run);
  const CellSummary* const cell = command.cell.empty() ? nullptr : &find_cell(run, summary, command.cell);
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

ExitCode report_command(const std::filesystem::path& root, const std::string& name,
                        const std::filesystem::path& output) {
  const std::filesystem::path folder = find_run(root, name);
  const RunResult run = read_run(folder);
  const std::filesystem::path file = output.empty() ? folder / "report.html" : output;
  const std::filesystem::path page_folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  write_file_atomic(file, report_html(run, summarize(run), std::filesystem::relative(folder, page_folder)));
  fmt::print("{}\n", file.string());
  return ExitCode::ok;
}

ExitCode tag_command(const std::filesystem::path& root, const std::string& name, const std::vector<std::string>& tags,
                     bool take_away) {
  const std::filesystem::path folder = find_run(root, name);
  RunLabels labels = read_labels(folder);
  for (const std::string& tag : tags) {
    take_away ? check_tag(tag) : check_new_tag(tag);
    const auto has = [&](const RunLabels& of) {
      return std::find(of.tags.begin(), of.tags.end(), tag) != of.tags.end();
    };
    if (take_away) {
      if (!has(labels))
        fail(ExitCode::usage, "{}: has no tag \"{}\"{}", folder.filename().string(), tag,
             did_you_mean(tag, labels.tags));
      std::erase(labels.tags, tag);
      continue;
    }
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

ExitCode note_command(const std::filesystem::path& root, const std::string& name, const std::string& text) {
  const std::filesystem::path folder = find_run(root, name);
  RunLabels labels = read_labels(folder);
  if (printable(text) != text)
    fail(ExitCode::usage, "note: found a line break or a control character, expected one line of text");
  if (text.size() > kMaxNoteBytes)
    fail(ExitCode::usage, "note: {} bytes, expected at most {}", text.size(), kMaxNoteBytes);
  labels.note = text;
  write_labels(folder, labels);
  return ExitCode::ok;
}

struct RemoveCommand {
  std::vector<std::string> runs;
  std::optional<int> keep;
  bool dry_run = false;
};

/// What cannot be made again by a command stays: a run that works, and a run with a tag unless it is named.
ExitCode remove_command(const std::filesystem::path& root, const RemoveCommand& command) {
  if (command.runs.empty() == !command.keep)
    fail(ExitCode::usage, "rm: name the runs to remove, or say with --keep N how many of the newest stay");
  std::vector<std::filesystem::path> folders;
  for (const std::string& name : command.runs) folders.push_back(find_run(root, name));
  if (command.keep) {
    const std::vector<std::string> ids = list_runs(root);
    const size_t stay = std::min(ids.size(), size_t(*command.keep));
    for (size_t i = 0; i + stay < ids.size(); ++i) {
      if (read_labels(root / ids[i]).tags.empty()) folders.push_back(root / ids[i]);
    }
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

/// Options that every one of these has.
struct RunsOptions {
  std::filesystem::path root = "results";
  std::string name = "last";
};

std::shared_ptr<RunsOptions> add_root(const Command& command) {
  auto options = std::make_shared<RunsOptions>();
  command.option("--results", options->root, "folder for results", {.shown = true});
  return options;
}

}  // namespace

void add_runs_commands(const Command& program) {
  const Command list = program.below("list", "list the runs of a results folder, newest first");
  const auto list_options = add_root(list);
  const auto as_json = std::make_shared<bool>(false);
  list.flag("--json", *as_json, "print JSON").calls([=] { return list_command(list_options->root, *as_json); });

  const Command show = program.below("show", "print the table and the verdict of a run, or all about one of its cells");
  const auto show_options = add_root(show);
  const auto shown = std::make_shared<ShowCommand>();
  show.option("run", show_options->name, kRunHelp, {.shown = true})
      .option("cell", shown->cell, "id of a cell, or the beginning of its identity")
      .flag("--json", shown->as_json, "print JSON: what summary.json holds, or the cell's part of it")
      .calls([=] { return show_command(show_options->root, show_options->name, *shown); });

  const Command report = program.below("report", "write report.html of a run anew");
  const auto report_options = add_root(report);
  const auto output = std::make_shared<std::filesystem::path>();
  report.option("run", report_options->name, kRunHelp, {.shown = true})
      .option("-o,--output", *output, "file to write; by default report.html in the run's folder")
      .calls([=] { return report_command(report_options->root, report_options->name, *output); });

  const Command tag = program.below("tag", "give a run a tag, by which @TAG finds it");
  const auto tag_options = add_root(tag);
  const auto tags = std::make_shared<std::vector<std::string>>();
  const auto take_away = std::make_shared<bool>(false);
  tag.option("run", tag_options->name, kRunHelp, {.required = true})
      .option("tags", *tags, "letters, digits, '-', '_' and '.'", {.required = true})
      .flag("--remove", *take_away, "take the tags away")
      .calls([=] { return tag_command(tag_options->root, tag_options->name, *tags, *take_away); });

  const Command note = program.below("note", "keep a line of text with a run; an empty one removes it");
  const auto note_options = add_root(note);
  const auto text = std::make_shared<std::string>();
  note.option("run", note_options->name, kRunHelp, {.required = true})
      .option("text", *text, "one line", {.required = true})
      .calls([=] { return note_command(note_options->root, note_options->name, *text); });

  const Command remove = program.below("rm", "remove runs, or all but the newest");
  const auto remove_options = add_root(remove);
  const auto removed = std::make_shared<RemoveCommand>();
  remove.option("runs", removed->runs, kRunHelp)
      .option("--keep", removed->keep, "remove all but the newest N; runs with tags stay, too",
              {.least = 0, .most = 1'000'000})
      .flag("--dry-run", removed->dry_run, "say what would be removed")
      .calls([=] { return remove_command(remove_options->root, *removed); });
}

}  // namespace paceline
