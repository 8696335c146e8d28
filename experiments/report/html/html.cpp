#include "experiments/report/html/html.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "experiments/analysis/verdict/verdict.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"

namespace paceline {

namespace {

std::string badge(const std::string& text, const char* kind) {
  return fmt::format("<span class=\"badge {}\">{}</span>", kind, html_escaped(text));
}

std::string badges(const RunResult& run, const RunSummary& summary) {
  int pass = 0, fail = 0, unverified = 0;
  for (const CellResult& c : run.cells) {
    if (c.status != CellStatus::done) continue;
    pass += c.certificate.status == CertificateStatus::pass ? 1 : 0;
    fail += c.certificate.status == CertificateStatus::fail ? 1 : 0;
    unverified += c.certificate.status == CertificateStatus::unverified ? 1 : 0;
  }
  // What a reader must know before anything else comes first.
  const std::string done = fmt::format("{} of {} cells done", summary.done, run.cells.size());
  std::string out = run.info.status == "interrupted" ? badge("INTERRUPTED: " + done, "bad")
                    : run.info.status == "running"   ? badge("UNFINISHED: " + done, "bad")
                                                     : badge(done, "");
  if (fail > 0) {
    out += badge("NOT LOSSLESS", "bad");
  } else if (pass > 0 && unverified == 0) {
    out += badge(pooled_flips(run) ? "✓ certified within noise" : "✓ lossless, certified", "good");
  }
  if (unverified > 0) out += badge(fmt::format("{} unverified", unverified), "warn");
  if (summary.failed > 0) out += badge(fmt::format("{} failed", summary.failed), "bad");
  const int skipped = summary.skipped - summary.not_run;  // by a rule of the plan, or for lack of memory
  if (summary.not_run > 0) out += badge(fmt::format("{} not run", summary.not_run), "warn");
  if (skipped > 0) out += badge(fmt::format("{} skipped", skipped), "");
  const auto disturbed =
      std::count_if(summary.cells.begin(), summary.cells.end(), [](const CellSummary& s) { return !s.noise.empty(); });
  if (disturbed > 0) out += badge(fmt::format("{} of {} cells disturbed", disturbed, run.cells.size()), "warn");
  const auto not_ranked = std::count_if(summary.cells.begin(), summary.cells.end(), [&](const CellSummary& s) {
    return run.cells[s.cell].status == CellStatus::done && !s.rankable;
  });
  if (not_ranked > 0) out += badge(fmt::format("{} not ranked", not_ranked), "warn");
  if (!run.info.numerics.empty()) out += badge(run.info.numerics + " numerics", "");
  if (!run.info.profile.empty()) out += badge("profile " + run.info.profile, "");
  return "<div class=\"badges\">" + out + "</div>";
}

std::string verdict_box(const RunVerdict& verdict) {
  std::string out = "<div class=\"verdict\"><ul>";
  for (const std::string& text : verdict.headline)
    out +=
        fmt::format("<li class=\"{}\">{}</li>", text.starts_with("INVALID") ? "best bad" : "best", html_escaped(text));
  if (verdict.details.empty()) return out + "</ul></div>\n";
  out += "</ul><details><summary>Details</summary><ul>";
  for (const VerdictSentence& v : verdict.details)
    out += fmt::format("<li class=\"{}{}\">{}</li>", to_string(v.kind), v.bad ? " bad" : "", html_escaped(v.text));
  return out + "</ul></details></div>\n";
}

std::string header(const RunResult& run, const RunSummary& summary, const std::string& name) {
  const std::string cpu =
      run.environment.is_object() && run.environment.contains("cpu_model") && run.environment["cpu_model"].is_string()
          ? run.environment["cpu_model"].get<std::string>()
          : "";
  const std::string gpus = gpus_text(run);
  return fmt::format("<header><h1>{}</h1><div class=\"sub\">{}{}{}{}{} · {:.0f} s</div>{}</header>\n", name,
                     html_escaped(run.info.started_at), cpu.empty() ? "" : " · ", html_escaped(cpu),
                     gpus.empty() ? "" : " · ", html_escaped(gpus), run.wall_s, badges(run, summary));
}

}  // namespace

std::string report_html(const RunResult& run, const RunSummary& summary, const std::filesystem::path& data) {
  const html::Report report(run, summary, data);
  const std::string name = html_escaped(run.info.name.empty() ? "run" : run.info.name);
  const std::array sections = {
      html::trouble_section(report),    html::headline_section(report), html::published_section(report),
      html::speedup_section(report),    html::heat_section(report),     html::league_section(report),
      html::acceptance_section(report), html::drafts_section(report),   html::step_section(report),
      html::parallel_section(report),   html::device_section(report),   html::bubbles_section(report),
      html::timeline_section(report),   html::memory_section(report),   html::latency_section(report),
      html::pareto_section(report),     html::forecast_section(report), html::cells_section(report),
      html::samples_section(report),    html::setup_section(report)};
  std::string contents, body;
  for (const html::Section& section : sections) {
    if (section.body.empty()) continue;
    const std::string title = html_escaped(section.title);
    contents += fmt::format("<a href=\"#{}\">{}</a>", section.id, title);
    body += fmt::format("<section id=\"{0}\" aria-labelledby=\"h-{0}\"><h2 id=\"h-{0}\">{1}</h2>{2}</section>\n",
                        section.id, title, section.body);
  }
  // The policy holds even where an escape should fail: nothing is fetched, and only the script with our mark runs.
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">";
  out +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'nonce-paceline'; base-uri 'none'; form-action 'none'\">";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">";
  out += "<meta name=\"color-scheme\" content=\"light dark\">";
  out += fmt::format("<title>{} – Paceline</title>\n<style>{}</style></head>\n<body>", name, html::page_style());
  out += "<a class=\"skip\" href=\"#cells\">Skip to the table of all cells</a><main>\n";
  out += header(run, summary, name) + verdict_box(make_verdict(report.view));
  if (!run.info.argv.empty()) {
    out += fmt::format("<p class=\"note\">Reproduce:</p><pre>{}</pre>\n", html_escaped(reproduce_command(run.info)));
  }
  out += "<nav aria-label=\"Contents\">" + contents + "</nav>\n" + body;
  out += fmt::format("</main>\n<script nonce=\"paceline\">{}</script>\n</body></html>\n", html::page_script());
  return out;
}

}  // namespace paceline
