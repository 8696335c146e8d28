#include "experiments/analysis/claims/claims_json.h"

#include "engine/util/json_io.h"
#include "experiments/analysis/claims/view.h"

namespace paceline {
namespace {

using nlohmann::json;

json ids_of(const VerdictView& view, const std::vector<const CellSummary*>& cells) {
  json ids = json::array();
  for (const CellSummary* const s : cells) ids.push_back(view.cell(*s).id);
  return ids;
}

json to_json(const VerdictView& view, const Claim& claim) {
  return {{"kind", to_string(claim.kind)},
          {"cell", view.cell(*claim.cell).id},
          {"over", view.cell(*claim.over).id},
          {"category", claim.kind == ClaimKind::in_category ? json(claim.category) : json(nullptr)},
          {"outcome", to_string(claim.outcome)},
          {"shown", to_string(claim.shown)},
          {"among", claim.among},
          {"adjusted_p", json_number(claim.adjusted_p)},
          {"ratio", json_number(claim.ratio.ratio)},
          {"ratio_ci95", ratio_interval(claim.ratio)},
          {"decode_ratio", ratio_value(claim.decode)},
          {"decode_ratio_ci95", ratio_interval(claim.decode)}};
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
                      {"ratio_ci95", ratio_interval(point.ratio)}});
  const bool is_load = claim.axis == CrossoverClaim::Axis::concurrency;
  return {{"kind", "crossover"},
          {"axis", is_load ? "concurrency" : "acceptance_length"},
          {"of", claim.name},
          {"over", view.cell(*claim.over).id},
          {"points", std::move(points)}};
}

}  // namespace

json ratio_value(const std::optional<RatioInterval>& ratio) {
  return ratio ? json_number(ratio->ratio) : json(nullptr);
}

json ratio_interval(const std::optional<RatioInterval>& ratio) {
  if (!ratio || !ratio->low || !ratio->high) return nullptr;
  return json::array({json_number(ratio->low), json_number(ratio->high)});
}

json claims_to_json(const VerdictView& view) {
  json out = json::array();
  for (const Claim& claim : view.claims()) out.push_back(to_json(view, claim));
  for (const Pick& pick : view.picks()) out.push_back(to_json(view, pick));
  for (const CrossoverClaim& claim : view.crossovers()) out.push_back(to_json(view, claim));
  for (const CellSummary& s : view.summary().cells)
    if (s.is_saturated()) out.push_back({{"kind", "saturated"}, {"cell", view.cell(s).id}});
  for (const Frontier& frontier : view.frontiers())
    out.push_back(
        {{"kind", "pareto"}, {"loop", frontier.is_open ? "open" : "closed"}, {"cells", ids_of(view, frontier.cells)}});
  return out;
}

}  // namespace paceline
