#include "experiments/report/html.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "experiments/analysis/summary_verdict.h"
#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "experiments/report/text.h"

namespace paceline {

namespace html {

std::vector<std::string> Report::proposers() const {
  std::vector<std::string> names;
  for (const CellResult& c : run.cells) {
    if (c.axes.proposer != "none" && std::find(names.begin(), names.end(), c.axes.proposer) == names.end()) {
      names.push_back(c.axes.proposer);
    }
  }
  return names;
}

int Report::color(const std::string& proposer) const {
  if (proposer == "none") return kNumChartColors - 1;
  const std::vector<std::string> names = proposers();
  return static_cast<int>(std::find(names.begin(), names.end(), proposer) - names.begin()) % (kNumChartColors - 1);
}

bool Report::has_several_concurrencies() const {
  return std::any_of(run.cells.begin(), run.cells.end(),
                     [this](const CellResult& c) { return c.axes.concurrency != run.cells.front().axes.concurrency; });
}

std::string Report::label(const CellAxes& axes) const {
  const std::string label = axes_label(axes);
  return has_several_concurrencies() ? label : label.substr(0, label.rfind(" c="));
}

}  // namespace html

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
  std::string out = badge(fmt::format("{} of {} cells done", summary.done, run.cells.size()), "");
  if (fail > 0) {
    out += badge("NOT LOSSLESS", "bad");
  } else if (pass > 0 && unverified == 0) {
    out += badge(pooled_flips(run) ? "✓ certified within noise" : "✓ lossless, certified", "good");
  }
  if (unverified > 0) out += badge(fmt::format("{} unverified", unverified), "warn");
  if (summary.failed > 0) out += badge(fmt::format("{} failed", summary.failed), "bad");
  if (summary.skipped > 0) out += badge(fmt::format("{} skipped", summary.skipped), "");
  if (!run.info.numerics.empty()) out += badge(run.info.numerics + " numerics", "");
  if (!run.info.profile.empty()) out += badge("profile " + run.info.profile, "");
  if (run.info.status == "interrupted") out += badge("interrupted", "warn");
  return "<div class=\"badges\">" + out + "</div>";
}

std::string verdict_box(const RunResult& run, const RunSummary& summary) {
  std::string out = "<div class=\"verdict\"><ul>";
  for (const VerdictSentence& v : make_verdict(run, summary)) {
    out += fmt::format("<li class=\"{}{}\">{}</li>", to_string(v.kind), v.bad ? " bad" : "", html_escaped(v.text));
  }
  return out + "</ul></div>\n";
}

}  // namespace

std::string report_html(const RunResult& run, const RunSummary& summary) {
  const html::Report report{run, summary};
  const std::string name = html_escaped(run.info.name.empty() ? "run" : run.info.name);
  const std::string cpu =
      run.environment.is_object() && run.environment.contains("cpu_model") && run.environment["cpu_model"].is_string()
          ? run.environment["cpu_model"].get<std::string>()
          : "";
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">";
  out += "<meta name=\"color-scheme\" content=\"light dark\">";
  out +=
      fmt::format("<title>{} – Paceline</title>\n<style>{}</style></head>\n<body><main>\n", name, html::page_style());
  const std::string gpus = gpus_text(run);
  out += fmt::format("<header><h1>{}</h1><div class=\"sub\">{}{}{}{}{} · {:.0f} s</div>{}</header>\n", name,
                     html_escaped(run.info.started_at), cpu.empty() ? "" : " · ", html_escaped(cpu),
                     gpus.empty() ? "" : " · ", html_escaped(gpus), run.wall_s, badges(run, summary));
  out += verdict_box(run, summary);
  if (!run.info.argv.empty()) {
    out += fmt::format("<p class=\"note\">Reproduce:</p><pre>{}</pre>\n", html_escaped(reproduce_command(run.info)));
  }
  out += html::headline_section(report);
  out += html::published_section(report);
  out += html::speedup_section(report);
  out += html::cells_section(report);
  out += html::acceptance_section(report);
  out += html::step_section(report);
  out += html::device_section(report);
  out += html::latency_section(report);
  out += html::setup_section(report);
  out += fmt::format("</main>\n<script>{}</script>\n</body></html>\n", html::page_script());
  return out;
}

}  // namespace paceline
