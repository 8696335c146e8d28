#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "experiments/analysis/claims/pick.h"
#include "experiments/analysis/verdict/parts.h"

namespace paceline {
namespace {

constexpr size_t kMostCategories = 12;

std::string name_of(const std::string& category) { return category.empty() ? "(none)" : category; }

/// Of the cell, largest gain first.
std::string sentence(const VerdictView& view, const LoadGroup& group, const CellSummary& s) {
  std::vector<const Claim*> order;
  for (const Claim& claim : view.claims())
    if (claim.kind == ClaimKind::in_category && claim.cell == &s) order.push_back(&claim);
  if (order.size() < 2) return "";
  std::stable_sort(order.begin(), order.end(),
                   [](const Claim* a, const Claim* b) { return a->ratio.ratio > b->ratio.ratio; });
  const CellSummary& over = *order.front()->over;
  std::string text =
      fmt::format("By category{}, decoding with {}{}:", view.has_several_loads() ? group.where() : "",
                  view.marked_label(s), view.is_plain_twin(over, s) ? "" : " over " + view.reference_text(s, over));
  for (size_t i = 0; i < std::min(kMostCategories, order.size()); ++i)
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", name_of(order[i]->category), interval_text(order[i]->ratio));
  if (order.size() > kMostCategories) text += fmt::format(" and {} more", order.size() - kMostCategories);
  return text + ".";
}

/// Of each category the cell whose decoding gains most over its plain twin; empty where that is `named` everywhere.
std::string winners_text(const VerdictView& view, const LoadGroup& group, const CellSummary& named) {
  std::map<std::string, const Claim*> winners;
  std::set<std::string> proposers;
  for (const Claim& claim : view.claims()) {
    if (claim.kind != ClaimKind::in_category || !claim.cell->rankable || !group.holds(*claim.cell)) continue;
    proposers.insert(view.cell(*claim.cell).axes.proposer);
    const Claim*& winner = winners[claim.category];
    if (!winner || claim.ratio.ratio > winner->ratio.ratio) winner = &claim;
  }
  if (proposers.size() < 2 || winners.size() < 2 || winners.size() > kMostCategories) return "";
  if (std::all_of(winners.begin(), winners.end(), [&](const auto& each) { return each.second->cell == &named; }))
    return "";
  std::string text;
  for (const auto& [category, winner] : winners)
    text += fmt::format("{} {} {} {}", text.empty() ? "" : ",", name_of(category), view.marked_label(*winner->cell),
                        interval_text(winner->ratio));
  return fmt::format("Largest gain of decoding in each category{}:{}.", view.has_several_loads() ? group.where() : "",
                     text);
}

}  // namespace

void add_categories(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const LoadGroup& group : view.groups()) {
    const CellSummary* best = best_of(view, group, PickKind::throughput, Among::speculative);
    if (!best) best = best_of(view, group, PickKind::latency, Among::speculative);
    if (!best) continue;
    if (std::string text = sentence(view, group, *best); !text.empty())
      out.push_back({VerdictKind::best, std::move(text)});
    if (std::string text = winners_text(view, group, *best); !text.empty())
      out.push_back({VerdictKind::best, std::move(text)});
  }
}

}  // namespace paceline
