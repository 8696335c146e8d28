#include <fmt/format.h>

#include "experiments/analysis/claims/crossover.h"
#include "experiments/analysis/verdict/parts.h"

namespace paceline {
namespace {

std::string at_text(const CrossoverClaim::Point& point) {
  return fmt::format("{:.2f} ({}{})", point.at, interval_text(point.ratio),
                     point.cell->noise.empty() ? "" : ", disturbed");
}

/// Points bracket the break-even only where all that are shown to be slower lie below all that are shown to be faster.
std::string crossing(const CrossoverClaim& claim) {
  std::vector<std::string> names;
  for (const CrossoverClaim::Point& point : claim.points) names.push_back(at_text(point));
  const Crossover crossover = claim.crossover();
  if (crossover.slower.size() == names.size())
    return "is not faster at any acceptance length measured, up to " + names.back();
  if (crossover.faster.size() == names.size())
    return "is faster from the smallest acceptance length measured on, " + names.front();
  const auto bracket = crossover.bracket();
  if (bracket && claim.points[bracket->first].shown == Outcome::slower)
    return fmt::format("breaks even between the acceptance lengths {} and {}", names[bracket->first],
                       names[bracket->second]);
  return "does not show at which acceptance length it breaks even: it " +
         crossover_text(crossover, names,
                        {.faster = "is faster at",
                         .slower = "is slower at",
                         .undecided = "not shown to be faster or slower at",
                         .points = "lengths"});
}

}  // namespace

void add_forced(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const CrossoverClaim& claim : view.crossovers()) {
    if (claim.axis != CrossoverClaim::Axis::acceptance_length) continue;
    const CellSummary& one = *claim.points.front().cell;
    const std::string over =
        view.is_plain_twin(*claim.over, one) ? "" : " over " + view.reference_text(one, *claim.over);
    out.push_back({VerdictKind::best, fmt::format("With stated acceptance{}, {}{} {}.",
                                                  view.has_several_loads() ? claim.group->where() : "", claim.name,
                                                  over, crossing(claim))});
  }
}

}  // namespace paceline
