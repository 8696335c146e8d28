#include <algorithm>

#include <fmt/format.h>

#include "experiments/analysis/comparison/missing_cells.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxNamed = 12;  // cells of one reason

/// "<li>reason: cell, cell</li>" for each reason, in plan order.
std::string reasons(const Report& report, MissingKind kind) {
  std::string out;
  for (const auto& [reason, cells] : missing_cells(report.run, kind)) {
    std::string names;
    for (size_t i = 0; i < std::min(cells.size(), kMaxNamed); ++i)
      names += (i == 0 ? "" : "; ") + report.label(cells[i]->axes);
    if (cells.size() > kMaxNamed) names += fmt::format("; and {} more", cells.size() - kMaxNamed);
    out += fmt::format("<li{}>{} <span class=\"sub\">({}: {})</span></li>",
                       kind == MissingKind::failed ? " class=\"bad\"" : "", html_escaped(reason), cells.size(),
                       html_escaped(names));
  }
  return out;
}

}  // namespace

Section trouble_section(const Report& report) {
  Section section{"trouble", "Cells without a result", ""};
  const auto add = [&](const char* heading, const std::string& list) {
    if (!list.empty()) section.body += fmt::format("<h3>{}</h3><ul>{}</ul>", heading, list);
  };
  add("Failed", reasons(report, MissingKind::failed));
  add("Not run", reasons(report, MissingKind::left_out));
  add("Skipped", reasons(report, MissingKind::skipped));
  if (!section.body.empty() && report.run.info.status == "interrupted")
    section.body += note("The run was interrupted: <code>runexp resume " + html_escaped(report.run.info.id) +
                         "</code> measures what is missing; what is recorded is not run again.");
  return section;
}

}  // namespace paceline::html
