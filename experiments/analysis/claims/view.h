#pragma once
// What every sentence of the verdict looks up: cells by load, their names, twins, and what is claimed of them.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/claims/claim.h"
#include "experiments/analysis/claims/crossover.h"
#include "experiments/analysis/claims/pick.h"
#include "experiments/analysis/claims/rates.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/statistics/statistics.h"

namespace paceline {

/// Cells whose requests ask for the same work under one load: only these are ranked against each other.
struct LoadGroup {
  std::string load;     // CellResult::load
  int concurrency = 0;  // 0: no closed loop
  std::string work;     // "temperature=0.8": what its requests ask and those of others do not; mostly empty
  std::vector<const CellSummary*> cells;

  bool holds(const CellSummary& s) const { return std::find(cells.begin(), cells.end(), &s) != cells.end(); }
};

/// A run with its summary; both outlive it.
class VerdictView {
 public:
  VerdictView(const RunResult& run, const RunSummary& summary);

  const RunResult& run() const { return run_; }
  const RunSummary& summary() const { return summary_; }
  const CellResult& cell(const CellSummary& s) const { return run_.cells[s.cell]; }

  bool speculates(const CellSummary& s) const { return cell(s).axes.drafts(); }
  bool ran(const CellSummary& s) const { return cell(s).status == CellStatus::done; }

  /// Open loops are compared by latency.
  static bool ranks_by_rate(const CellSummary& s) { return s.rankable && s.output_tok_s && !s.open_loop; }

  /// "tp1 pp2 ngram k=5", without the load.
  std::string label(const CellSummary& s) const;
  /// label(), and whether the cell is noisy: "tp1 pp2 ngram k=5 (disturbed)"; not where all cells that ran are.
  std::string marked_label(const CellSummary& s) const;
  /// "A, B (disturbed) and 3 more"
  std::string labels(const std::vector<const CellSummary*>& cells) const;

  /// Of all cells, in the order of the plan.
  const std::vector<LoadGroup>& groups() const { return groups_; }
  /// " at concurrency 4", ", offline", " at concurrency 4, temperature=0.8"; empty in a run of one load.
  std::string where(const LoadGroup& group) const;

  /// Of the cells that ran, the first in the order of the plan for which `holds` holds; null: none.
  template <class Holds>
  const CellSummary* first_that_ran(const Holds& holds) const {
    for (const CellSummary& s : summary_.cells)
      if (ran(s) && holds(s)) return &s;
    return nullptr;
  }

  /// Null where the cell has none; perhaps one that did not run.
  const CellSummary* baseline_of(const CellSummary& s) const;

  /// Equal in all that was asked for but tp, pp and devices.
  bool are_twins(const CellSummary& a, const CellSummary& b) const { return twin_of_[a.cell] == twin_of_[b.cell]; }

  /// Whether `plain` does not speculate, and is `s` in placement and in all else that was asked for.
  bool is_plain_twin(const CellSummary& plain, const CellSummary& s) const;

  /// The cell that a speculative one is judged against, so that no gain of its placement counts as speculation's: its
  /// plain twin, where none ran its baseline. Null where that did not run either.
  const CellSummary* reference_of(const CellSummary& s) const;

  /// "no speculation", "tp1 pp1 none (disturbed)": `reference`, in a sentence on `s`.
  std::string reference_text(const CellSummary& s, const CellSummary& reference) const;

  /// tok/s of one cell over another's.
  std::optional<RatioInterval> rate_over(const CellSummary& s, const CellSummary& other) const;

  /// Why nothing is shown of it, though its row might: "not shown among 6 cells", or how to get an interval. Empty
  /// where the interval says it.
  std::string not_shown_text(const Claim& claim) const;
  /// measured_earlier_s of `other`, where that is to be told.
  std::optional<double> far_apart_s(const CellSummary& s, const CellSummary& other) const;

  /// Whether the ratio of the two may show the machine (summary.h).
  bool may_be_drift(const CellSummary& s, const CellSummary& other) const {
    return paceline::may_be_drift(s, other, far_apart_s(s, other).has_value());
  }

  const std::vector<Claim>& claims() const { return claims_; }
  /// Null where there is none of the kind about the cell.
  const Claim* claim(const ClaimKind& kind, const CellSummary& s) const;
  const std::vector<Pick>& picks() const { return picks_; }
  /// Null where the group has none.
  const Pick* pick(PickKind kind, const LoadGroup& group) const;
  const std::vector<CrossoverClaim>& crossovers() const { return crossovers_; }
  const std::vector<RateSweep>& rate_sweeps() const { return rate_sweeps_; }
  const std::vector<KeptRates>& kept_rates() const { return kept_rates_; }
  const std::vector<Frontier>& frontiers() const { return frontiers_; }
  /// Whether what it is over drafts nothing and has the cell's placement and concurrency.
  bool is_over_plain_at_its_place(const Claim& claim) const;

 private:
  const RunResult& run_;
  const RunSummary& summary_;
  /// " (disturbed)"
  std::string noise_mark(const CellSummary& s) const { return marks_noise_ && !s.noise.empty() ? " (disturbed)" : ""; }

  std::vector<LoadGroup> groups_;
  bool marks_noise_ = false;
  std::vector<std::string> twin_of_;        // [cell] what the cell asks for, without its placement
  std::vector<std::string> plain_twin_of_;  // [cell] ... without its speculation
  std::vector<Claim> claims_;
  std::vector<Pick> picks_;
  std::vector<CrossoverClaim> crossovers_;
  std::vector<RateSweep> rate_sweeps_;
  std::vector<KeptRates> kept_rates_;
  std::vector<Frontier> frontiers_;
};

/// "a", "a and b", "a, b and c"
std::string listed_text(const std::vector<std::string>& names);

/// "25 min", "2 h", "3 days"; of what is longer than a minute or so.
std::string rough_time_text(double seconds);

/// "measured 2 h apart, not paired"; `apart_s`: measured_earlier_s.
std::string baseline_time_text(double apart_s);

}  // namespace paceline
