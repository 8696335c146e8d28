#pragma once
// The sections of report.html; only report_html*.cpp include this.

#include <string>
#include <vector>

#include "experiments/analysis/summary.h"

namespace paceline::html {

struct Report {
  const RunResult& run;
  const RunSummary& summary;

  const CellResult& cell(const CellSummary& s) const { return run.cells[s.cell]; }
  bool is_done(const CellSummary& s) const { return cell(s).status == CellStatus::done; }
  /// Proposers in order of first appearance, "none" left out; the place is the colour.
  std::vector<std::string> proposers() const;
  /// Colour of a proposer, the same in all charts; "none" has the last one.
  int color(const std::string& proposer) const;
  /// Label without concurrency when all cells share it.
  std::string label(const CellAxes& axes) const;
  bool has_several_concurrencies() const;
};

/// Style and script of the page.
const char* page_style();
const char* page_script();

/// Each section is "" when the run holds nothing for it.
std::string headline_section(const Report& report);    // tok/s of the best cells
std::string speedup_section(const Report& report);     // speedup over k, facets tp × pp
std::string acceptance_section(const Report& report);  // per position, unconditional and conditional
std::string step_section(const Report& report);        // step time by phase
std::string device_section(const Report& report);      // busy shares, rooflines, ceilings
std::string cells_section(const Report& report);       // all cells, certificate, verdict
std::string published_section(const Report& report);   // rows beside what others measured
std::string latency_section(const Report& report);     // TTFT, TPOT, ITL
std::string setup_section(const Report& report);       // environment, effective settings, resolved config

}  // namespace paceline::html
