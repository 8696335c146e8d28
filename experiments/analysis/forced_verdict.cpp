#include "experiments/analysis/forced_verdict.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

namespace paceline {
namespace {

/// A cell of forced acceptance with its gain.
struct Forced {
  const CellSummary* cell = nullptr;
  SpeculationGain gain;
  double length() const { return *cell->mean_acceptance_length; }
};

std::string at_text(const Forced& f) {
  return fmt::format("{:.2f} ({}{})", f.length(), interval_text(f.gain.ratio),
                     f.cell->noise.empty() ? "" : ", disturbed");
}

/// Equal for cells that differ in the forced length only.
std::string asked_otherwise(const CellResult& cell) {
  nlohmann::json asked = cell.requested;
  if (asked.is_object() && asked.contains("speculation") && asked["speculation"].is_object())
    asked["speculation"].erase("forced_acceptance");
  return fmt::format("{} tp{} pp{} {} {}", asked.dump(), cell.axes.tp, cell.axes.pp, cell.axes.proposer,
                     cell.axes.num_speculative_tokens.value_or(0));
}

/// Without the forced length.
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
  const auto shown = [](Outcome outcome) { return [outcome](const Forced& f) { return f.gain.outcome == outcome; }; };
  const auto first_faster = std::find_if(cells.begin(), cells.end(), shown(Outcome::faster));
  const auto last_slower = std::find_if(cells.rbegin(), cells.rend(), shown(Outcome::slower));
  const bool any_faster = first_faster != cells.end(), any_slower = last_slower != cells.rend();
  const auto count = [&](Outcome outcome) { return size_t(std::count_if(cells.begin(), cells.end(), shown(outcome))); };
  if (count(Outcome::slower) == cells.size())
    return "is not faster at any acceptance length measured, up to " + at_text(cells.back());
  if (count(Outcome::faster) == cells.size())
    return "is faster from the smallest acceptance length measured on, " + at_text(cells.front());
  if (any_faster && any_slower && last_slower->length() < first_faster->length())
    return fmt::format("breaks even between the acceptance lengths {} and {}", at_text(*last_slower),
                       at_text(*first_faster));
  const std::string text = "shows no bracket of its break-even: ";
  if (any_faster && any_slower)
    return text + fmt::format("it is faster at {} and slower at {}", at_text(*first_faster), at_text(*last_slower));
  if (any_faster) return text + fmt::format("it is faster at {}, and slower at no length", at_text(*first_faster));
  if (any_slower) return text + fmt::format("it is slower at {}, and faster at no length", at_text(*last_slower));
  if (cells.size() == 1) return text + "it is not shown to be faster or slower at " + at_text(cells.front());
  return text + fmt::format("no length from {} to {} is shown to be faster or slower", at_text(cells.front()),
                            at_text(cells.back()));
}

}  // namespace

void add_forced(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const LoadGroup& group : view.groups()) {
    std::vector<std::pair<std::string, std::vector<Forced>>> sets;  // in the order of the plan
    for (const CellSummary* s : group.cells) {
      const CellResult& cell = view.cell(*s);
      if (!cell.forced || cell.oversubscribed || !s->mean_acceptance_length) continue;
      const std::optional<SpeculationGain> gain = view.gain_of_speculation(*s);
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
                     fmt::format("With forced acceptance{}, {}{} {}.", view.has_several_loads() ? group.where() : "",
                                 name_of(view.cell(*one.cell)), over, crossing(cells))});
    }
  }
}

}  // namespace paceline
