#include "experiments/analysis/claims/frontier.h"

#include <algorithm>

#include "experiments/analysis/claims/view.h"

namespace paceline {
namespace {

std::vector<const CellSummary*> frontier_of(const VerdictView& view, bool is_open) {
  struct Candidate {
    const CellSummary* s;
    double user, device;  // the more, the better
  };
  std::vector<Candidate> cells;
  for (const CellSummary& s : view.summary().cells) {
    const std::optional<ParetoPoint> point = pareto_point(view.cell(s), s);
    if (point && s.open_loop.has_value() == is_open && s.rankable && !s.is_saturated())
      cells.push_back({&s, is_open ? -point->user : point->user, point->device});
  }
  std::stable_sort(cells.begin(), cells.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.user, a.device) > std::pair(b.user, b.device);
  });
  std::vector<const CellSummary*> frontier;
  double best = 0;
  for (const Candidate& each : cells) {
    if (each.device <= best) continue;
    best = each.device;
    frontier.push_back(each.s);
  }
  if (!is_open) std::reverse(frontier.begin(), frontier.end());
  return frontier;
}

}  // namespace

std::optional<ParetoPoint> pareto_point(const CellResult& cell, const CellSummary& s) {
  std::optional<double> user = s.tok_s_per_user, device = s.tok_s_per_device;
  if (s.open_loop) {
    user = s.e2e_ms.p50;
    device = s.goodput          ? s.goodput->rate_per_s
             : s.is_saturated() ? s.open_loop->achieved_rate_per_s
                                : s.open_loop->offered_rate_per_s;
    if (device) *device /= cell.axes.tp * cell.axes.pp;
  }
  if (!user || !device) return std::nullopt;
  return ParetoPoint{*user, *device};
}

std::vector<Frontier> make_frontiers(const VerdictView& view) {
  std::vector<Frontier> out;
  for (const bool is_open : {false, true})
    if (auto cells = frontier_of(view, is_open); !cells.empty())
      out.push_back({.is_open = is_open, .cells = std::move(cells)});
  return out;
}

}  // namespace paceline
