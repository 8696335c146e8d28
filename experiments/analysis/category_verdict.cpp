#include "experiments/analysis/category_verdict.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "experiments/analysis/open_loop_verdict.h"

namespace paceline {
namespace {

constexpr size_t kMostCategories = 12;

std::string sentence(const VerdictView& view, const LoadGroup& group, const CellSummary& s) {
  const CellSummary* const over = view.reference_of(s);
  if (!over || s.categories.empty()) return "";
  std::vector<CategorySummary> order = summarize_categories(view.cell(s), &view.cell(*over));
  std::erase_if(order, [](const CategorySummary& c) { return !c.decode_speedup; });
  if (order.size() < 2) return "";
  std::stable_sort(order.begin(), order.end(), [](const CategorySummary& a, const CategorySummary& b) {
    return a.decode_speedup->ratio > b.decode_speedup->ratio;
  });
  std::string text =
      fmt::format("By category{}, decoding with {}{}:", view.has_several_loads() ? group.where() : "",
                  view.marked_label(s), view.is_plain_twin(*over, s) ? "" : " over " + view.reference_text(s, *over));
  for (size_t i = 0; i < std::min(kMostCategories, order.size()); ++i)
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", order[i].category.empty() ? "(none)" : order[i].category,
                        interval_text(*order[i].decode_speedup));
  if (order.size() > kMostCategories) text += fmt::format(" and {} more", order.size() - kMostCategories);
  return text + ".";
}

/// Of a category, the cell whose decoding gains most over its plain twin.
struct Winner {
  const CellSummary* cell = nullptr;
  RatioInterval speedup;
};

std::string winners_text(const VerdictView& view, const LoadGroup& group) {
  std::map<std::string, Winner> winners;
  std::set<std::string> proposers;
  for (const CellSummary* s : group.cells) {
    const CellSummary* const over = s->rankable && view.speculates(*s) ? view.reference_of(*s) : nullptr;
    if (!over || s->categories.empty()) continue;
    proposers.insert(view.cell(*s).axes.proposer);
    for (const CategorySummary& of : summarize_categories(view.cell(*s), &view.cell(*over))) {
      Winner& winner = winners[of.category];
      if (of.decode_speedup && (!winner.cell || of.decode_speedup->ratio > winner.speedup.ratio))
        winner = {s, *of.decode_speedup};
    }
  }
  if (proposers.size() < 2 || winners.size() < 2 || winners.size() > kMostCategories) return "";
  std::string text;
  for (const auto& [category, winner] : winners)
    if (winner.cell)
      text += fmt::format("{} {} {} {}", text.empty() ? "" : ",", category.empty() ? "(none)" : category,
                          view.marked_label(*winner.cell), interval_text(winner.speedup));
  return fmt::format("Largest gain of decoding in each category{}:{}.", view.has_several_loads() ? group.where() : "",
                     text);
}

}  // namespace

void add_categories(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const LoadGroup& group : view.groups()) {
    const CellSummary* best = view.fastest(group, Among::speculative);
    if (!best) best = lowest_latency(view, group, Among::speculative);
    if (!best) continue;
    if (std::string text = sentence(view, group, *best); !text.empty())
      out.push_back({VerdictKind::best, std::move(text)});
    if (std::string text = winners_text(view, group); !text.empty())
      out.push_back({VerdictKind::best, std::move(text)});
  }
}

}  // namespace paceline
