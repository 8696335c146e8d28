#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "experiments/analysis/verdict/parts.h"

namespace paceline {
namespace {

/// A speculative cell with its gain.
struct Judged {
  const CellSummary* cell = nullptr;
  Claim gain;
};

/// Cells of a proposer under one load, and whether all are shown to be slower.
struct OfProposer {
  Judged best;     // of the highest lower bound; without intervals the largest estimate
  Judged largest;  // estimate
  bool all_slower = true;

  void add(const Judged& judged) {
    all_slower &= judged.gain.shown == Outcome::slower;
    if (!largest.cell || judged.gain.ratio.ratio > largest.gain.ratio.ratio) largest = judged;
    if (!best.cell || begins_higher(judged.gain.ratio, best.gain.ratio)) best = judged;
  }
};

/// What a decode pass costs, and the acceptance at which the cell would decode as fast as its reference.
std::string cost_text(const VerdictView& view, const CellSummary& s, const Claim& gain) {
  const std::optional<double> ratio = decode_pass_ratio(s, *gain.over);
  if (!ratio) return "";
  std::string text = fmt::format(
      "; a decode pass takes {:.2f}× {}", *ratio,
      view.is_plain_twin(*gain.over, s) ? "a plain one's time" : "the time of one of " + view.label(*gain.over));
  const std::optional<int>& k = view.cell(s).axes.num_speculative_tokens;
  const std::optional<double> needed = break_even_length(s, *gain.over);
  if (!needed || !s.mean_acceptance_length || !k) return text;
  if (*needed <= 1) {
    text += ", so for decoding to break even any acceptance would do";
  } else {
    text += fmt::format(", so decoding breaks even at {:.2f} tokens per drafted step, bonus included", *needed);
    if (*needed > *k + 1) text += fmt::format(" (at most k + 1 = {})", *k + 1);
  }
  text += fmt::format("; measured {:.2f}", *s.mean_acceptance_length);
  if (s.draft_coverage && *s.draft_coverage < 0.995)
    text += fmt::format(", with drafts in {} of steps", percent_text(*s.draft_coverage));
  return text;
}

/// The cell that the sentence is about. Where another one has the largest estimate, both are named and said apart: that
/// one leads the charts and tables.
std::string subject_text(const VerdictView& view, const OfProposer& of) {
  const std::string name = view.marked_label(*of.best.cell);
  if (of.largest.cell == of.best.cell) return "its best cell, " + name + ",";
  return fmt::format("its best cell by the lower end of its interval, {},", name);
}

std::string largest_text(const VerdictView& view, const OfProposer& of) {
  if (of.largest.cell == of.best.cell) return "";
  return fmt::format("; the largest estimate, {} at {}, is {}", view.marked_label(*of.largest.cell),
                     interval_text(of.largest.gain.ratio), to_string(of.largest.gain.shown));
}

/// What the proposer fails to do. Where the table compares with another placement it says so: the row may be faster.
std::string claim_text(const VerdictView& view, const OfProposer& of) {
  const bool as_in_table = of.best.gain.over == view.baseline_of(*of.best.cell);
  const std::string than = as_in_table ? "" : " than the same placement without it";
  return of.all_slower ? (as_in_table ? "does not pay" : "is slower" + than) : "is not shown to be faster" + than;
}

std::string sentence(const VerdictView& view, const LoadGroup& group, const std::string& proposer,
                     const OfProposer& of) {
  const CellSummary& s = *of.best.cell;
  const Claim& gain = of.best.gain;
  std::string text =
      fmt::format("{} {}{}: {} is at {} over {}", proposer, claim_text(view, of),
                  view.has_several_loads() ? group.where() : "", subject_text(view, of), interval_text(gain.ratio),
                  view.whole_over_text(s, *gain.over, gain.decode, gain.far_apart_s));
  if (const std::string why = view.not_shown_text(gain); !why.empty()) text += "; " + why;
  text += largest_text(view, of) + cost_text(view, s, gain);
  if (const std::string phase = costliest_phase(s); !phase.empty()) text += "; " + phase;
  return text + ".";
}

/// Those without a cell that is shown to be faster.
std::map<std::string, OfProposer> losers_of(const VerdictView& view, const LoadGroup& group) {
  std::map<std::string, OfProposer> proposers;
  for (const CellSummary* s : group.cells) {
    if (!s->rankable || !view.speculates(*s)) continue;
    if (const Claim* const gain = view.claim(ClaimKind::over_plain, *s))
      proposers[view.cell(*s).axes.proposer].add({s, *gain});
  }
  std::erase_if(proposers, [](const auto& each) { return each.second.best.gain.shown == Outcome::faster; });
  return proposers;
}

}  // namespace

bool is_told_of_as_not_paying(const VerdictView& view, const LoadGroup& group, const CellSummary& s) {
  const std::map<std::string, OfProposer> losers = losers_of(view, group);
  return std::any_of(losers.begin(), losers.end(), [&](const auto& each) { return each.second.best.cell == &s; });
}

void add_pays_not(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const LoadGroup& group : view.groups())
    for (const auto& [proposer, of] : losers_of(view, group))
      out.push_back({VerdictKind::pays_not, sentence(view, group, proposer, of)});
}

}  // namespace paceline
