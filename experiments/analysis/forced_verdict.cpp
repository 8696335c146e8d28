#include "experiments/analysis/forced_verdict.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "experiments/analysis/crossover.h"

namespace paceline {
namespace {

/// A cell of stated acceptance with its gain.
struct Forced {
  const CellSummary* cell = nullptr;
  Claim gain;
  double length() const { return *cell->mean_acceptance_length; }
};

std::string at_text(const Forced& f) {
  return fmt::format("{:.2f} ({}{})", f.length(), interval_text(f.gain.ratio),
                     f.cell->noise.empty() ? "" : ", disturbed");
}

/// Equal for cells that differ in the stated length only.
std::string asked_otherwise(const CellResult& cell) {
  nlohmann::json asked = cell.requested;
  const nlohmann::json::json_pointer stated("/speculation/synthetic");
  if (asked.is_object() && asked.contains(stated) && asked[stated].is_object())
    asked[stated].erase("acceptance_length");
  return fmt::format("{} tp{} pp{} {} {}", asked.dump(), cell.axes.tp, cell.axes.pp, cell.axes.proposer,
                     cell.axes.num_speculative_tokens.value_or(0));
}

/// Without the stated length.
std::string name_of(const CellResult& cell) {
  CellAxes axes = cell.axes;
  axes.concurrency = 0;
  axes.variant.clear();
  std::istringstream words(cell.axes.variant);
  for (std::string word; words >> word;) {
    if (!word.starts_with("acceptance_length=")) axes.variant += (axes.variant.empty() ? "" : " ") + word;
  }
  return axes_label(axes);
}

/// What is shown of `cells`, of one place and k, by their acceptance length. They bracket the break-even only where all
/// that are shown to be slower lie below all that are shown to be faster.
std::string crossing(const std::vector<Forced>& cells) {
  std::vector<Outcome> outcomes;
  std::vector<std::string> names;
  for (const Forced& f : cells) {
    outcomes.push_back(f.gain.shown);
    names.push_back(at_text(f));
  }
  const Crossover crossover = crossover_of(outcomes);
  if (crossover.slower.size() == cells.size())
    return "is not faster at any acceptance length measured, up to " + names.back();
  if (crossover.faster.size() == cells.size())
    return "is faster from the smallest acceptance length measured on, " + names.front();
  const auto bracket = crossover.bracket();
  if (bracket && outcomes[bracket->first] == Outcome::slower)
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
  for (const LoadGroup& group : view.groups()) {
    std::vector<std::pair<std::string, std::vector<Forced>>> sets;  // in the order of the plan
    for (const CellSummary* s : group.cells) {
      const CellResult& cell = view.cell(*s);
      if (!cell.forced || cell.oversubscribed || !s->mean_acceptance_length) continue;
      const Claim* const gain = view.claim(ClaimKind::over_plain, *s);
      if (!gain) continue;
      const std::string asked = asked_otherwise(cell);
      auto known = std::find_if(sets.begin(), sets.end(), [&](const auto& entry) { return entry.first == asked; });
      if (known == sets.end()) known = sets.insert(sets.end(), {asked, {}});
      known->second.push_back({s, *gain});
    }
    for (auto& [asked, cells] : sets) {
      std::stable_sort(cells.begin(), cells.end(),
                       [](const Forced& a, const Forced& b) { return a.length() < b.length(); });
      const Forced& one = cells.front();
      const std::string over = view.is_plain_twin(*one.gain.over, *one.cell)
                                   ? ""
                                   : " over " + view.reference_text(*one.cell, *one.gain.over);
      out.push_back({VerdictKind::best,
                     fmt::format("With stated acceptance{}, {}{} {}.", view.has_several_loads() ? group.where() : "",
                                 name_of(view.cell(*one.cell)), over, crossing(cells))});
    }
  }
}

}  // namespace paceline
