#include "experiments/analysis/claims/pick.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "experiments/analysis/claims/claim.h"
#include "experiments/analysis/claims/policy.h"
#include "experiments/analysis/claims/view.h"

namespace paceline {
namespace {

/// How cells are put in order, and by what they are told apart.
struct Measure {
  PickKind kind;
  const char* name;
  bool less_is_better;
  bool (*holds)(const VerdictView& view, const CellSummary& s);
  double (*value)(const VerdictView& view, const CellSummary& s);
  std::vector<double> (*per_repetition)(const VerdictView& view, const CellSummary& s);
};

std::vector<double> medians(const CellResult& cell, std::vector<double> (*of)(const RepetitionResult&)) {
  std::vector<double> out;
  for (const RepetitionResult& r : cell.repetitions) out.push_back(quantile(of(r), 0.5).value_or(0));
  return out;
}

std::vector<double> e2e_of(const RepetitionResult& r) { return of_requests(r, &RequestRecord::e2e_ms); }

constexpr Measure kMeasures[] = {
    {PickKind::throughput, "best_throughput", false,
     [](const VerdictView&, const CellSummary& s) { return VerdictView::ranks_by_rate(s); },
     [](const VerdictView&, const CellSummary& s) { return *s.output_tok_s; },
     [](const VerdictView&, const CellSummary& s) { return s.output_tok_s_per_repetition; }},
    {PickKind::latency, "best_latency", true,
     [](const VerdictView&, const CellSummary& s) {
       return s.rankable && (s.open_loop ? !s.is_saturated() && s.e2e_ms.p50 : s.tpot_ms.p50.has_value());
     },
     [](const VerdictView&, const CellSummary& s) { return s.open_loop ? *s.e2e_ms.p50 : *s.tpot_ms.p50; },
     [](const VerdictView& view, const CellSummary& s) {
       return medians(view.cell(s), s.open_loop ? e2e_of : tpot_of);
     }},
    {PickKind::per_device, "best_per_device", false,
     [](const VerdictView&, const CellSummary& s) { return VerdictView::ranks_by_rate(s); },
     [](const VerdictView&, const CellSummary& s) { return *s.tok_s_per_device; },
     [](const VerdictView& view, const CellSummary& s) {
       std::vector<double> rates = s.output_tok_s_per_repetition;
       for (double& rate : rates) rate /= view.cell(s).axes.tp * view.cell(s).axes.pp;
       return rates;
     }},
    {PickKind::goodput, "most_goodput", false,
     [](const VerdictView&, const CellSummary& s) { return s.rankable && s.goodput; },
     [](const VerdictView&, const CellSummary& s) { return s.goodput->rate_per_s.value_or(0); },
     [](const VerdictView& view, const CellSummary& s) { return good_rates(view.cell(s), view.run().slo); }},
};

const Measure& measure_of(PickKind kind) {
  return *std::find_if(std::begin(kMeasures), std::end(kMeasures), [&](const Measure& m) { return m.kind == kind; });
}

/// By the measure, and of goodput by latency.
bool is_better(const VerdictView& view, const Measure& measure, const CellSummary& a, const CellSummary& b) {
  const auto rank = [&](const CellSummary& s) {
    const double value = measure.value(view, s);
    return std::pair(
        measure.less_is_better ? -value : value,
        measure.kind == PickKind::goodput ? -s.e2e_ms.p50.value_or(std::numeric_limits<double>::infinity()) : 0.0);
  };
  return rank(a) > rank(b);
}

/// How much better `best` is, above 1; of what may be drift nothing is shown.
std::optional<RatioInterval> ratio_of(const VerdictView& view, const Measure& measure, const CellSummary& best,
                                      const CellSummary& other) {
  std::vector<double> more = measure.per_repetition(view, best), less = measure.per_repetition(view, other);
  if (measure.less_is_better) std::swap(more, less);
  std::optional<RatioInterval> ratio = ratio_of_repetitions(more, less, pairing_of(view.cell(best), view.cell(other)));
  if (ratio && view.may_be_drift(best, other)) ratio->p_value.reset();
  return ratio;
}

/// Shares of good requests decide where rates cannot: all that was sent at one rate is good, nothing is, or there is no
/// interval.
bool is_equal_by_share(const CellSummary& best, const CellSummary& other, bool has_interval) {
  const double share = best.goodput->share;
  return other.goodput->share == share && ((best.open_loop && other.open_loop) || share == 0 || !has_interval);
}

/// What is claimed of the rates of two cells, null where nothing is: a pair is judged once.
const Claim* rate_claim(const VerdictView& view, const CellSummary& cell, const CellSummary& over) {
  const auto found = std::find_if(view.claims().begin(), view.claims().end(), [&](const Claim& claim) {
    return claim.kind != &ClaimKind::in_category && claim.cell == &cell && claim.over == &over;
  });
  return found == view.claims().end() ? nullptr : &*found;
}

Pick pick_of(const VerdictView& view, const LoadGroup& group, const Measure& measure, const CellSummary& best) {
  Pick pick{.kind = measure.kind, .group = &group, .cells = {}, .value = measure.value(view, best)};
  std::vector<const CellSummary*> compared;
  std::vector<RatioInterval> family;
  const auto add = [&](const CellSummary& s) { pick.cells.push_back(&s); };
  for (const CellSummary* s : group.cells) {
    if (s == &best || !measure.holds(view, *s)) continue;
    const std::optional<RatioInterval> ratio = ratio_of(view, measure, best, *s);
    const bool has_interval = ratio && ratio->low;
    if (measure.kind == PickKind::goodput && is_equal_by_share(best, *s, has_interval)) {
      add(*s);
    } else if (const Claim* const claim = measure.kind == PickKind::throughput ? rate_claim(view, best, *s) : nullptr;
               claim && has_interval) {
      if (claim->shown != Outcome::faster) add(*s);
    } else if (has_interval) {
      compared.push_back(s);
      family.push_back(*ratio);
    } else {
      ++pick.num_untested;
    }
  }
  const std::vector<Judged> judged = judged_among(family);
  for (size_t i = 0; i < judged.size(); ++i)
    if (judged[i].outcome != Outcome::faster) add(*compared[i]);
  std::stable_sort(pick.cells.begin(), pick.cells.end(),
                   [&](const CellSummary* a, const CellSummary* b) { return is_better(view, measure, *a, *b); });
  pick.cells.insert(pick.cells.begin(), &best);
  return pick;
}

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

const char* to_string(PickKind kind) { return measure_of(kind).name; }

const CellSummary* best_of(const VerdictView& view, const LoadGroup& group, PickKind kind, Among among) {
  const Measure& measure = measure_of(kind);
  const CellSummary* best = nullptr;
  for (const CellSummary* const s : group.cells) {
    if (among != Among::all && view.speculates(*s) != (among == Among::speculative)) continue;
    if (measure.holds(view, *s) && (!best || is_better(view, measure, *s, *best))) best = s;
  }
  return best;
}

bool may_be_beaten_by_drafts(const VerdictView& view, const Pick& pick) {
  return pick.num_untested > 0 ||
         std::any_of(pick.cells.begin(), pick.cells.end(), [&](const CellSummary* s) { return view.speculates(*s); });
}

bool leads_by_chance(const VerdictView& view, const Pick& pick) {
  const Claim* const row = view.claim(ClaimKind::over_baseline, pick.best());
  if (!view.speculates(pick.best()) || !row || row->shown != Outcome::inconclusive) return false;
  return std::none_of(view.claims().begin(), view.claims().end(), [&](const Claim& claim) {
    const CellSummary& s = *claim.cell;
    return (claim.kind == &ClaimKind::over_baseline || claim.kind == &ClaimKind::over_plain) && pick.group->holds(s) &&
           VerdictView::ranks_by_rate(s) && view.speculates(s) && claim.shown == Outcome::faster;
  });
}

std::vector<Pick> make_picks(const VerdictView& view) {
  std::vector<Pick> picks;
  for (const Measure& measure : kMeasures)
    for (const LoadGroup& group : view.groups())
      if (const CellSummary* const best = best_of(view, group, measure.kind))
        picks.push_back(pick_of(view, group, measure, *best));
  return picks;
}

bool ranks_before(const CellSummary& a, const CellSummary& b) {
  if (!a.open_loop || !b.open_loop)
    return std::pair(a.rankable, a.output_tok_s.value_or(0)) > std::pair(b.rankable, b.output_tok_s.value_or(0));
  const auto rank = [](const CellSummary& s) {
    return std::tuple(s.rankable, !s.is_saturated(), -s.e2e_ms.p50.value_or(std::numeric_limits<double>::infinity()));
  };
  return rank(a) > rank(b);
}

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
