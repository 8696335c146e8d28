#include <algorithm>

#include <fmt/format.h>

#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"

namespace paceline::html {

namespace {

/// Whether a cell was to run: of skipped ones those that the run's end left out.
enum class Planned { no, yes };

constexpr size_t kMaxNamed = 12;  // cells of one reason

/// "<li>reason: cell, cell</li>" for each reason, in plan order.
std::string reasons(const Report& report, CellStatus status, Planned planned) {
  std::vector<std::pair<std::string, std::vector<const CellResult*>>> groups;
  for (const CellResult& cell : report.run.cells) {
    const bool is_planned = cell.status != CellStatus::skipped || cell.not_run;
    if (cell.status != status || is_planned != (planned == Planned::yes)) continue;
    const std::string reason = cell.reason.empty() ? "no reason was recorded" : cell.reason;
    auto known = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == reason; });
    if (known == groups.end()) known = groups.insert(groups.end(), {reason, {}});
    known->second.push_back(&cell);
  }
  std::string out;
  for (const auto& [reason, cells] : groups) {
    std::string names;
    for (size_t i = 0; i < std::min(cells.size(), kMaxNamed); ++i)
      names += (i == 0 ? "" : "; ") + report.label(cells[i]->axes);
    if (cells.size() > kMaxNamed) names += fmt::format("; and {} more", cells.size() - kMaxNamed);
    out += fmt::format("<li{}>{} <span class=\"sub\">({}: {})</span></li>",
                       status == CellStatus::failed ? " class=\"bad\"" : "", html_escaped(reason), cells.size(),
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
  add("Failed", reasons(report, CellStatus::failed, Planned::yes));
  add("Not run", reasons(report, CellStatus::skipped, Planned::yes));
  add("Skipped", reasons(report, CellStatus::skipped, Planned::no));
  if (!section.body.empty() && report.run.info.status == "interrupted")
    section.body += note("The run was interrupted: <code>runexp resume " + html_escaped(report.run.info.id) +
                         "</code> measures what is missing; what is recorded is not run again.");
  return section;
}

}  // namespace paceline::html
