#include "experiments/analysis/claims/crossover.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "experiments/analysis/claims/view.h"

namespace paceline {
namespace {

/// "c=1", "c=1 and c=4", "c=1, c=4 and c=16", "all 6 loads from c=1 to c=32"
std::string points_text(const std::vector<size_t>& points, std::span<const std::string> names, const char* noun) {
  constexpr size_t kMostNamed = 4;
  const bool follow_each_other = points.back() - points.front() + 1 == points.size();
  if (points.size() > kMostNamed && follow_each_other)
    return fmt::format("all {} {} from {} to {}", points.size(), noun, names[points.front()], names[points.back()]);
  std::string text;
  for (size_t i = 0; i < points.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == points.size() ? " and " : ", ", names[points[i]]);
  return text;
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

/// Another k at the same place of the axis.
void add_to(CrossoverClaim::Point& point, const Claim& gain) {
  if (gain.shown == Outcome::faster || point.shown == Outcome::faster)
    point.shown = Outcome::faster;
  else if (gain.shown != Outcome::slower)
    point.shown = Outcome::inconclusive;
  if (!begins_higher(gain.ratio, point.ratio)) return;
  point.cell = gain.cell;
  point.ratio = gain.ratio;
}

void add_to(CrossoverClaim& claim, double at, const Claim& gain) {
  const auto after = std::find_if(claim.points.begin(), claim.points.end(), [&](const auto& p) { return p.at > at; });
  const bool is_known =
      claim.axis == CrossoverClaim::Axis::concurrency && after != claim.points.begin() && std::prev(after)->at == at;
  if (is_known)
    add_to(*std::prev(after), gain);
  else
    claim.points.insert(after, {.at = at, .cell = gain.cell, .ratio = gain.ratio, .shown = gain.shown});
}

/// By what the cells of each have in common.
using Sets = std::vector<std::pair<std::string, CrossoverClaim>>;

CrossoverClaim& set_of(Sets& sets, const std::string& key, const CrossoverClaim& made) {
  const auto known = std::find_if(sets.begin(), sets.end(), [&](const auto& set) { return set.first == key; });
  return known != sets.end() ? known->second : sets.emplace_back(key, made).second;
}

/// Over plain decoding of the same placement and concurrency; of closed loops.
void add_concurrency(const VerdictView& view, const Claim& gain, Sets& sets) {
  const CellResult& cell = view.cell(*gain.cell);
  if (!gain.cell->rankable || cell.load != "closed" || !view.is_over_plain_at_its_place(gain)) return;
  const std::string name = name_without_k(cell);
  CrossoverClaim& claim = set_of(sets, name, {.name = name, .over = gain.over, .points = {}});
  if (!claim.points.empty())
    claim.has_several_k |=
        view.cell(*claim.points.front().cell).axes.num_speculative_tokens != cell.axes.num_speculative_tokens;
  add_to(claim, cell.axes.concurrency, gain);
}

void add_stated(const VerdictView& view, const LoadGroup& group, const Claim& gain, Sets& sets) {
  const CellResult& cell = view.cell(*gain.cell);
  if (!cell.forced || cell.oversubscribed || !gain.cell->mean_acceptance_length) return;
  CrossoverClaim& claim = set_of(sets, asked_without(cell, kStatedLength),
                                 {.axis = CrossoverClaim::Axis::acceptance_length,
                                  .group = &group,
                                  .name = name_without_length(cell),
                                  .over = gain.over,
                                  .points = {}});
  add_to(claim, *gain.cell->mean_acceptance_length, gain);
}

}  // namespace

std::optional<std::pair<size_t, size_t>> Crossover::bracket() const {
  if (faster.empty() || slower.empty()) return std::nullopt;
  if (faster.back() < slower.front()) return std::pair(faster.back(), slower.front());
  if (slower.back() < faster.front()) return std::pair(slower.back(), faster.front());
  return std::nullopt;
}

Crossover crossover_of(std::span<const Outcome> outcomes) {
  Crossover out;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    std::vector<size_t>& points = outcomes[i] == Outcome::faster   ? out.faster
                                  : outcomes[i] == Outcome::slower ? out.slower
                                                                   : out.undecided;
    points.push_back(i);
  }
  return out;
}

std::string crossover_text(const Crossover& crossover, std::span<const std::string> names,
                           const CrossoverWords& words) {
  std::vector<std::string> claims;
  const auto add = [&](const char* claim, const std::vector<size_t>& points) {
    if (!points.empty()) claims.push_back(fmt::format("{} {}", claim, points_text(points, names, words.points)));
  };
  const bool begins_slower =
      !crossover.slower.empty() && (crossover.faster.empty() || crossover.slower.front() < crossover.faster.front());
  if (begins_slower) add(words.slower, crossover.slower);
  add(words.faster, crossover.faster);
  if (!begins_slower) add(words.slower, crossover.slower);
  std::string text = fmt::format("{}", fmt::join(claims, ", "));
  if (!crossover.undecided.empty())
    text += fmt::format("{}{} {}", text.empty() ? "is " : "; ", words.undecided,
                        points_text(crossover.undecided, names, words.points));
  return text;
}

Crossover CrossoverClaim::crossover() const {
  std::vector<Outcome> outcomes;
  for (const Point& point : points) outcomes.push_back(point.shown);
  return crossover_of(outcomes);
}

std::vector<CrossoverClaim> make_crossovers(const VerdictView& view) {
  Sets over_concurrency;
  for (const CellSummary& s : view.summary().cells)
    if (const Claim* const gain = view.claim(ClaimKind::over_plain, s)) add_concurrency(view, *gain, over_concurrency);
  std::erase_if(over_concurrency, [](const auto& set) { return set.second.points.size() < 2; });
  std::vector<CrossoverClaim> out;
  for (auto& set : over_concurrency) out.push_back(std::move(set.second));
  for (const LoadGroup& group : view.groups()) {
    Sets stated;
    for (const CellSummary* const s : group.cells)
      if (const Claim* const gain = view.claim(ClaimKind::over_plain, *s)) add_stated(view, group, *gain, stated);
    for (auto& set : stated) out.push_back(std::move(set.second));
  }
  return out;
}

std::string concurrency_text(const CrossoverClaim& claim) {
  std::vector<std::string> names;
  for (const CrossoverClaim::Point& point : claim.points)
    names.push_back(fmt::format("c={} ({:.2f}×)", int(point.at), point.ratio.ratio));
  return fmt::format("{}{} {}", claim.name, claim.has_several_k ? ", at its best k," : "",
                     crossover_text(claim.crossover(), names));
}

}  // namespace paceline
