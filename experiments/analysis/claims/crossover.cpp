#include "experiments/analysis/claims/crossover.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/analysis/claims/view.h"

namespace paceline {
namespace {

/// "c=1", "c=1 and c=4", "c=1, c=4 and c=16", "all 6 from c=1 to c=32"
std::string points_text(const std::vector<size_t>& points, std::span<const std::string> names) {
  constexpr size_t kMostNamed = 4;
  const bool follow_each_other = points.back() - points.front() + 1 == points.size();
  if (points.size() > kMostNamed && follow_each_other)
    return fmt::format("all {} from {} to {}", points.size(), names[points.front()], names[points.back()]);
  std::vector<std::string> named;
  for (const size_t point : points) named.push_back(names[point]);
  return listed_text(named);
}

std::string name_without_k(const CellResult& cell) {
  CellAxes axes = cell.axes;
  axes.concurrency = 0;
  axes.num_speculative_tokens.reset();
  return axes_label(axes);
}

/// Of a cell with stated acceptance, without its length.
std::string name_without_length(const CellResult& cell) {
  CellAxes axes = cell.axes;
  axes.concurrency = 0;
  axes.variant.clear();
  std::istringstream words(cell.axes.variant);
  for (std::string word; words >> word;)
    if (!word.starts_with("acceptance_length=")) axes.variant += (axes.variant.empty() ? "" : " ") + word;
  return axes_label(axes);
}

constexpr std::string_view kStatedLength[] = {"speculation.synthetic.acceptance_length"};

/// Another k at the same place of the axis. Where any pays, the one that is named was shown to.
void add_to(CrossoverClaim::Point& point, const Claim& gain, int k) {
  const bool pays = gain.shown == Outcome::faster, named_pays = point.shown == Outcome::faster;
  if (pays || named_pays)
    point.shown = Outcome::faster;
  else if (gain.shown != Outcome::slower)
    point.shown = Outcome::inconclusive;
  if (pays == named_pays ? !begins_higher(gain.ratio, point.ratio) : named_pays) return;
  point.cell = gain.cell;
  point.k = k;
  point.ratio = gain.ratio;
}

void add_to(CrossoverClaim& claim, double at, const Claim& gain, int k) {
  const auto after = std::find_if(claim.points.begin(), claim.points.end(), [&](const auto& p) { return p.at > at; });
  const bool is_known =
      claim.axis == CrossoverClaim::Axis::concurrency && after != claim.points.begin() && std::prev(after)->at == at;
  if (is_known)
    add_to(*std::prev(after), gain, k);
  else
    claim.points.insert(after, {.at = at, .cell = gain.cell, .k = k, .ratio = gain.ratio, .shown = gain.shown});
}

/// By what the cells of each have in common, in the order of the plan.
using Sets = nlohmann::ordered_map<std::string, CrossoverClaim>;

/// Over plain decoding of the same placement and concurrency; of closed loops.
void add_concurrency(const VerdictView& view, const Claim& gain, Sets& sets) {
  const CellResult& cell = view.cell(*gain.cell);
  if (!gain.cell->rankable || cell.load != "closed" || !view.is_over_plain_at_its_place(gain)) return;
  const std::string name = name_without_k(cell);
  CrossoverClaim& claim = sets.emplace(name, {.name = name, .over = gain.over, .points = {}}).first->second;
  if (!claim.points.empty())
    claim.has_several_k |=
        view.cell(*claim.points.front().cell).axes.num_speculative_tokens != cell.axes.num_speculative_tokens;
  add_to(claim, cell.axes.concurrency, gain, cell.axes.num_speculative_tokens.value_or(0));
}

void add_stated(const VerdictView& view, const LoadGroup& group, const Claim& gain, Sets& sets) {
  const CellResult& cell = view.cell(*gain.cell);
  if (!cell.forced || cell.oversubscribed || !gain.cell->mean_acceptance_length) return;
  CrossoverClaim made{.axis = CrossoverClaim::Axis::acceptance_length,
                      .group = &group,
                      .name = name_without_length(cell),
                      .over = gain.over,
                      .points = {}};
  CrossoverClaim& claim = sets.emplace(asked_without(cell, kStatedLength), std::move(made)).first->second;
  add_to(claim, *gain.cell->mean_acceptance_length, gain, cell.axes.num_speculative_tokens.value_or(0));
}

}  // namespace

std::string crossover_text(std::span<const Outcome> outcomes, std::span<const std::string> names) {
  std::vector<size_t> faster, slower, undecided;
  for (size_t i = 0; i < outcomes.size(); ++i)
    (outcomes[i] == Outcome::faster ? faster : outcomes[i] == Outcome::slower ? slower : undecided).push_back(i);
  std::vector<std::string> claims;
  const auto add = [&](const char* claim, const std::vector<size_t>& points) {
    if (!points.empty()) claims.push_back(fmt::format("{} {}", claim, points_text(points, names)));
  };
  const bool begins_slower = !slower.empty() && (faster.empty() || slower.front() < faster.front());
  if (begins_slower) add("loses at", slower);
  add("pays at", faster);
  if (!begins_slower) add("loses at", slower);
  std::string text = fmt::format("{}", fmt::join(claims, ", "));
  if (!undecided.empty())
    text += fmt::format("{}not decided at {}", text.empty() ? "is " : "; ", points_text(undecided, names));
  return text;
}

bool CrossoverClaim::is_decided() const {
  return std::any_of(points.begin(), points.end(), [](const Point& p) { return p.shown != Outcome::inconclusive; });
}

std::vector<CrossoverClaim> make_crossovers(const VerdictView& view) {
  Sets over_concurrency;
  for (const CellSummary& s : view.summary().cells)
    if (const Claim* const gain = view.claim(ClaimKind::over_plain, s)) add_concurrency(view, *gain, over_concurrency);
  std::vector<CrossoverClaim> out;
  for (auto& [name, claim] : over_concurrency)
    if (claim.points.size() > 1) out.push_back(std::move(claim));
  for (const LoadGroup& group : view.groups()) {
    Sets stated;
    for (const CellSummary* const s : group.cells)
      if (const Claim* const gain = view.claim(ClaimKind::over_plain, *s)) add_stated(view, group, *gain, stated);
    for (auto& [asked, claim] : stated) out.push_back(std::move(claim));
  }
  return out;
}

std::string crossover_text(const CrossoverClaim& claim) {
  const bool is_load = claim.axis == CrossoverClaim::Axis::concurrency;
  std::vector<std::string> names;
  std::vector<Outcome> outcomes;
  for (const CrossoverClaim::Point& point : claim.points) {
    const std::string at = is_load ? fmt::format("c={}", int(point.at)) : fmt::format("AL {:.2f}", point.at);
    const std::string k = claim.has_several_k ? fmt::format("k={}: ", point.k) : "";
    names.push_back(fmt::format("{} ({}{:.2f}×)", at, k, point.ratio.ratio));
    outcomes.push_back(point.shown);
  }
  return fmt::format("{} {}", claim.name, crossover_text(outcomes, names));
}

}  // namespace paceline
