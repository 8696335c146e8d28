#include "experiments/report/text/text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "engine/util/printable.h"
#include "engine/util/utf8_chars.h"
#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/metrics/loads.h"
#include "experiments/analysis/outputs/certificate.h"
#include "experiments/analysis/verdict/verdict.h"
#include "experiments/report/text/text_lines.h"

namespace paceline {

namespace {

constexpr size_t kMaxVerdictColumn = 60;
constexpr size_t kFoldedCells = 4;  // so many without a result for one reason are a line below the table

/// How much waiting is in the latencies of a closed loop; `others`: the loops in which no request waits.
std::string closed_loop_text(const ClosedLoop& loop, const std::string& others) {
  const std::string of = fmt::format("closed loop, c={}", loop.asked);
  switch (loop.waits_for) {
    case WaitsFor::nothing: break;
    case WaitsFor::place:
      return fmt::format("{}: {} of {} requests in flight had a place (max_num_seqs), and ttft holds the wait for one",
                         of, loop.in_batch, loop.in_flight);
    case WaitsFor::batch:
      return of + ", static batching: a request waits until the batch before it has ended, and ttft holds that";
    case WaitsFor::blocks:
      return of + ": the KV cache was full at times, and ttft holds what requests waited for its blocks";
    case WaitsFor::start:
      return fmt::format(
          "{}: {} requests are sent together at the start, half of all or more, and ttft holds what "
          "they wait for each other's prompts",
          of, loop.in_flight);
  }
  return others + ": a request is sent when another ends; ttft holds the step under way and prompts of others";
}

/// The closed loops of a run in which no request waits: "closed loop", "closed loop, c=1 and c=2" where in others
/// requests do, "other closed loops" where these are no others by their concurrency.
std::string loops_without_waits(const RunResult& run) {
  std::set<int64_t> without, with;
  for (const CellResult& cell : run.cells)
    if (const std::optional<ClosedLoop> loop = closed_loop_of(cell))
      (loop->waits_for == WaitsFor::nothing ? without : with).insert(loop->asked);
  if (with.empty()) return "closed loop";
  std::vector<std::string> names;
  for (const int64_t c : without) {
    if (with.contains(c)) return "other closed loops";
    names.push_back(fmt::format("c={}", c));
  }
  return "closed loop, " + listed_text(names);
}

/// What load the run put on the engine, for the reader of its latencies; one line a kind.
std::vector<std::string> loads_text(const RunResult& run) {
  std::vector<std::string> lines;
  const auto add = [&lines](const std::string& line) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  };
  const bool any_measured = std::any_of(run.cells.begin(), run.cells.end(),
                                        [](const CellResult& cell) { return closed_loop_of(cell).has_value(); });
  const std::string others = loops_without_waits(run);
  for (const CellResult& cell : run.cells) {
    const std::optional<ClosedLoop> loop = closed_loop_of(cell);
    if (cell.load == "closed" && any_measured && !loop) continue;
    if (cell.load == "closed")
      add(closed_loop_text(loop.value_or(ClosedLoop{}), others));
    else if (cell.load == "offline")
      add("offline: all requests at once, so ttft is mostly waiting");
    else
      add(
          fmt::format("open loop, {}: times count from when a request was to be sent; tok/s is what was sent, unless "
                      "the engine fell "
                      "behind",
                      cell.load));
  }
  return lines;
}

/// The cells that take no row of the terminal's table, and the lines that stand for them:
/// "14 cells (tp2_pp1_none_c1 … tp2_pp1_ngram_k5_c8) skipped: needs 2 devices".
struct FoldedCells {
  std::set<const CellResult*> cells;
  std::vector<std::string> lines;
};

FoldedCells fold_cells(const RunResult& run) {
  FoldedCells folded;
  for (const MissingKind kind : {MissingKind::left_out, MissingKind::skipped}) {
    for (const auto& [reason, cells] : missing_cells(run, kind)) {
      if (cells.size() < kFoldedCells) continue;
      folded.cells.insert(cells.begin(), cells.end());
      folded.lines.push_back(fmt::format("  {} ({} … {}) {}{}", counted(int64_t(cells.size()), "cell"),
                                         cells.front()->id, cells.back()->id,
                                         kind == MissingKind::skipped ? "skipped: " : "", reason));
    }
  }
  return folded;
}

const char* color_of(const CellResult& cell, const CellSummary& s) {
  if (cell.status == CellStatus::failed || cell.certificate.status == CertificateStatus::fail) return "\x1b[31m";
  if (!s.rankable) return "\x1b[2m";
  if (s.outcome == Outcome::faster) return "\x1b[32m";
  if (s.outcome == Outcome::slower) return "\x1b[33m";
  return "";
}

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("-_./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Empty for strict runs.
std::string flips_of_run(const RunResult& run) {
  const std::optional<FlipCount> flips = pooled_flips(run);
  return flips ? fmt::format("{}, {}", run.info.numerics, flips_text(*flips)) : "";
}

/// "28 cells: 5 done (2 with fewer repetitions than asked for), 1 failed, 2 skipped, 20 not run"
std::string counts_text(const RunSummary& summary) {
  std::string text = fmt::format("{}: {} done", counted(int64_t(summary.cells.size()), "cell"), summary.done);
  if (summary.partial > 0) text += fmt::format(" ({} with fewer repetitions than asked for)", summary.partial);
  text += fmt::format(", {} failed, {} skipped", summary.failed, summary.skipped - summary.not_run);
  return summary.not_run > 0 ? text + fmt::format(", {} not run", summary.not_run) : text;
}

}  // namespace

int display_width(const std::string& text) { return static_cast<int>(utf8_length(text)); }

std::string number_text(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "–";
}

std::string ratio_text(const std::optional<double>& ratio) { return ratio ? fmt::format("{:.2f}×", *ratio) : "–"; }

std::string speedup_text(const std::optional<RatioInterval>& speedup) {
  return speedup ? interval_text(*speedup) : ratio_text({});
}

std::string gpus_text(const RunResult& run) {
  std::vector<std::string> gpus;
  if (!run.environment.is_object()) return "";
  for (const std::string& device : devices_used(run)) {
    if (!device.starts_with("cuda:")) continue;
    std::string text = device;
    for (const auto& known : run.environment.value("gpus", nlohmann::json::array()))
      if (known.is_string() && known.get<std::string>().starts_with(device + " ")) text = known.get<std::string>();
    gpus.push_back(text);
  }
  if (gpus.empty()) return "";
  const auto visible = run.environment.find("cuda_visible_devices");
  const bool chosen = visible != run.environment.end() && visible->is_string();
  return fmt::format("{}{}", fmt::join(gpus, ", "),
                     chosen ? fmt::format(" (CUDA_VISIBLE_DEVICES {})", visible->get<std::string>()) : "");
}

std::string reproduce_command(const RunInfo& info) {
  std::string out;
  for (const auto& [name, value] : info.variables)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, shell_quoted(value));
  for (const std::string& word : info.argv) out += (out.empty() ? "" : " ") + shell_quoted(word);
  return out;
}

std::string cell_verdict(const VerdictView& view, const CellSummary& s) {
  const CellResult& cell = view.cell(s);
  if (cell.not_run) return cell.reason;
  if (cell.status != CellStatus::done) return fmt::format("{}: {}", to_string(cell.status), cell.reason);
  std::string text = s.outcome == Outcome::baseline  ? "baseline"
                     : s.open_loop && !s.tpot_ms.p50 ? "no decode times"
                                                     : "no baseline";
  if (!s.rankable) {
    text = s.not_rankable + " (not ranked)";
  } else if (const Claim* const row = view.claim(ClaimKind::over_baseline, s)) {
    const bool is_decided = row->outcome != Outcome::inconclusive;
    text = (s.open_loop && is_decided ? "decodes " : "") + outcome_text(*row);
  }
  if (cell.certificate.status == CertificateStatus::fail) return "NOT LOSSLESS";
  if (const auto& flips = cell.certificate.flips)
    text += flips->found == 0 ? ", fast: no flips" : fmt::format(", fast: {} flips", flips->found);
  else if (cell.certificate.status == CertificateStatus::pass)
    text += is_foreign(cell) ? ", same texts" : ", lossless";
  if (cell.certificate.status == CertificateStatus::unverified) text += ", UNVERIFIED";
  if (s.is_saturated()) text += ", saturated";
  if (cell.random_weights && s.rankable) text += ", random weights";
  if (!s.noise.empty()) text += ", disturbed";
  if (!warm_prefixes_text(cell).empty()) text += ", warm prefixes";
  if (const auto loop = closed_loop_of(cell); loop && loop->is_one_wave()) text += ", one wave";
  if (s.baseline_far) text += ", " + baseline_time_text(*s.baseline_apart_s);
  if (const int asked = repetitions_asked(cell); s.repetitions < asked)
    text += fmt::format(", {} of {} repetitions", s.repetitions, asked);
  if (s.rankable && s.outcome == Outcome::slower) {
    if (const std::string phase = costliest_phase(s); !phase.empty()) text += ": " + phase;
  }
  return text;
}

std::string end_of_run_text(const RunResult& run, const RunSummary& summary, TextColor color,
                            const std::string& show_command, int columns) {
  const FoldedCells folded = fold_cells(run);
  const VerdictView view(run, summary);
  const Table all = cell_table(view);
  Table cells{.title = {}, .columns = all.columns, .rows = {}};
  std::vector<const char*> paints = {"\x1b[1m"};
  for (const CellSummary& s : summary.cells) {
    if (folded.cells.contains(&run.cells[s.cell])) continue;
    cells.rows.push_back(all.rows[s.cell]);
    std::string& verdict = cells.rows.back().cells.back().text;
    if (columns > 0) verdict = utf8_shortened(verdict, kMaxVerdictColumn);  // on a terminal
    paints.push_back(color_of(run.cells[s.cell], s));
  }
  std::string out;
  const auto add = [&out, columns](const std::string& line, int hang) { out += wrapped_text(line, columns, hang); };
  const TerminalTable table = fitted_table(cells, columns);
  for (size_t r = 0; table.lines.size() > 1 && r < table.lines.size(); ++r)
    for (const std::string& line : table.lines[r])
      out +=
          color == TextColor::off || *paints[r] == '\0' ? line + "\n" : fmt::format("{}{}\x1b[0m\n", paints[r], line);
  if (!table.left_out.empty())
    add(fmt::format("  Hidden at this width{}: {}.", run.folder.empty() ? "" : ", all in summary.md",
                    fmt::join(table.left_out, ", ")),
        3);
  for (const std::string& line : folded.lines) add(line, 4);
  if (const Table published = published_table(run, summary); !published.rows.empty()) {
    out += "\n";
    add("  " + printable(published.title) + ":", 2);
    for (const auto& lines : fitted_table(published, columns).lines)
      for (const std::string& line : lines) out += wrapped_text(line, columns, 4);
  }
  out += "\n";
  const RunVerdict verdict = make_verdict(view);
  for (const std::string& text : verdict.headline) add("  " + printable(text), 4);
  if (show_command.empty()) {
    if (!verdict.details.empty()) out += "\n  Details\n";
    for (const VerdictSentence& v : verdict.details) add("  - " + printable(v.text), 4);
    add("\n  Columns: " + legend_text(all), 4);
  } else {
    add(fmt::format("  (details: {})", show_command), 3);
  }
  out += "\n";
  add(fmt::format("  {} in {:.1f} s", counts_text(summary), run.wall_s), 4);
  constexpr int kFact = 10;
  for (const std::string& load : loads_text(run)) add("  load    " + printable(load), kFact);
  if (const std::string gpus = gpus_text(run); !gpus.empty()) add("  GPUs    " + printable(gpus), kFact);
  if (const std::string flips = flips_of_run(run); !flips.empty()) add("  numerics " + flips, kFact);
  if (!run.folder.empty()) {
    std::error_code none;
    const bool was_cut =
        run.info.status == "running" && !exists(std::filesystem::path(run.folder) / "report.html", none);
    if (was_cut) {
      add(fmt::format("  report  none in {} yet: `runexp report` writes it", printable(run.folder)), kFact);
    } else {
      add(fmt::format("  report  {}/report.html", printable(run.folder)), kFact);
      add(fmt::format("  data    {}/summary.json  summary.csv  summary.md", printable(run.folder)), kFact);
    }
  }
  return out;
}

std::string summary_markdown(const RunResult& run, const RunSummary& summary) {
  std::string out = fmt::format("# {}\n\n", markdown_text(run.info.name));
  const VerdictView view(run, summary);
  const RunVerdict verdict = make_verdict(view);
  for (const std::string& text : verdict.headline) out += "- " + markdown_text(text) + "\n";
  if (!verdict.details.empty()) out += "\nDetails:\n\n";
  for (const VerdictSentence& v : verdict.details) out += "- " + markdown_text(v.text) + "\n";
  if (const std::string gpus = gpus_text(run); !gpus.empty()) out += "\nGPUs: " + markdown_text(gpus) + "\n";
  if (const std::string flips = flips_of_run(run); !flips.empty())
    out += fmt::format("\nNumerics: {}\n", markdown_text(flips));
  out += fmt::format("\nReproduce: `{}`\n\n", reproduce_command(run.info));
  const Table cells = cell_table(view);
  out += markdown_table(cells) + "\n" + markdown_text(legend_text(cells)) + "\n";
  for (const std::string& load : loads_text(run)) out += fmt::format("\nLoad: {}.\n", markdown_text(load));
  if (const Table published = published_table(run, summary); !published.rows.empty())
    out += fmt::format("\n{}:\n\n{}", markdown_text(published.title), markdown_table(published));
  return out;
}

}  // namespace paceline
