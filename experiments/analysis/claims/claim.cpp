#include "experiments/analysis/claims/claim.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "engine/util/json_io.h"
#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/statistics/significance.h"

namespace paceline {
namespace {

using nlohmann::json;

/// What a row is judged by: tok/s of an open loop are what was sent.
const std::optional<RatioInterval>& deciding_ratio(const CellSummary& s) {
  return s.open_loop ? s.decode_speedup : s.speedup;
}

/// Nothing where `over` is null or there is no ratio.
void add_over(const VerdictView& view, const ClaimKind& kind, const CellSummary& s, const CellSummary* over,
              std::vector<Claim>& claims) {
  if (!over || (s.open_loop && &kind != &ClaimKind::over_baseline)) return;
  const std::optional<RatioInterval> ratio = over == view.baseline_of(s) ? deciding_ratio(s) : view.rate_over(s, *over);
  if (!ratio) return;
  const CellResult &cell = view.cell(s), &other = view.cell(*over);
  claims.push_back({.kind = &kind,
                    .cell = &s,
                    .over = over,
                    .ratio = *ratio,
                    .decode = decode_ratio(cell, other, pairing_of(cell, other)),
                    .outcome = outcome_of(*ratio),
                    .far_apart_s = view.far_apart_s(s, *over)});
}

int num_ranks(const CellResult& cell) { return cell.axes.tp * cell.axes.pp; }

/// Null where none ran.
const CellSummary* twin_on_one_rank(const VerdictView& view, const CellSummary& s) {
  if (num_ranks(view.cell(s)) == 1) return nullptr;
  return view.first_that_ran(
      [&](const CellSummary& other) { return num_ranks(view.cell(other)) == 1 && view.are_twins(other, s); });
}

/// Of a cell with fast numerics the same one with strict ones. Null where none ran.
const CellSummary* strict_twin(const VerdictView& view, const CellSummary& s) {
  constexpr std::string_view kNumerics[] = {"engine.numerics"};
  const auto is_fast = [&](const CellSummary& of) {
    const json* const numerics = find_value(view.cell(of).requested, kNumerics[0]);
    return numerics && *numerics == "fast";
  };
  if (!is_fast(s)) return nullptr;
  const auto place = [&](const CellSummary& of) {  // what to ask first: the rest is compared as JSON
    const CellAxes& axes = view.cell(of).axes;
    return std::tie(axes.tp, axes.pp, axes.proposer, axes.num_speculative_tokens, axes.concurrency);
  };
  const std::string asked = asked_without(view.cell(s), kNumerics);
  return view.first_that_ran([&](const CellSummary& other) {
    return place(other) == place(s) && !is_fast(other) && asked_without(view.cell(other), kNumerics) == asked;
  });
}

void add_categories_of(const VerdictView& view, const CellSummary& s, std::vector<Claim>& claims) {
  const CellSummary* const over = view.speculates(s) ? view.reference_of(s) : nullptr;
  if (!over || s.categories.empty()) return;
  for (const CategorySummary& of : summarize_categories(view.cell(s), &view.cell(*over)))
    if (of.decode_speedup)
      claims.push_back({.kind = &ClaimKind::in_category,
                        .cell = &s,
                        .over = over,
                        .category = of.category,
                        .ratio = *of.decode_speedup,
                        .decode = of.decode_speedup,
                        .outcome = outcome_of(*of.decode_speedup)});
}

/// A pair of cells is counted once, whatever is claimed of it.
void judge_among(std::span<Claim* const> claims) {
  std::map<std::tuple<const CellSummary*, const CellSummary*, std::string>, size_t> place;
  const auto pair_of = [](const Claim& claim) { return std::tuple(claim.cell, claim.over, claim.category); };
  std::vector<RatioInterval> family;
  for (const Claim* const claim : claims)
    if (place.try_emplace(pair_of(*claim), family.size()).second) family.push_back(claim->ratio);
  const std::vector<Judged> judged = judged_among(family);
  for (Claim* const claim : claims) {
    const Judged& of = judged[place.at(pair_of(*claim))];
    claim->shown = of.outcome;
    claim->adjusted_p = of.adjusted_p;
    claim->among = int(family.size());
  }
}

void judge(std::vector<Claim>& claims) {
  std::map<std::pair<bool, bool>, std::vector<Claim*>> families;
  for (Claim& claim : claims) families[{claim.cell->rankable, claim.kind == &ClaimKind::in_category}].push_back(&claim);
  for (const auto& family : families) judge_among(family.second);
}

json ids_of(const VerdictView& view, const std::vector<const CellSummary*>& cells) {
  json ids = json::array();
  for (const CellSummary* const s : cells) ids.push_back(view.cell(*s).id);
  return ids;
}

json to_json(const VerdictView& view, const Claim& claim) {
  return {{"kind", claim.kind->name},
          {"cell", view.cell(*claim.cell).id},
          {"over", view.cell(*claim.over).id},
          {"category", claim.kind == &ClaimKind::in_category ? json(claim.category) : json(nullptr)},
          {"outcome", to_string(claim.outcome)},
          {"shown", to_string(claim.shown)},
          {"among", claim.among},
          {"adjusted_p", json_number(claim.adjusted_p)},
          {"ratio", json_number(claim.ratio.ratio)},
          {"ratio_ci95", field_to_json(claim.ratio)},
          {"decode_ratio", claim.decode ? json_number(claim.decode->ratio) : json(nullptr)},
          {"decode_ratio_ci95", field_to_json(claim.decode)}};
}

json to_json(const VerdictView& view, const Pick& pick) {
  return {
      {"kind", to_string(pick.kind)},           {"load", view.cell(pick.best()).load},
      {"concurrency", pick.group->concurrency}, {"work", pick.group->work},
      {"cell", view.cell(pick.best()).id},      {"not_worse", ids_of(view, {pick.cells.begin() + 1, pick.cells.end()})},
      {"value", json_number(pick.value)}};
}

json to_json(const VerdictView& view, const CrossoverClaim& claim) {
  json points = json::array();
  for (const CrossoverClaim::Point& point : claim.points)
    points.push_back({{"at", json_number(point.at)},
                      {"cell", view.cell(*point.cell).id},
                      {"shown", to_string(point.shown)},
                      {"ratio", json_number(point.ratio.ratio)},
                      {"ratio_ci95", field_to_json(point.ratio)}});
  const bool is_load = claim.axis == CrossoverClaim::Axis::concurrency;
  return {{"kind", "crossover"},
          {"axis", is_load ? "concurrency" : "acceptance_length"},
          {"of", claim.name},
          {"over", view.cell(*claim.over).id},
          {"points", std::move(points)}};
}

json to_json(const VerdictView& view, const KeptRates& rates) {
  json points = json::array();
  for (const KeptRates::Point& point : rates.points)
    points.push_back({{"rate_per_s", json_number(point.rate_per_s)},
                      {"cell", view.cell(*point.cell).id},
                      {"shown", to_string(point.kept)}});
  const bool any = rates.num_kept() > 0;
  return {{"kind", "kept_rate"},
          {"of", rates.name},
          {"rate_per_s", any ? json_number(rates.rate_per_s()) : json(nullptr)},
          {"points", std::move(points)}};
}

}  // namespace

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::none: return "none";
    case Outcome::baseline: return "baseline";
    case Outcome::faster: return "faster";
    case Outcome::slower: return "slower";
    case Outcome::inconclusive: return "inconclusive";
  }
  return "none";
}

Outcome outcome_of(const RatioInterval& ratio) {
  if (ratio.low && *ratio.low > 1) return Outcome::faster;
  if (ratio.high && *ratio.high < 1) return Outcome::slower;
  return Outcome::inconclusive;
}

bool is_shown(double ratio, std::optional<double> adjusted_p, double least_effect) {
  const double most = 1 + least_effect;
  return adjusted_p && *adjusted_p < kFalseClaims && (ratio >= most || ratio <= 1 / most);
}

std::vector<Judged> judged_among(std::span<const RatioInterval> family) {
  std::vector<double> p_values;
  for (const RatioInterval& ratio : family)
    if (ratio.p_value) p_values.push_back(*ratio.p_value);
  const std::vector<double> adjusted = holm_adjusted(p_values);
  std::vector<Judged> out(family.size());
  for (size_t i = 0, tested = 0; i < family.size(); ++i) {
    if (!family[i].p_value) continue;
    out[i].adjusted_p = adjusted[tested++];
    if (is_shown(family[i].ratio, out[i].adjusted_p))
      out[i].outcome = family[i].ratio > 1 ? Outcome::faster : Outcome::slower;
  }
  return out;
}

constinit const ClaimKind ClaimKind::over_baseline = {
    "over_baseline", [](const VerdictView& view, const CellSummary& s, std::vector<Claim>& claims) {
      if (s.outcome == Outcome::none || s.outcome == Outcome::baseline) return;
      add_over(view, over_baseline, s, view.baseline_of(s), claims);
    }};
constinit const ClaimKind ClaimKind::over_plain = {
    "over_plain", [](const VerdictView& view, const CellSummary& s, std::vector<Claim>& claims) {
      if (view.speculates(s)) add_over(view, over_plain, s, view.reference_of(s), claims);
    }};
constinit const ClaimKind ClaimKind::over_one_rank = {
    "over_one_rank", [](const VerdictView& view, const CellSummary& s, std::vector<Claim>& claims) {
      add_over(view, over_one_rank, s, twin_on_one_rank(view, s), claims);
    }};
constinit const ClaimKind ClaimKind::in_category = {"in_category", add_categories_of};

std::string outcome_text(const Claim& claim) {
  const std::string outcome = to_string(claim.outcome);
  if (claim.shown == claim.outcome || claim.outcome == Outcome::inconclusive) return outcome;
  return outcome + (claim.is_small() ? " by less than " + percent_text(kLeastEffect) : " (uncorrected)");
}

namespace {

/// What the same bits at any batch cost.
constinit const ClaimKind kOverStrict = {"over_strict",
                                         [](const VerdictView& view, const CellSummary& s, std::vector<Claim>& claims) {
                                           add_over(view, kOverStrict, s, strict_twin(view, s), claims);
                                         }};

}  // namespace

std::vector<Claim> make_claims(const VerdictView& view) {
  static constexpr const ClaimKind* kKinds[] = {&ClaimKind::over_baseline, &ClaimKind::over_plain,
                                                &ClaimKind::over_one_rank, &ClaimKind::in_category, &kOverStrict};
  std::vector<Claim> claims;
  for (const ClaimKind* const kind : kKinds)
    for (const CellSummary& s : view.summary().cells) kind->add(view, s, claims);
  for (Claim& claim : claims)
    if (view.may_be_drift(*claim.cell, *claim.over)) claim.outcome = Outcome::inconclusive, claim.ratio.p_value.reset();
  judge(claims);
  return claims;
}

void conclude_rows(RunSummary& summary) {
  for (CellSummary& s : summary.cells) {
    if (const std::optional<RatioInterval>& ratio = deciding_ratio(s); ratio && s.outcome != Outcome::baseline)
      s.outcome = s.baseline_drifts ? Outcome::inconclusive : outcome_of(*ratio);
  }
}

json claims_to_json(const VerdictView& view) {
  json out = json::array();
  for (const Claim& claim : view.claims()) out.push_back(to_json(view, claim));
  for (const Pick& pick : view.picks()) out.push_back(to_json(view, pick));
  for (const CrossoverClaim& claim : view.crossovers()) out.push_back(to_json(view, claim));
  for (const KeptRates& rates : view.kept_rates()) out.push_back(to_json(view, rates));
  for (const CellSummary& s : view.summary().cells)
    if (s.is_saturated()) out.push_back({{"kind", "saturated"}, {"cell", view.cell(s).id}});
  for (const Frontier& frontier : view.frontiers())
    out.push_back(
        {{"kind", "pareto"}, {"loop", frontier.is_open ? "open" : "closed"}, {"cells", ids_of(view, frontier.cells)}});
  return out;
}

}  // namespace paceline
