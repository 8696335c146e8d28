#pragma once
// The sections of report.html and what they share; only html*.cpp include this.

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/analysis/claims/view.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/table.h"

namespace paceline::html {

/// A run with what several sections look up. The run and its summary outlive it.
class Report {
 public:
  /// `data`: as in report_html().
  Report(const RunResult& run, const RunSummary& summary, std::filesystem::path data);

  const RunResult& run;
  const RunSummary& summary;
  const VerdictView view;

  /// `text`, which is HTML, as a link to `file` of the run's folder; unchanged where there is no such file, or no
  /// folder.
  std::string linked(const std::string& file, const std::string& text) const;
  /// Whether files of the run's folder may be linked.
  bool has_data() const { return !data_.empty(); }

  const CellResult& cell(const CellSummary& s) const { return run.cells[s.cell]; }
  bool is_done(const CellSummary& s) const { return cell(s).status == CellStatus::done; }
  /// Those of which `is_in` holds, in plan order.
  template <class IsIn>
  std::vector<const CellSummary*> cells(IsIn&& is_in) const {
    std::vector<const CellSummary*> found;
    for (const CellSummary& s : summary.cells)
      if (is_in(s)) found.push_back(&s);
    return found;
  }
  std::vector<const CellSummary*> done_cells() const {
    return cells([this](const CellSummary& s) { return is_done(s); });
  }
  /// By placement and concurrency, else as they stood.
  void sort_by_place(std::vector<const CellSummary*>& cells) const;

  /// Proposers in order of first appearance, "none" left out. Drafts of different models are different proposers.
  const std::vector<std::string>& proposers() const { return proposers_; }
  /// "ngram"; "draft", or where a run has several of them "draft (self)".
  std::string proposer(const CellResult& cell) const;
  std::string proposer(const CellSummary& s) const { return proposer(cell(s)); }
  /// Colour of a proposer, and so its marker, the same in all charts of all reports: its place among those of
  /// proposer_list() that draft, further ones behind them in order; "none" has the last one.
  int color(const std::string& proposer) const;
  int color(const CellSummary& s) const { return color(proposer(s)); }
  /// Of all cells, ascending.
  const std::vector<int>& concurrencies() const { return concurrencies_; }
  bool has_several_concurrencies() const { return concurrencies_.size() > 1; }

  /// Label without concurrency when all cells share it.
  std::string label(const CellAxes& axes) const;
  /// "TP 2 × PP 1", with the concurrency where it varies.
  std::string place(const CellAxes& axes) const;
  /// What cells are compared with: "no speculation in the same placement and load", or that it is sweep.baseline's.
  std::string baseline_text() const;
  /// What tells a cell from the others of its place: "none", "ngram k=3", "draft, batching=static k=5".
  std::string method(const CellAxes& axes) const;

  /// Of each place, variant and proposer the finished cell with the most tokens per second, rankable ones first; of an
  /// open loop the one with the lowest median E2E latency, saturated ones last. In plan order. Stated acceptance is
  /// left out.
  const std::vector<const CellSummary*>& fastest() const { return fastest_; }

 private:
  std::filesystem::path data_;
  std::vector<std::string> proposers_;
  std::vector<int> colors_;                                    // [proposers_]
  std::map<std::string, std::set<std::string>> draft_models_;  // by proposer
  std::vector<int> concurrencies_;
  std::vector<const CellSummary*> fastest_;
};

/// "TP 2 × PP 1"
std::string placement(const CellAxes& axes);

struct Section {
  const char* id;         // of the link
  std::string title;      // also in the list of contents; escaped by the page
  std::string body = {};  // empty: the run holds nothing for it
};

/// Style and script of the page.
const char* page_style();
const char* page_script();

Section trouble_section(const Report& report);     // cells without a result, by reason
Section headline_section(const Report& report);    // tok/s of the fastest cells; latencies of open loops
Section published_section(const Report& report);   // rows beside what others measured
Section speedup_section(const Report& report);     // speedup over report.x, split by report.facet
Section heat_section(const Report& report);        // speedup of proposer × k, by place and concurrency
Section league_section(const Report& report);      // speedup of decoding of proposer × kind of text
Section cells_section(const Report& report);       // all cells, certificate, verdict
Section acceptance_section(const Report& report);  // by position, and accepted tokens per step
Section drafts_section(const Report& report);      // what drafts cost and bring, by stages where there are any
Section step_section(const Report& report);        // step time by phase
Section parallel_section(const Report& report);    // what ranks give, and how busy each is
Section device_section(const Report& report);      // rooflines, ceilings
Section bubbles_section(const Report& report);     // when each rank worked and when it waited
Section timeline_section(const Report& report);    // sequences, KV and bubbles over time
Section memory_section(const Report& report);      // batch size, KV peak, preemptions
Section forecast_section(const Report& report);    // predicted against measured step times
Section latency_section(const Report& report);     // TTFT, TPOT, ITL, E2E
Section pareto_section(const Report& report);      // pace or latency against what a device gives
Section samples_section(const Report& report);     // outputs beside those without speculation
Section setup_section(const Report& report);       // environment, effective settings, resolved config, data

// Pieces of HTML. All escape what they are given, unless they say otherwise.

std::string note(const std::string& html);  // takes HTML
std::string grid(const std::string& charts);
/// A box that scrolls where the chart does not fit.
std::string wide(const std::string& label, const std::string& chart);
/// Cuts the whisker of a row at 1.5 times its value: an interval of few repetitions may reach far beyond all values,
/// and its number is told beside it.
void cut_whisker(BarRow& row);
/// How the intervals of a chart's ratios were made.
class PairingsTold {
 public:
  /// `apart_s`: how much earlier the reference was measured; `is_far`: is_far_apart().
  void add(Pairing pairing, std::optional<double> apart_s, bool is_far);
  /// "95 % intervals: paired Student t …."; where some are not paired it says so, with the longest time between.
  std::string text() const;

 private:
  double farthest_s_ = 0;
  bool halves_ = false, apart_ = false;
};
/// Width for each of `count` charts, such that they fill a row of the page together; no less than `least`.
double width_of_each(size_t count, double least);

/// As a part of a URL: %XX for each byte that is not plain.
std::string percent_encoded(std::string_view bytes, bool (*is_plain)(char c));

/// "3.14", "40 %"; "–" for what is missing or not finite.
std::string number(const std::optional<double>& value, int digits);
std::string percent(const std::optional<double>& share);
/// None where the whole is not above 0.
std::optional<double> ratio(double part, double whole);

/// What a table says of each cell.
struct CellColumn {
  std::string name;
  std::string help;  // tooltip
  std::function<std::string(const CellSummary& s)> text;
  bool is_text = false;
};
using CellColumns = std::vector<CellColumn>;
/// A number of the summary.
template <class Number>
auto field(Number CellSummary::*member, int digits) {
  return [member, digits](const CellSummary& s) { return number(s.*member, digits); };
}
/// A row a cell, muted where it is not ranked: TP, PP, proposer, k, c, then `columns`.
Table table_of(const Report& report, const std::string& title, const std::vector<const CellSummary*>& cells,
               const CellColumns& columns);
/// The first five cells of such a row.
std::vector<Table::Cell> axes_cells(const CellAxes& axes);
/// A table that the reader opens.
std::string folded(const Table& table);
/// "rank 3", with stages "rank 3, stage 1".
std::string rank_name(size_t rank, int stage, bool has_stages);

/// Of groups in the order of their first appearance, the one of this key; a new one where there is none.
template <class Key, class Group>
Group& group_of(std::vector<std::pair<Key, Group>>& groups, const Key& key) {
  for (auto& [known, group] : groups)
    if (known == key) return group;
  return groups.emplace_back(key, Group()).second;
}

}  // namespace paceline::html
