#include <algorithm>

#include <fmt/format.h>

#include "experiments/analysis/published_rows.h"
#include "experiments/analysis/summary_verdict.h"
#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "experiments/report/text.h"
#include "experiments/results/store.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxJsonBytes = 64 << 10;      // of the config shown
constexpr size_t kMaxEffectiveBytes = 2 << 10;  // of one cell's echo

std::string number_cell(const std::optional<double>& value, int digits, const std::string& more = "") {
  const nlohmann::json exact = json_number(value);
  return fmt::format("<td data-v=\"{}\">{}{}</td>", exact.is_null() ? "" : exact.dump(), number_text(value, digits),
                     more);
}

std::string text_cell(const std::string& text, const char* css = "s") {
  return fmt::format("<td class=\"{}\">{}</td>", css, html_escaped(text));
}

enum class ShowInterval { beside, tooltip };

std::string ratio_cell(const std::optional<RatioInterval>& r, ShowInterval show) {
  if (!r) return "<td data-v=\"\">–</td>";
  std::string interval;
  if (r->low && r->high && *r->low < *r->high) interval = fmt::format("{:.2f}–{:.2f}", *r->low, *r->high);
  if (show == ShowInterval::tooltip || interval.empty()) {
    return fmt::format("<td data-v=\"{:.6g}\" title=\"{}\">{:.2f}×</td>", r->ratio, interval, r->ratio);
  }
  return fmt::format("<td data-v=\"{:.6g}\">{:.2f}× <span class=\"ci\">{}</span></td>", r->ratio, r->ratio, interval);
}

std::string axes_cells(const CellAxes& axes) {
  return fmt::format("<td>{}</td><td>{}</td><td class=\"s\">{}</td><td data-v=\"{}\">{}</td><td>{}</td>", axes.tp,
                     axes.pp, html_escaped(proposer_label(axes)),
                     axes.num_speculative_tokens ? std::to_string(*axes.num_speculative_tokens) : "",
                     axes.num_speculative_tokens ? std::to_string(*axes.num_speculative_tokens) : "–",
                     axes.concurrency);
}

std::string certificate_cell(const CellResult& cell) {
  if (cell.status != CellStatus::done) return "<td class=\"s\">–</td>";
  const CertificateResult& c = cell.certificate;
  const char* const mark = cell.random_weights ? " <span class=\"ci\">random weights</span>" : "";
  const std::string fast =
      c.flips ? fmt::format(" <span class=\"ci\">fast: {}</span>", html_escaped(flips_text(*c.flips))) : "";
  switch (c.status) {
    case CertificateStatus::pass:
      return fmt::format("<td class=\"s good\" title=\"{}\">✓ <span class=\"ci\">{} tokens</span>{}{}</td>",
                         html_escaped(c.method), c.tokens_checked, fast, mark);
    case CertificateStatus::fail:
      return fmt::format("<td class=\"s bad\" title=\"{}\">✗ FAIL <span class=\"ci\">{} of {}</span>{}</td>",
                         html_escaped(c.detail), c.mismatches, c.tokens_checked, fast);
    case CertificateStatus::baseline: return fmt::format("<td class=\"s\">baseline{}{}</td>", fast, mark);
    case CertificateStatus::unverified:
      return fmt::format("<td class=\"s slow\" title=\"{}\">UNVERIFIED</td>", html_escaped(c.detail));
  }
  return "<td></td>";
}

const char* verdict_class(const CellResult& cell, const CellSummary& s) {
  if (cell.status == CellStatus::failed || cell.certificate.status == CertificateStatus::fail) return "why bad";
  if (s.rankable && s.outcome == Outcome::faster) return "why good";
  if (s.rankable && s.outcome == Outcome::slower) return "why slow";
  return "why";
}

std::string heads(std::initializer_list<std::pair<const char*, const char*>> columns) {
  std::string out = "<thead><tr>";
  for (const auto& [name, css] : columns)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", *css ? " class=\"s\"" : "", name);
  return out + "</tr></thead>";
}

std::string row_open(const CellResult& cell, const CellSummary& s) {
  return fmt::format("<tr data-label=\"{}\"{}>", html_escaped(axes_label(cell.axes) + " " + to_string(cell.status)),
                     cell.status == CellStatus::failed ? " class=\"failed\""
                     : s.rankable                      ? ""
                                                       : " class=\"muted\"");
}

std::string fact(const std::string& name, const nlohmann::json& value) {
  if (value.is_null()) return "";
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (value.is_array()) {
    text.clear();
    for (const auto& v : value) text += (text.empty() ? "" : " ") + (v.is_string() ? v.get<std::string>() : v.dump());
  }
  if (name.ends_with("_bytes") && value.is_number()) text = fmt::format("{:.2f} GiB", value.get<double>() / (1 << 30));
  if (text.empty()) return "";
  std::string label = name;
  std::replace(label.begin(), label.end(), '_', ' ');
  return fmt::format("<dt>{}</dt><dd>{}</dd>", html_escaped(label), html_escaped(text));
}

std::string json_block(const nlohmann::json& value, size_t limit) {
  std::string text = dump_json(value);
  if (text.size() > limit) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;  // not inside a character
    text = text.substr(0, limit) + "\n… (cut; the whole is in the run's folder)";
  }
  return "<pre>" + html_escaped(text) + "</pre>";
}

}  // namespace

std::string cells_section(const Report& report) {
  std::string body;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    body += row_open(cell, s) + axes_cells(cell.axes) + number_cell(s.output_tok_s, 1) +
            ratio_cell(s.speedup, ShowInterval::beside) + ratio_cell(s.decode_speedup, ShowInterval::tooltip) +
            number_cell(s.mean_acceptance_length, 2) + number_cell(s.draft_acceptance_rate, 2) +
            number_cell(s.draft_coverage, 2) + number_cell(s.tokens_per_target_forward, 2) +
            number_cell(s.degenerate_share, 2) + certificate_cell(cell) +
            text_cell(cell_verdict(cell, s), verdict_class(cell, s)) + "</tr>\n";
  }
  return "<section><h2>All cells</h2><div class=\"wide\"><table class=\"sortable\"><caption>Failed and skipped cells "
         "with "
         "their reasons too. Small numbers: 95 % intervals.</caption>" +
         heads({{"TP", ""},
                {"PP", ""},
                {"proposer", "s"},
                {"k", ""},
                {"c", ""},
                {"tok/s", ""},
                {"speedup", ""},
                {"decode speedup", ""},
                {"AL", ""},
                {"accept", ""},
                {"coverage", ""},
                {"tok/pass", ""},
                {"degen.", ""},
                {"certificate", "s"},
                {"verdict or reason", "s"}}) +
         "<tbody>" + body +
         "</tbody></table></div><p class=\"note\">c: concurrent requests. speedup: output tokens per second, prefill "
         "included, over the baseline cell. decode speedup: ratio of mean time per output token. AL: mean acceptance "
         "length, 1 + accepted / drafts, bonus token included. accept: accepted / drafted tokens. coverage: share of "
         "verify steps that had drafts. tok/pass: output tokens per target pass of a sequence. degen.: share of "
         "requests "
         "whose output ends in a repetition (period ≤ 16 for ≥ 32 tokens). certificate: tokens compared with the "
         "reference" +
         std::string(pooled_flips(report.run)
                         ? ", in fast numerics up to each request's first flip: another token than the reference's, "
                           "explained where the logits of the two are nearer than twice the noise, the most by which "
                           "computing them in passes of many rows and of few moved a logit.</p></section>\n"
                         : ". A lower k does not make the output more accurate: it is the same text.</p></section>\n");
}

std::string published_section(const Report& report) {
  std::string body;
  for (const PublishedRow& row : published_rows(report.run, report.summary)) {
    body += fmt::format("<tr data-label=\"{0}\"><td class=\"s\">{0}</td><td class=\"s\">{1}</td>",
                        html_escaped(row.label), html_escaped(row.over));
    body += number_cell(row.output_tok_s, 1) + number_cell(row.tpot_ms, 2);
    body += fmt::format("<td>{}</td><td>{}</td><td class=\"why\">{}</td></tr>\n", ratio_text(row.measured),
                        ratio_text(row.published), html_escaped(row.why));
  }
  if (body.empty()) return "";
  return "<section><h2>Beside what others measured</h2><div class=\"wide\"><table>"
         "<caption>Output tokens per second over those of the row named.</caption>" +
         heads({{"row", "s"},
                {"over", "s"},
                {"tok/s", ""},
                {"TPOT p50, ms", ""},
                {"measured", ""},
                {"published", ""},
                {"why", "s"}}) +
         "<tbody>" + body + "</tbody></table></div></section>\n";
}

std::string latency_section(const Report& report) {
  std::string body;
  int64_t fewest = 0;
  for (const CellSummary& s : report.summary.cells) {
    if (!report.is_done(s)) continue;
    const CellResult& cell = report.cell(s);
    body += row_open(cell, s) + axes_cells(cell.axes);
    for (const Percentiles* p : {&s.ttft_ms, &s.tpot_ms, &s.itl_ms}) {
      const int digits = p == &s.ttft_ms ? 1 : 2;
      body += number_cell(p->p50, digits) + number_cell(p->p90, digits) + number_cell(p->p99, digits);
    }
    body += number_cell(s.e2e_ms.p50, 1) + number_cell(s.busy, 2) + "</tr>\n";
    fewest = fewest == 0 ? s.num_requests : std::min(fewest, s.num_requests);
  }
  if (body.empty()) return "";
  return "<section><h2>Latency</h2><div class=\"wide\"><table class=\"sortable\"><caption>Milliseconds over all "
         "requests "
         "and repetitions.</caption>" +
         heads({{"TP", ""},
                {"PP", ""},
                {"proposer", "s"},
                {"k", ""},
                {"c", ""},
                {"TTFT p50", ""},
                {"p90", ""},
                {"p99", ""},
                {"TPOT p50", ""},
                {"p90", ""},
                {"p99", ""},
                {"ITL p50", ""},
                {"p90", ""},
                {"p99", ""},
                {"E2E p50", ""},
                {"busy", ""}}) +
         "<tbody>" + body +
         fmt::format(
             "</tbody></table></div><p class=\"note\">TTFT: submit to first token. TPOT: (E2E − TTFT) / (tokens − "
             "1). ITL: gap between emissions; one emission may bring several tokens, so compare TPOT between "
             "cells. busy: draft + verify + sample as a share of the deciding rank's time.{}</p></section>\n",
             fewest < 1000 ? fmt::format(" With {} requests in a cell, p99 is an extreme, not an estimate.", fewest)
                           : "");
}

std::string setup_section(const Report& report) {
  std::string facts;
  if (report.run.environment.is_object()) {
    for (const auto& [key, value] : report.run.environment.items()) facts += fact(key, value);
  }
  std::string out = "<section><h2>Set-up</h2>";
  if (!facts.empty()) out += "<details open><summary>Environment</summary><dl>" + facts + "</dl></details>";
  std::string effective;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    if (cell.effective.is_null() || cell.effective.empty()) continue;
    effective += fmt::format("<h3>{}</h3>{}", html_escaped(cell.id), json_block(cell.effective, kMaxEffectiveBytes));
  }
  if (!effective.empty())
    out += "<details><summary>Effective settings of each cell, as the engine ran them</summary>" + effective +
           "</details>";
  if (!report.run.config_resolved.is_null()) {
    out += "<details><summary>Resolved configuration</summary>" +
           json_block(report.run.config_resolved, kMaxJsonBytes) + "</details>";
  }
  return out + fmt::format(
                   "<p class=\"note\">Raw data beside this file: summary.json, summary.csv, cells/*/requests.jsonl, "
                   "environment.json, config.resolved.json. Run {}, configuration {}.</p></section>\n",
                   html_escaped(report.run.info.id), html_escaped(report.run.info.config_hash));
}

}  // namespace paceline::html
