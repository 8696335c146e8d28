#include "experiments/report/text/gate_report.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/statistics/noise.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/table.h"

namespace paceline {

using nlohmann::json;

namespace {

/// With U+FFFD for bytes that are no UTF-8, which would spoil the whole file.
std::string xml_escaped(std::string_view text) {
  return html_escaped(json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>());
}

/// "failed: rank 1 did not answer": a cell of the baseline for which this run has no facts; else empty.
std::string missing_text(const ExactVerdict& verdict, const BaselineDifference& difference) {
  if (!difference.field.empty() || difference.now || verdict.is_absent || verdict.status == CellStatus::done) return "";
  return fmt::format("{}: {}", verdict.status == CellStatus::failed ? "failed" : "skipped", verdict.reason);
}

std::string described(const ExactVerdict& verdict, const BaselineDifference& difference) {
  const std::string missing = missing_text(verdict, difference);
  return missing.empty() ? described(difference) : fmt::format("{}: {}", verdict.id, missing);
}

bool exact_fails(const ExactVerdict& verdict) { return !verdict.differences.empty() || !verdict.not_lossless.empty(); }

int64_t num_not_lossless(const GateReport& report) {
  return std::ranges::count_if(report.exact, [](const ExactVerdict& verdict) { return !verdict.not_lossless.empty(); });
}

int64_t num_differences(const GateReport& report) {
  int64_t count = 0;
  for (const ExactVerdict& verdict : report.exact) count += std::ssize(verdict.differences);
  return count;
}

int64_t num_slower(const GateReport& report) { return std::ranges::count_if(report.timing, &TimingVerdict::fails); }

int64_t num_not_quiet(const GateReport& report) {
  return std::ranges::count_if(report.timing, [](const TimingVerdict& t) { return t.judged && !t.quiet; });
}

std::string word_of(const TimingVerdict& verdict) {
  std::string word = verdict.slower ? (verdict.judged ? "SLOWER" : "slower") : "ok";
  if (!verdict.judged) word += " (wall time, advice only)";
  if (verdict.waits) word += fmt::format(", wall time {:.2f}×: it waits more (advice)", *verdict.waits);
  if (!verdict.same_work) word += ", other work: tokens or counters differ";
  if (!verdict.same_threads) word += ", other numbers of threads a rank";
  if (!verdict.quiet)
    word += fmt::format(", BUSY MACHINE: {} of {} pairs disturbed", verdict.disturbed, verdict.pairs);
  else if (verdict.disturbed > 0)
    word += fmt::format(", {} disturbed {} left out", verdict.disturbed, verdict.disturbed == 1 ? "pair" : "pairs");
  return word;
}

Table timing_table(const GateReport& report) {
  Table table{.title = {},
              .columns = {{"cell", true}, {"pairs"}, {"median ratio"}, {"p"}, {"resolves"}, {"verdict", true}},
              .rows = {}};
  for (const TimingVerdict& verdict : report.timing)
    table.rows.push_back(
        {.cells = {verdict.id, std::to_string(verdict.pairs), fmt::format("{:.3f}", verdict.median_ratio),
                   fmt::format("{:.2g}", verdict.adjusted_p), fmt::format("{:.0f} %", verdict.resolves * 100),
                   word_of(verdict)}});
  return table;
}

std::string json_text(const std::optional<json>& value) { return value ? value->dump() : "absent"; }

std::string exact_summary(const GateReport& report) {
  const int64_t differences = num_differences(report), wrong = num_not_lossless(report);
  const int64_t absent = std::ranges::count(report.exact, true, &ExactVerdict::is_absent);
  const int64_t skipped = std::ranges::count(report.exact, CellStatus::skipped, &ExactVerdict::status) - absent;
  const int64_t failed = std::ranges::count(report.exact, CellStatus::failed, &ExactVerdict::status);
  const int64_t judged = std::ssize(report.exact) - skipped - absent - failed;
  const std::string cells =
      report.left_out == 0 ? counted(judged, "cell")
                           : fmt::format("{} of {} cells (--only)", judged, std::ssize(report.exact) + report.left_out);
  return fmt::format("{}: {}{}{}{}, {}{}", report.baseline, cells,
                     skipped > 0 ? fmt::format(" and {} skipped", skipped) : "",
                     failed > 0 ? fmt::format(", {} FAILED", failed) : "",
                     absent > 0 ? fmt::format(", {} of the baseline missing", absent) : "",
                     differences == 0 ? "no difference" : counted(differences, "difference"),
                     wrong == 0 ? "" : fmt::format(", {} NOT LOSSLESS", wrong));
}

std::string timing_summary(const GateReport& report) {
  if (report.timing.empty()) return report.timing_note;
  const int64_t slower = num_slower(report), busy = num_not_quiet(report);
  return fmt::format(
      "{}: {}{}, {}", report.baseline_bin, report.timing_note,
      busy == 0 ? std::string() : fmt::format("; {} judged on a machine that was busy with other things", busy),
      slower == 0 ? "no cell slower"
                  : fmt::format("{} of {} slower", slower, counted(std::ssize(report.timing), "cell")));
}

std::string all_described(const ExactVerdict& verdict) {
  std::string text;
  if (!verdict.not_lossless.empty()) text += fmt::format("{}: {}\n", verdict.id, verdict.not_lossless);
  for (const BaselineDifference& difference : verdict.differences) text += described(verdict, difference) + "\n";
  return text;
}

std::string timing_sentence(const TimingVerdict& verdict) {
  return fmt::format("{} {:.3f}× the baseline's (median of {}, p = {:.2g})",
                     verdict.judged ? "CPU time is" : "wall time is", verdict.median_ratio,
                     counted(verdict.pairs, "pair"), verdict.adjusted_p);
}

/// Of a workflow command's message, and of its properties.
std::string command_data(std::string_view text, std::string_view more = "") {
  std::string out;
  for (const char c : text) {
    const bool escaped = c == '%' || c == '\r' || c == '\n' || more.find(c) != std::string_view::npos;
    out += escaped ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

std::string annotation(const char* level, const std::string& title, const std::string& message) {
  const std::string_view lines(message.data(), message.find_last_not_of('\n') + 1);
  return fmt::format("::{} title={}::{}\n", level, command_data(title, ":,"), command_data(lines));
}

/// What a gate found of a cell, for JUnit.
struct Finding {
  enum class Kind : uint8_t { pass, failure, error, skipped };
  std::string cell;
  double wall_s = 0;
  Kind kind = Kind::pass;
  std::string type, message;  // of what did not pass
  std::string text;           // more of it; what is to be said of a pass

  std::string xml() const {
    if (kind == Kind::skipped) return fmt::format("      <skipped message=\"{}\"/>\n", xml_escaped(message));
    if (kind == Kind::pass)
      return text.empty() ? "" : fmt::format("      <system-out>{}</system-out>\n", xml_escaped(text));
    return fmt::format("      <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n",
                       kind == Kind::failure ? "failure" : "error", type, xml_escaped(message), xml_escaped(text));
  }
};
using Findings = std::vector<Finding>;

Findings exact_findings(const GateReport& report) {
  Findings out;
  for (const ExactVerdict& verdict : report.exact) {
    const bool is_lossless = verdict.not_lossless.empty();
    Finding& finding = out.emplace_back(Finding{.cell = verdict.id, .wall_s = verdict.wall_s});
    if (verdict.status == CellStatus::failed) {
      finding.kind = Finding::Kind::error;
      finding.type = "failed";
      finding.message = verdict.reason;
    } else if (exact_fails(verdict)) {
      finding.kind = Finding::Kind::failure;
      finding.type = is_lossless ? "difference" : "not lossless";
      finding.message = is_lossless ? described(verdict, verdict.differences.front()) : verdict.not_lossless;
      finding.text = all_described(verdict);
    } else if (verdict.status == CellStatus::skipped) {
      finding.kind = Finding::Kind::skipped;
      finding.message = verdict.reason;
    }
  }
  return out;
}

Findings timing_findings(const GateReport& report) {
  Findings out;
  for (const TimingVerdict& verdict : report.timing) {
    const std::string sentence = timing_sentence(verdict), word = word_of(verdict);
    if (verdict.fails())
      out.push_back(
          {.cell = verdict.id, .kind = Finding::Kind::failure, .type = "slower", .message = sentence, .text = word});
    else
      out.push_back({.cell = verdict.id, .text = sentence + ": " + word});
  }
  return out;
}

/// Of a suite, or of all suites, which do not count what was skipped.
std::string counts_xml(const Findings& findings, bool is_suite) {
  using Kind = Finding::Kind;
  const auto count = [&](Kind kind) { return std::ranges::count(findings, kind, &Finding::kind); };
  double time_s = 0;
  for (const Finding& finding : findings) time_s += finding.wall_s;
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\"{} time=\"{:.3f}\"", findings.size(),
                     count(Kind::failure), count(Kind::error),
                     is_suite ? fmt::format(" skipped=\"{}\"", count(Kind::skipped)) : "", time_s);
}

std::string suite_xml(const GateReport& report, const std::string& gate, const Findings& findings) {
  std::string cases;
  for (const Finding& finding : findings) {
    const std::string inside = finding.xml();
    cases += fmt::format("    <testcase classname=\"regress.{}\" name=\"{}\" time=\"{:.3f}\"{}", gate,
                         xml_escaped(finding.cell), finding.wall_s,
                         inside.empty() ? "/>\n" : ">\n" + inside + "    </testcase>\n");
  }
  return fmt::format("  <testsuite name=\"{}\" {} timestamp=\"{}\">\n{}  </testsuite>\n",
                     xml_escaped(report.name + "." + gate), counts_xml(findings, /*is_suite=*/true),
                     xml_escaped(report.started_at.substr(0, report.started_at.find('Z'))), cases);
}

}  // namespace

std::vector<ExactVerdict> exact_verdicts(const RunResult& run, const json& baseline) {
  std::map<std::string, std::vector<BaselineDifference>> by_cell;
  for (BaselineDifference& difference : baseline_differences(baseline, make_baseline(run)))
    by_cell[difference.cell].push_back(std::move(difference));
  std::vector<ExactVerdict> out;
  for (const CellResult& cell : run.cells) {
    ExactVerdict verdict{.id = cell.id, .status = cell.status, .reason = cell.reason, .differences = {}};
    for (const RepetitionResult& r : cell.repetitions) verdict.wall_s += r.wall_s;
    if (cell.certificate.status == CertificateStatus::fail)
      verdict.not_lossless = fmt::format("NOT LOSSLESS: {} of this run differ from the reference's{}{}",
                                         counted(cell.certificate.mismatches, "request"),
                                         cell.certificate.detail.empty() ? "" : ": ", cell.certificate.detail);
    if (const auto found = by_cell.find(cell.id); found != by_cell.end()) {
      verdict.differences = std::move(found->second);
      by_cell.erase(found);
    }
    out.push_back(std::move(verdict));
  }
  for (auto& [cell, differences] : by_cell)
    out.push_back({.id = cell,
                   .status = CellStatus::skipped,
                   .reason = "this run has no such cell",
                   .differences = std::move(differences),
                   .is_absent = true});
  return out;
}

ExitCode gate_exit_code(const GateReport& report) {
  if (num_differences(report) > 0 || num_not_lossless(report) > 0) return ExitCode::correctness;
  if (num_slower(report) > 0) return ExitCode::timing;
  return report.strict && num_not_quiet(report) > 0 ? ExitCode::inconclusive : ExitCode::ok;
}

std::string gate_text(const GateReport& report) {
  std::string out;
  for (const ExactVerdict& verdict : report.exact) out += all_described(verdict);
  if (!report.made_on.empty() && num_differences(report) > 0)
    out += fmt::format("{}: made on {}\n", report.baseline, report.made_on);
  if (!report.timing.empty())
    for (const auto& lines : fitted_table(timing_table(report), 0).lines) out += lines.front() + "\n";
  if (!report.baseline.empty()) out += exact_summary(report) + "\n";
  if (!report.baseline_bin.empty()) out += timing_summary(report) + "\n";
  return out;
}

std::string gate_markdown(const GateReport& report) {
  if (!report.error.empty())
    return fmt::format("### {}: regression gates could not judge\n\n{}\n", report.name, report.error);
  const ExitCode code = gate_exit_code(report);
  const char* const word = code == ExitCode::ok ? "passed" : code == ExitCode::inconclusive ? "INCONCLUSIVE" : "FAILED";
  std::string out = fmt::format("### {}: regression gates {}\n\n", report.name, word);
  if (!report.baseline.empty()) {
    out += "**Exact**: " + exact_summary(report) + "\n\n";
    Table table{.title = {}, .columns = {{"cell", true}, {"fact", true}, {"baseline"}, {"now", true}}, .rows = {}};
    for (const ExactVerdict& verdict : report.exact) {
      if (!verdict.not_lossless.empty()) out += fmt::format("{}: {}\n\n", verdict.id, verdict.not_lossless);
      for (const BaselineDifference& d : verdict.differences) {
        const std::string missing = missing_text(verdict, d);
        table.rows.push_back({.cells = {d.cell, d.field.empty() ? "the cell" : d.field,
                                        d.field.empty() && d.baseline ? "present" : json_text(d.baseline),
                                        !missing.empty()              ? missing
                                        : d.field.empty() && d.now    ? "present"
                                                                      : json_text(d.now)}});
      }
    }
    if (!table.rows.empty()) out += markdown_table(table) + "\n";
    if (!report.made_on.empty() && !table.rows.empty()) out += "The baseline was made on " + report.made_on + "\n\n";
  }
  if (!report.baseline_bin.empty()) {
    out += "**Timing**: " + timing_summary(report) + "\n\n";
    if (!report.timing.empty()) out += markdown_table(timing_table(report)) + "\n";
  }
  return out;
}

std::string gate_junit(const GateReport& report) {
  std::string suites;
  Findings all;
  const auto add = [&](const char* gate, const Findings& findings) {
    suites += suite_xml(report, gate, findings);
    all.insert(all.end(), findings.begin(), findings.end());
  };
  if (!report.error.empty()) {
    add("gates", {{.cell = "every cell", .kind = Finding::Kind::error, .type = "not judged", .message = report.error}});
  } else {
    if (!report.baseline.empty()) add("exact", exact_findings(report));
    if (!report.timing.empty()) add("timing", timing_findings(report));
  }
  return fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" {}>\n{}</testsuites>\n",
                     xml_escaped("runexp regress " + report.name), counts_xml(all, /*is_suite=*/false), suites);
}

std::string github_annotations(const GateReport& report) {
  std::string out;
  if (!report.error.empty()) out += annotation("error", "regress: " + report.name, report.error);
  for (const Finding& finding : exact_findings(report)) {
    if (finding.kind == Finding::Kind::failure)
      out += annotation("error", "exact gate: " + finding.cell, finding.text);
    else if (finding.kind == Finding::Kind::error)
      out += annotation("error", "cell failed: " + finding.cell, finding.message);
  }
  for (const TimingVerdict& verdict : report.timing)
    if (verdict.slower)
      out += annotation(verdict.judged ? "error" : "warning", "timing gate: " + verdict.id, timing_sentence(verdict));
    else if (verdict.waits || (verdict.judged && !verdict.quiet))
      out += annotation("warning", "timing gate: " + verdict.id, word_of(verdict));
  return out;
}

json benchmark_entries(const RunResult& run) {
  json out = json::array();
  const std::string extra = fmt::format("run {}\nconfig {}", run.info.id, run.info.config_hash);
  for (const CellResult& cell : run.cells) {
    if (cell.status != CellStatus::done || cell.repetitions.empty()) continue;
    const auto add = [&](const char* what, const std::vector<double>& values) {
      const auto center = mean(values);
      if (!center || json_number(*center).is_null()) return;
      json entry = {{"name", fmt::format("{} {}", cell.id, what)}, {"unit", "ms"}, {"value", *center}};
      if (const auto spread = standard_deviation(values)) entry["range"] = fmt::format("± {:.4g}", *spread);
      entry["extra"] = extra;
      out.push_back(std::move(entry));
    };
    std::vector<double> tpot, ttft;
    for (const RepetitionResult& r : cell.repetitions) {
      if (const auto median = quantile(tpot_of(r), 0.5)) tpot.push_back(*median);
      if (const auto median = quantile(of_requests(r, &RequestRecord::ttft_ms), 0.5)) ttft.push_back(*median);
    }
    if (noise_of(cell).empty()) {  // a trend of disturbed times would blame the wrong commit
      add("TPOT", tpot);
      add("TTFT", ttft);
    }
    out.push_back({{"name", cell.id + " steps"},
                   {"unit", "steps"},
                   {"value", cell.repetitions.front().counters.steps},
                   {"extra", extra}});
  }
  return out;
}

}  // namespace paceline
