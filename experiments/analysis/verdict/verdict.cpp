#include "experiments/analysis/verdict/verdict.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/util/counted.h"
#include "experiments/analysis/statistics/significance.h"
#include "experiments/analysis/verdict/parts.h"
#include "experiments/analysis/verdict/sentence.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

std::string repetitions_text(const CellSummary& s) {
  return s.repetitions < kFewestRepetitions ? ", " + counted(s.repetitions, "repetition") : "";
}

int64_t num_ranked_drafting(const VerdictView& view, const LoadGroup& group) {
  return std::ranges::count_if(
      group.cells, [&](const CellSummary* s) { return VerdictView::ranks_by_rate(*s) && view.speculates(*s); });
}

std::string over_text(const VerdictView& view, const CellSummary& cell) {
  const Claim* const row = view.claim(ClaimKind::over_baseline, cell);
  return row ? fmt::format(", {} over {}", interval_text(row->ratio), view.reference_text(cell, *row->over)) : "";
}

/// ", measured 4 min apart, not paired"
std::string apart_text(const VerdictView& view, const CellSummary& cell) {
  const Claim* const row = view.claim(ClaimKind::over_baseline, cell);
  return row && row->far_apart_s ? ", " + baseline_time_text(*row->far_apart_s) : "";
}

/// Behind reference_text(), where that names no cell.
std::string place_text(const VerdictView& view, const CellSummary& cell, const CellSummary& reference) {
  return view.speculates(cell) && view.is_plain_twin(reference, cell) ? " in the same placement" : "";
}

/// As place_text(), behind over_text().
std::string place_of_over_text(const VerdictView& view, const CellSummary& cell) {
  const Claim* const row = view.claim(ClaimKind::over_baseline, cell);
  return row ? place_text(view, cell, *row->over) : "";
}

/// Where rows of speculative cells say "faster" by themselves: why no sentence does. Else nothing.
std::string correction_text(const VerdictView& view, const LoadGroup& group) {
  for (const Claim& claim : view.claims()) {
    const bool is_gain = claim.kind == &ClaimKind::over_baseline || claim.kind == &ClaimKind::over_plain;
    const CellSummary& s = *claim.cell;
    if (is_gain && claim.outcome == Outcome::faster && claim.adjusted_p.value_or(0) >= kFalseClaims && group.holds(s) &&
        VerdictView::ranks_by_rate(s) && view.speculates(s))
      return fmt::format(" after correction for the run's {}", counted(claim.among, "comparison"));
  }
  return "";
}

/// The fastest of those that are shown to be faster than what they are judged against; null: none is, or what does not
/// speculate is faster, as in another placement.
const CellSummary* fastest_shown(const VerdictView& view, const LoadGroup& group) {
  const CellSummary *fastest = nullptr, *const plain = best_of(view, group, PickKind::throughput, Among::plain);
  for (const CellSummary* const cell : group.cells) {
    const Claim* const row = view.claim(ClaimKind::over_baseline, *cell);
    if (row && row->shown == Outcome::faster && VerdictView::ranks_by_rate(*cell) &&
        (!fastest || *cell->output_tok_s > *fastest->output_tok_s))
      fastest = cell;
  }
  return fastest && plain && *plain->output_tok_s > *fastest->output_tok_s ? nullptr : fastest;
}

std::string fastest_text(const VerdictView& view, const Pick& pick) {
  const CellSummary& best = pick.best();
  const std::string where = view.where(*pick.group);
  const Claim* const row = view.claim(ClaimKind::over_baseline, best);
  const std::string over = over_text(view, best), place = place_of_over_text(view, best);
  const int64_t drafting = num_ranked_drafting(view, *pick.group);
  if (leads_by_chance(view, pick)) {
    Sentence sentence(fmt::format("No speculative cell{}{} is significantly faster{}", where,
                                  drafting > 1 ? fmt::format(" (of {} ranked)", drafting) : "",
                                  correction_text(view, *pick.group)));
    return sentence.add("; highest tok/s: " + view.marked_label(best))
        .add(over, place)
        .add(apart_text(view, best))
        .add(repetitions_text(best))
        .text();
  }
  const CellSummary* const shown =
      row && row->shown == Outcome::inconclusive ? fastest_shown(view, *pick.group) : nullptr;
  if (shown)
    return Sentence(fmt::format("Fastest significant gain{}: {}, {:.1f} tok/s", where, view.marked_label(*shown),
                                *shown->output_tok_s))
        .add(over_text(view, *shown), place_of_over_text(view, *shown))
        .add(apart_text(view, *shown))
        .add(repetitions_text(*shown))
        .add(fmt::format("; {} may be faster", view.marked_label(best)))
        .text();
  Sentence sentence(fmt::format("Fastest{}: {}, {:.1f} tok/s", where, view.marked_label(best), *best.output_tok_s));
  sentence.add(over, place).add(apart_text(view, best)).add(repetitions_text(best));
  if (row && row->shown == Outcome::inconclusive)
    sentence.add("; that gain is not significant",
                 row->outcome == Outcome::faster ? correction_text(view, *pick.group) : "");
  if (!view.speculates(best) && drafting > 0)
    sentence.add(fmt::format("; no speculative cell{} {} faster", view.summary().finished() ? "" : " that ran",
                             may_be_beaten_by_drafts(view, pick) ? "is significantly" : "is"));
  return sentence.add(ties_text(pick)).text();
}

/// The pick of whose best cell the headline speaks: that under which load speculation gains most, by the lower end,
/// else the first; null without closed loops that are ranked.
const Pick* telling_pick(const VerdictView& view) {
  const Pick* best = nullptr;
  const Claim* gain_of_best = nullptr;
  for (const Pick& pick : view.picks()) {
    if (pick.kind != PickKind::throughput) continue;
    const Claim* const gain = view.claim(ClaimKind::over_plain, pick.best());
    const bool is_shown = gain && gain->shown == Outcome::faster;
    if (!best || (is_shown && (!gain_of_best || begins_higher(gain->ratio, gain_of_best->ratio)))) {
      best = &pick;
      gain_of_best = is_shown ? gain : nullptr;
    }
  }
  return best;
}

using Texts = std::vector<std::string>;

/// Another load that is ranked by rate, whose best cell is of another kind than the telling pick's: who serves one load
/// would serve the other in another way. Null: there is none, or it leads by chance.
const Pick* other_pick(const VerdictView& view) {
  const Pick* const telling = telling_pick(view);
  if (!telling) return nullptr;
  for (const Pick& pick : view.picks())
    if (pick.kind == PickKind::throughput && &pick != telling && !leads_by_chance(view, pick) &&
        view.label(pick.best()) != view.label(telling->best()))
      return &pick;
  return nullptr;
}

/// For each load that is ranked by rate the best cell, that of the telling pick first; that of the other pick is not
/// among them. Nothing of one that leads by chance but that: what its proposers do not show is said of each.
Texts fastest_texts(const VerdictView& view) {
  Texts texts;
  const Pick *const telling = telling_pick(view), *const other = other_pick(view);
  if (telling) texts.push_back(fastest_text(view, *telling));
  for (const Pick& pick : view.picks())
    if (pick.kind == PickKind::throughput && &pick != telling && &pick != other && !leads_by_chance(view, pick))
      texts.push_back(fastest_text(view, pick));
  return texts;
}

/// Over concurrency.
Texts crossover_texts(const VerdictView& view, bool decided) {
  Texts texts;
  for (const CrossoverClaim& claim : view.crossovers())
    if (claim.axis == CrossoverClaim::Axis::concurrency && claim.is_decided() == decided)
      texts.push_back(Sentence(crossover_text(claim)).text());
  return texts;
}

/// For each plain cell of one rank its twins of several.
Texts scaling_texts(const VerdictView& view) {
  nlohmann::ordered_map<const CellSummary*, std::vector<const Claim*>> by_twin;
  for (const Claim& claim : view.claims())
    if (claim.kind == &ClaimKind::over_one_rank && !view.speculates(*claim.cell) && claim.cell->rankable)
      by_twin[claim.over].push_back(&claim);
  Texts texts;
  for (const auto& [one, claims] : by_twin) {
    const CellAxes& axes = view.cell(*one).axes;
    const bool is_named = by_twin.size() > 1 && !axes.variant.empty();
    const bool has_loads = view.groups().size() > 1 && axes.concurrency > 0;
    Sentence sentence(
        fmt::format("Without speculation{}{}, tok/s relative to one rank:", is_named ? ", " + axes.variant : "",
                    has_loads ? fmt::format(" at concurrency {}", axes.concurrency) : ""));
    for (const Claim* const claim : claims) {
      const CellAxes& ranks = view.cell(*claim->cell).axes;
      sentence.add(fmt::format("{} tp{} pp{} {}", claim == claims.front() ? "" : ",", ranks.tp, ranks.pp,
                               interval_text(claim->ratio)));
    }
    texts.push_back(sentence.text());
  }
  return texts;
}

/// The ranked cells of a proposer over their plain twins.
struct OfProposer {
  const Claim* best = nullptr;  // of the highest lower bound: the largest estimate may be the noisiest
  const Claim* gain = nullptr;  // of those that are shown, likewise; null: none is
  bool all_slower = true;
};

/// Of cells under one load; null: under all.
nlohmann::ordered_map<std::string, OfProposer> proposers_of(const VerdictView& view, const LoadGroup* group) {
  nlohmann::ordered_map<std::string, OfProposer> proposers;
  for (const Claim& claim : view.claims()) {
    if (claim.kind != &ClaimKind::over_plain || !claim.cell->rankable || (group && !group->holds(*claim.cell)))
      continue;
    OfProposer& of = proposers[view.cell(*claim.cell).axes.proposer];
    of.all_slower &= claim.shown == Outcome::slower;
    if (!of.best || begins_higher(claim.ratio, of.best->ratio)) of.best = &claim;
    if (claim.shown == Outcome::faster && (!of.gain || begins_higher(claim.ratio, of.gain->ratio))) of.gain = &claim;
  }
  return proposers;
}

/// Of a proposer none of whose cells is shown to be faster.
std::string_view loss_of(const VerdictView& view, const OfProposer& of) {
  if (!of.all_slower) return "is not significantly faster";
  return of.best->over == view.baseline_of(*of.best->cell) ? "does not pay" : "is slower";
}

/// The first of the plan whose cells are all not shown to be faster, though another proposer may be; not one whose best
/// cell is said to lead by chance.
std::string loser_text(const VerdictView& view) {
  const auto proposers = proposers_of(view, nullptr);
  if (proposers.size() < 2) return "";
  for (const auto& [proposer, of] : proposers) {
    const CellSummary* const best = of.best->cell;
    const bool is_said = std::ranges::any_of(view.picks(), [&](const Pick& pick) {
      return pick.kind == PickKind::throughput && &pick.best() == best && leads_by_chance(view, pick);
    });
    if (of.gain || is_said || !of.best->ratio.low) continue;  // one repetition shows nothing of anyone
    const auto group = std::ranges::find_if(view.groups(), [&](const LoadGroup& each) { return each.holds(*best); });
    return Sentence(fmt::format("{} {}", proposer, loss_of(view, of)))
        .add(fmt::format("; best cell by the lower end of its interval{}: {}, {}",
                         group == view.groups().end() ? "" : view.where(*group), view.marked_label(*best),
                         interval_text(of.best->ratio)))
        .text();
  }
  return "";
}

/// Where the best for a user or a device is another than the fastest.
std::string choice_text(const VerdictView& view) {
  const Pick* const fastest = telling_pick(view);
  if (!fastest) return "";
  const Pick* const user = view.pick(PickKind::latency, *fastest->group);
  const Pick* const device = view.pick(PickKind::per_device, *fastest->group);
  Texts parts;
  if (user && &user->best() != &fastest->best())
    parts.push_back(fmt::format("for a user who waits (1000 / median TPOT): {}, {:.1f} tok/s", view.label(user->best()),
                                1000 / user->value));
  if (device && &device->best() != &fastest->best())
    parts.push_back(fmt::format("per device: {}, {:.1f} tok/s", view.label(device->best()), device->value));
  return parts.empty() ? "" : Sentence(fmt::format("Highest estimate {}", fmt::join(parts, "; "))).text();
}

/// The acceptance at which the cell would decode as fast as its reference, and what it has.
std::string break_even_text(const VerdictView& view, const Claim& gain) {
  const CellSummary& s = *gain.cell;
  const std::optional<double> needed = break_even_length(s, *gain.over);
  const std::optional<int>& k = view.cell(s).axes.num_speculative_tokens;
  if (!needed || !s.mean_acceptance_length || !k) return "";
  const std::optional<RatioInterval>& decode = gain.decode ? gain.decode : s.decode_speedup;
  const bool is_slower = decode && decode->ratio < 1;
  const double with_prompts = s.passes ? 1 - s.passes->decode.share : 0;
  // TPOT holds the passes that also compute other requests' prompts, the break-even those that only decode.
  const std::string but = is_slower && with_prompts > 0
                              ? fmt::format(" in passes that only decode; those with prompts take {} of the time",
                                            percent_text(with_prompts))
                              : "";
  if (*needed <= 1) return fmt::format(" Decode alone breaks even at any acceptance{}.", but);
  return fmt::format(" Decode alone needs AL {:.2f}{} to break even; measured: {:.2f}{}.", *needed,
                     *needed > *k + 1 ? fmt::format(" (more than k + 1 = {})", *k + 1) : "", *s.mean_acceptance_length,
                     *s.mean_acceptance_length > *needed ? but : "");
}

/// For each load the proposers without a cell that is shown to be faster. Where the table compares with another
/// placement the sentence says so: the row may be faster.
Texts losers_texts(const VerdictView& view) {
  Texts texts;
  for (const LoadGroup& group : view.groups())
    for (const auto& [proposer, of] : proposers_of(view, &group)) {
      if (of.gain) continue;
      const CellSummary &best = *of.best->cell, &over = *of.best->over;
      const bool is_twin = view.is_plain_twin(over, best), is_row = &over == view.baseline_of(best);
      const std::string why = view.not_shown_text(*of.best);
      texts.push_back(fmt::format("{} {}{}{}. Best cell by the lower end of its interval: {}, {}{}{}.{}", proposer,
                                  loss_of(view, of), is_row ? "" : " than no speculation in the same placement",
                                  view.where(group), view.marked_label(best), interval_text(of.best->ratio),
                                  is_twin ? "" : " over " + view.marked_label(over), why.empty() ? "" : "; " + why,
                                  break_even_text(view, *of.best)));
    }
  return texts;
}

/// For each load whose fastest cell is not shown to gain: the proposers that do, with another cell.
Texts gainers_texts(const VerdictView& view) {
  Texts texts;
  for (const LoadGroup& group : view.groups()) {
    const Pick* const fastest = view.pick(PickKind::throughput, group);
    if (fastest && std::ranges::any_of(view.claims(), [&](const Claim& claim) {
          return claim.kind == &ClaimKind::over_plain && claim.cell == &fastest->best() &&
                 claim.shown == Outcome::faster;
        }))
      continue;
    for (const auto& [proposer, of] : proposers_of(view, &group)) {
      if (!of.gain) continue;
      const bool is_twin = view.is_plain_twin(*of.gain->over, *of.gain->cell);
      const CellSummary* const plain = best_of(view, group, PickKind::throughput, Among::plain);
      const bool is_beaten = plain && *plain->output_tok_s > *of.gain->cell->output_tok_s;
      texts.push_back(fmt::format(
          "{} is significantly faster{} with {}: {} over {}{}.", proposer, view.where(group),
          view.marked_label(*of.gain->cell), interval_text(of.gain->ratio),
          is_twin ? "no speculation in the same placement" : view.marked_label(*of.gain->over),
          !is_beaten ? ""
                     : fmt::format("; but {:.1f} tok/s, and {} has {:.1f} without", *of.gain->cell->output_tok_s,
                                   view.marked_label(*plain), *plain->output_tok_s)));
    }
  }
  return texts;
}

/// What of the best cell's gain is speculation's, where its row is over another placement.
Texts source_texts(const VerdictView& view) {
  Texts texts;
  for (const Pick& pick : view.picks()) {
    const CellSummary &best = pick.best(), *const base = view.baseline_of(best);
    if (pick.kind != PickKind::throughput || !view.speculates(best) || leads_by_chance(view, pick)) continue;
    const CellSummary* const plain = best_of(view, *pick.group, PickKind::throughput, Among::plain);
    Texts parts;
    if (const CellSummary* const twin = view.reference_of(best); twin && twin != base && twin != plain)
      if (const auto gain = view.rate_over(best, *twin))
        parts.push_back(fmt::format("{} over {}{}", interval_text(*gain), view.reference_text(best, *twin),
                                    place_text(view, best, *twin)));
    if (plain && plain != base)
      if (const auto gain = view.rate_over(best, *plain))
        parts.push_back(fmt::format("{} over the fastest cell with no speculation, {}", interval_text(*gain),
                                    view.marked_label(*plain)));
    if (!parts.empty()) texts.push_back(fmt::format("{} is at {}.", view.marked_label(best), fmt::join(parts, ", ")));
  }
  return texts;
}

/// The cells that are not shown to be worse than the best one, by name, and how many of those that draft are ranked.
Texts ties_texts(const VerdictView& view) {
  Texts texts;
  for (const Pick& pick : view.picks()) {
    const bool is_rate = pick.kind == PickKind::throughput, is_good = pick.kind == PickKind::goodput;
    if (!is_rate && !is_good && !(pick.kind == PickKind::latency && pick.best().open_loop)) continue;
    const std::string where = view.where(*pick.group);
    if (pick.cells.size() > 1 && !(is_rate && leads_by_chance(view, pick)) && pick.value > 0)
      texts.push_back(fmt::format("Not significantly different in {} from {}{}: {}.",
                                  is_rate   ? "tok/s"
                                  : is_good ? "good requests"
                                            : "latency",
                                  view.marked_label(pick.best()), where,
                                  view.labels({pick.cells.begin() + 1, pick.cells.end()})));
    if (!is_rate || view.speculates(pick.best())) continue;
    const int64_t ranked = num_ranked_drafting(view, *pick.group);
    const int64_t planned = std::ranges::count_if(pick.group->cells, [&](const CellSummary* s) {
      return view.speculates(*s) && (view.cell(*s).status != CellStatus::skipped || view.cell(*s).not_run);
    });
    if (ranked < planned)
      texts.push_back(fmt::format("Ranked{}: {} of {}.", where, ranked, counted(planned, "speculative cell")));
  }
  return texts;
}

/// How good drafts would have to be: at which stated acceptance lengths speculation pays.
Texts stated_texts(const VerdictView& view) {
  Texts texts;
  for (const CrossoverClaim& claim : view.crossovers()) {
    if (claim.axis != CrossoverClaim::Axis::acceptance_length) continue;
    const bool is_twin = view.is_plain_twin(*claim.over, *claim.points.front().cell);
    texts.push_back(fmt::format("With stated acceptance{}{}, {}.", view.where(*claim.group),
                                is_twin ? "" : ", over " + view.marked_label(*claim.over), crossover_text(claim)));
  }
  return texts;
}

/// For each load, placement and k with a bound (is_bound()): which part of the speed of decoding when all drafts are
/// kept the ranked proposers have.
Texts bounds_texts(const VerdictView& view) {
  struct Peers {
    Texts bounds;
    std::vector<std::pair<std::string, double>> others;  // gain of decoding over plain, else of whole requests
    std::optional<double> most;                          // of all drafts kept
  };
  Texts texts;
  for (const LoadGroup& group : view.groups()) {
    nlohmann::ordered_map<std::string, Peers> places;
    for (const CellSummary* const s : group.cells) {
      const CellResult& cell = view.cell(*s);
      const Claim* const gain = view.claim(ClaimKind::over_plain, *s);
      if (!gain || cell.oversubscribed || !(s->rankable || is_bound(cell))) continue;
      const RatioInterval& ratio = gain->decode ? *gain->decode : gain->ratio;
      const CellAxes& axes = cell.axes;
      Peers& peers = places[fmt::format("tp{} pp{} k={}", axes.tp, axes.pp, axes.num_speculative_tokens.value_or(0))];
      const std::string name = axes.variant.empty() ? axes.proposer : fmt::format("{} {}", axes.proposer, axes.variant);
      if (!is_bound(cell)) {
        peers.others.emplace_back(name, ratio.ratio);
        continue;
      }
      peers.bounds.push_back(fmt::format("{} decodes at {:.2f}×", name, ratio.ratio));
      if (proposer_entry(axes.proposer).bound == DraftBound::most_gain) peers.most = ratio.ratio;
    }
    for (const auto& [place, peers] : places) {
      if (peers.bounds.empty()) continue;
      Texts shares;
      for (const auto& [name, gain] : peers.others)
        if (peers.most) shares.push_back(fmt::format("{} {}", name, percent_text(gain / *peers.most)));
      texts.push_back(fmt::format("Bounds{}, {}: {}{}{}.", view.where(group), place, fmt::join(peers.bounds, ", "),
                                  shares.empty() ? "" : "; of the oracle's speed ", fmt::join(shares, ", ")));
    }
  }
  return texts;
}

/// Where speculation gains most and least, by the category of the prompts: for each load of its best cell.
Texts category_texts(const VerdictView& view) {
  Texts texts;
  for (const LoadGroup& group : view.groups()) {
    const CellSummary* best = best_of(view, group, PickKind::throughput, Among::speculative);
    if (!best) best = best_of(view, group, PickKind::latency, Among::speculative);
    std::vector<const Claim*> order;
    for (const Claim& claim : view.claims())
      if (claim.kind == &ClaimKind::in_category && claim.cell == best) order.push_back(&claim);
    if (order.size() < 2) continue;
    std::ranges::stable_sort(order, std::greater{}, [](const Claim* claim) { return claim->ratio.ratio; });
    const auto gain = [](const Claim& claim) {
      const std::string name = claim.category.empty() ? "prompts without one" : fmt::format("\"{}\"", claim.category);
      return fmt::format("{}, {}", name, interval_text(claim.ratio));
    };
    const CellSummary& over = *order.front()->over;
    const std::optional<double>&least_of_most = order.front()->ratio.low, &most_of_least = order.back()->ratio.high;
    const bool is_told = least_of_most && most_of_least && *least_of_most > *most_of_least;
    texts.push_back(fmt::format("Decode speedup by category{}, {}{}: {}highest in {}; lowest in {}.", view.where(group),
                                view.marked_label(*best),
                                view.is_plain_twin(over, *best) ? "" : " over " + view.marked_label(over),
                                is_told         ? ""
                                : least_of_most ? "no clear difference; "
                                                : "without intervals (of fewer than 5 prompts or by one repetition) ",
                                gain(*order.front()), gain(*order.back())));
  }
  return texts;
}

}  // namespace

const char* to_string(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::best: return "best";
    case VerdictKind::pays_not: return "pays_not";
    case VerdictKind::parallel: return "parallel";
    case VerdictKind::correctness: return "correctness";
    case VerdictKind::caution: return "caution";
  }
  return "caution";
}

std::string ties_text(const Pick& pick) {
  const int64_t others = std::ssize(pick.cells) - 1;
  return others == 0 ? ""
                     : fmt::format("; {} not significantly {} than it", counted(others, "cell is", "cells are"),
                                   pick.kind == PickKind::goodput ? "worse" : "slower");
}

size_t num_words(const std::string& text) {
  std::istringstream words(text);
  size_t count = 0;
  for (std::string word; words >> word;) ++count;
  return count;
}

RunVerdict make_verdict(const VerdictView& view) {
  RunVerdict out{.validity = validity_of(view), .headline = {}, .details = {}};
  const auto lead = [&out](const std::string& text) {
    if (!text.empty() && out.headline.size() < kMostHeadlines) out.headline.push_back(text);
  };
  const auto tell = [&out](VerdictKind kind, const Texts& texts) {
    for (const std::string& text : texts) out.details.push_back({kind, text});
  };
  // The first into the headline where that has room, the others into the details, with what the headline has to cut.
  const auto lead_and_tell = [&](VerdictKind kind, Texts texts) {
    if (!texts.empty() && out.headline.size() < kMostHeadlines) {
      const bool is_short = num_words(texts.front()) <= kMostHeadlineWords;
      lead(is_short ? texts.front() : Sentence(texts.front()).text());
      if (is_short) texts.erase(texts.begin());
    }
    tell(kind, texts);
  };
  if (!view.summary().finished()) lead(Sentence(unfinished_text(view)).text());
  if (!out.validity.is_valid()) lead(validity_text(view, out.validity));
  Texts speeds = fastest_texts(view);
  std::ranges::move(kept_rates_texts(view), std::back_inserter(speeds));
  std::ranges::move(latency_texts(view), std::back_inserter(speeds));
  const RunSummary& counts = view.summary();
  if (speeds.empty())
    lead(counts.done > 0 ? "No cell can be ranked; see the reasons in the table."
         : counts.finished() && counts.failed > 0
             ? fmt::format("Nothing was measured: {} failed; see the reasons in the "
                           "table.",
                           counted(counts.failed, "cell"))
             : "Nothing was measured.");
  lead_and_tell(VerdictKind::best, std::move(speeds));
  if (out.validity.is_valid()) lead(validity_text(view, out.validity));
  if (const std::string text = repeated_prompts_text(view); !text.empty() && remembers_texts(view))
    lead_and_tell(VerdictKind::caution, {text});
  lead_and_tell(VerdictKind::caution, unreached_texts(view));
  tell(VerdictKind::best, gainers_texts(view));
  tell(VerdictKind::best, source_texts(view));
  tell(VerdictKind::best, ties_texts(view));
  if (view.kept_rates().empty())
    lead_and_tell(VerdictKind::best, goodput_texts(view));
  else
    tell(VerdictKind::best, goodput_texts(view));  // of one rate each
  lead_and_tell(VerdictKind::caution, saturation_texts(view));
  if (const Pick* const other = other_pick(view)) lead_and_tell(VerdictKind::best, {fastest_text(view, *other)});
  lead_and_tell(VerdictKind::best, crossover_texts(view, /*decided=*/true));
  tell(VerdictKind::best, crossover_texts(view, /*decided=*/false));
  tell(VerdictKind::best, stated_texts(view));
  tell(VerdictKind::best, bounds_texts(view));
  lead_and_tell(VerdictKind::parallel, scaling_texts(view));
  lead(loser_text(view));
  lead(choice_text(view));
  tell(VerdictKind::pays_not, losers_texts(view));
  tell(VerdictKind::best, category_texts(view));
  add_cautions(view, out.validity, out.details);
  std::stable_partition(out.details.begin(), out.details.end(), [](const VerdictSentence& each) { return each.bad; });
  return out;
}

RunVerdict make_verdict(const RunResult& run, const RunSummary& summary) {
  return make_verdict(VerdictView(run, summary));
}

}  // namespace paceline
