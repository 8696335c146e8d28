#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/analysis/verdict/parts.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

/// Cells of one load, placement and k.
struct Peers {
  std::vector<std::pair<std::string, RatioInterval>> bounds, others;  // by what the proposer is called; over plain
  std::optional<double> most;                                         // gain of all drafts kept
};

/// Gain of decoding; of whole requests where that is not known.
const RatioInterval& decode_gain(const Claim& gain) { return gain.decode ? *gain.decode : gain.ratio; }

std::string sentence(const VerdictView& view, const LoadGroup& group, const std::string& place, const Peers& peers) {
  std::vector<std::string> bounds, shares;
  for (const auto& [name, gain] : peers.bounds)
    bounds.push_back(fmt::format("{} decodes at {}", name, interval_text(gain)));
  for (const auto& [name, gain] : peers.others)
    if (peers.most) shares.push_back(fmt::format("{} {:.0f} %", name, 100 * gain.ratio / *peers.most));
  std::string text =
      fmt::format("Bounds{}, {}: {}", view.has_several_loads() ? group.where() : "", place, fmt::join(bounds, ", "));
  if (!shares.empty()) text += fmt::format("; of the oracle's speed {}", fmt::join(shares, ", "));
  return text + ".";
}

}  // namespace

void add_bounds(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const LoadGroup& group : view.groups()) {
    std::vector<std::pair<std::string, Peers>> places;  // in the order of the plan
    for (const CellSummary* s : group.cells) {
      const CellResult& cell = view.cell(*s);
      if (!view.speculates(*s) || cell.oversubscribed || !(s->rankable || is_bound(cell))) continue;
      const Claim* const gain = view.claim(ClaimKind::over_plain, *s);
      if (!gain) continue;
      const std::string place =
          fmt::format("tp{} pp{} k={}", cell.axes.tp, cell.axes.pp, cell.axes.num_speculative_tokens.value_or(0));
      auto known = std::find_if(places.begin(), places.end(), [&](const auto& one) { return one.first == place; });
      if (known == places.end()) known = places.insert(places.end(), {place, {}});
      const std::string name =
          cell.axes.variant.empty() ? cell.axes.proposer : fmt::format("{} {}", cell.axes.proposer, cell.axes.variant);
      auto& list = is_bound(cell) ? known->second.bounds : known->second.others;
      list.emplace_back(name, decode_gain(*gain));
      if (is_bound(cell) && proposer_entry(cell.axes.proposer).bound == DraftBound::most_gain)
        known->second.most = decode_gain(*gain).ratio;
    }
    for (const auto& [place, peers] : places)
      if (!peers.bounds.empty()) out.push_back({VerdictKind::best, sentence(view, group, place, peers)});
  }
}

}  // namespace paceline
