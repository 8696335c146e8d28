#include "experiments/analysis/claims/headline.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/util/counted.h"
#include "experiments/analysis/claims/validity.h"
#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/statistics/significance.h"
#include "experiments/analysis/verdict/parts.h"

namespace paceline {
namespace {

/// A sentence that takes more only while it stays short.
class Sentence {
 public:
  explicit Sentence(std::string text) : text_(std::move(text)) {}

  Sentence& add(const std::string& more) {
    if (num_words(text_ + more) <= kMostHeadlineWords) text_ += more;
    return *this;
  }

  /// Cut where even the first words, which hold names of the user's, are too many.
  std::string text() const {
    if (num_words(text_) <= kMostHeadlineWords) return text_ + ".";
    std::istringstream words(text_);
    std::string cut, word;
    for (size_t i = 0; i + 1 < kMostHeadlineWords && words >> word; ++i) cut += word + " ";
    return cut + "…";
  }

 private:
  std::string text_;
};

std::string repetitions_text(const CellSummary& s) {
  return s.repetitions < kFewestRepetitions ? ", " + counted(s.repetitions, "repetition") : "";
}

int64_t num_ranked_drafting(const VerdictView& view, const LoadGroup& group) {
  return std::count_if(group.cells.begin(), group.cells.end(),
                       [&](const CellSummary* s) { return VerdictView::ranks_by_rate(*s) && view.speculates(*s); });
}

std::string over_text(const VerdictView& view, const CellSummary& cell) {
  const Claim* const row = view.claim(ClaimKind::over_baseline, cell);
  return row ? fmt::format(", {} over {}", interval_text(row->ratio), view.reference_text(cell, *row->over)) : "";
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

std::string of_best(const VerdictView& view, const Pick& pick) {
  const CellSummary& best = pick.best();
  const std::string where = view.has_several_loads() ? pick.group->where() : "";
  const Claim* const row = view.claim(ClaimKind::over_baseline, best);
  const std::string over = over_text(view, best);
  const int64_t drafting = num_ranked_drafting(view, *pick.group);
  if (leads_by_chance(view, pick)) {
    Sentence sentence(fmt::format("No speculative cell{} is shown to be faster", where));
    if (drafting > 1) sentence.add(fmt::format(" among {}", drafting));
    return sentence.add("; highest estimate: " + view.marked_label(best)).add(over).add(repetitions_text(best)).text();
  }
  const CellSummary* const shown =
      row && row->shown == Outcome::inconclusive ? fastest_shown(view, *pick.group) : nullptr;
  if (shown)
    return Sentence(fmt::format("Fastest shown gain{}: {}, {:.1f} tok/s", where, view.marked_label(*shown),
                                *shown->output_tok_s))
        .add(over_text(view, *shown))
        .add(repetitions_text(*shown))
        .add(fmt::format("; {} may be faster", view.marked_label(best)))
        .text();
  Sentence sentence(fmt::format("Fastest{}: {}, {:.1f} tok/s", where, view.marked_label(best), *best.output_tok_s));
  sentence.add(over).add(repetitions_text(best));
  if (row && row->shown == Outcome::inconclusive) sentence.add(", which is not shown to be a gain");
  if (!view.speculates(best) && drafting > 0)
    sentence.add(fmt::format("; no speculative cell{} {} faster", view.summary().finished() ? "" : " that ran",
                             may_be_beaten_by_drafts(view, pick) ? "is shown to be" : "is"));
  if (pick.cells.size() > 1)
    sentence.add(fmt::format("; {} {} not told apart from it", counted(int64_t(pick.cells.size()) - 1, "cell"),
                             pick.cells.size() == 2 ? "is" : "are"));
  return sentence.text();
}

std::string of_open_loops(const VerdictView& view) {
  for (const Pick& pick : view.picks()) {
    if (pick.kind != PickKind::latency || !pick.best().open_loop) continue;
    Sentence sentence(fmt::format("Lowest latency, {}: {}, {:.1f} ms end to end (median)", pick.group->load,
                                  view.marked_label(pick.best()), pick.value));
    if (pick.cells.size() > 1)
      sentence.add(fmt::format("; {} not told apart from it", counted(int64_t(pick.cells.size()) - 1, "cell")));
    return sentence.text();
  }
  const bool is_open = std::any_of(view.summary().cells.begin(), view.summary().cells.end(),
                                   [](const CellSummary& s) { return s.rankable && s.open_loop; });
  return is_open ? "No cell keeps up with what is sent." : "";
}

std::string speed_sentence(const VerdictView& view) {
  if (const Pick* const pick = telling_pick(view)) return of_best(view, *pick);
  if (const std::string open = of_open_loops(view); !open.empty()) return open;
  return view.summary().done == 0 ? "Nothing was measured." : "No cell can be ranked; see the reasons in the table.";
}

/// "31 cells lossless, 42408 tokens compared, 0 mismatches; 1 of 32 cells failed"
std::string certified_text(const VerdictView& view) {
  int64_t strict = 0, fast = 0, tokens = 0, unverified = 0, random = 0;
  for (const CellSummary& s : view.summary().cells) {
    const CertificateResult& certificate = view.cell(s).certificate;
    if (view.cell(s).status != CellStatus::done) continue;
    random += view.cell(s).random_weights ? 1 : 0;
    unverified += certificate.status == CertificateStatus::unverified ? 1 : 0;
    if (certificate.status != CertificateStatus::pass) continue;
    ++(certificate.flips ? fast : strict);
    tokens += certificate.tokens_checked;
  }
  std::vector<std::string> parts;
  if (strict > 0)
    parts.push_back(fmt::format("{} lossless, {} compared{}", counted(strict, "cell"), counted(tokens, "token"),
                                fast == 0 ? ", 0 mismatches" : ""));
  if (fast > 0) parts.push_back(counted(fast, "cell agrees", "cells agree") + " within noise (fast numerics)");
  if (unverified > 0) parts.push_back(counted(unverified, "cell is", "cells are") + " UNVERIFIED");
  if (random > 0) parts.push_back(counted(random, "cell has", "cells have") + " random weights");
  if (const RunSummary& counts = view.summary(); counts.failed > 0)
    parts.push_back(fmt::format("{} of {} failed", counts.failed, counted(int64_t(counts.cells.size()), "cell")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string validity_sentence(const VerdictView& view, const Validity& validity) {
  if (view.summary().done == 0) return "";
  const std::string certified = certified_text(view);
  const std::string part = view.summary().finished() ? "" : " so far";
  if (validity.is_valid()) return Sentence("VALID" + part).add(certified.empty() ? "" : ": " + certified).text();
  Sentence sentence(fmt::format("INVALID{}: {}", part, fmt::join(validity.reasons, "; ")));
  sentence.add(certified.empty() ? "" : "; " + certified);
  return sentence.add(disturbed_cells(view).worst ? "; run again on a quiet machine" : "").text();
}

std::string unreached_sentence(const VerdictView& view) {
  const std::vector<std::string> all = concurrency_sentences(view);
  return all.empty() ? "" : Sentence(all.front().substr(0, all.front().size() - 1)).text();
}

std::string goodput_sentence(const VerdictView& view) {
  for (const Pick& pick : view.picks()) {
    if (pick.kind != PickKind::goodput) continue;
    const std::string limits = slo_text(view.run().slo);
    if (pick.best().goodput->share == 0) return fmt::format("No request meets {}.", limits);
    Sentence sentence(fmt::format("Most good requests ({}){}: {}", limits,
                                  view.has_several_loads() ? pick.group->where() : "", view.marked_label(pick.best())));
    sentence.add(fmt::format(", {:.3g} per second, {} of all", pick.value, percent_text(pick.best().goodput->share)));
    if (pick.cells.size() > 1)
      sentence.add(fmt::format("; {} not told apart", counted(int64_t(pick.cells.size()) - 1, "cell")));
    return sentence.text();
  }
  return "";
}

std::string saturation_sentence(const VerdictView& view) {
  std::vector<const CellSummary*> cells;
  for (const CellSummary& s : view.summary().cells)
    if (s.is_saturated()) cells.push_back(&s);
  if (cells.empty()) return "";
  const std::string load = view.cell(*cells.front()).load;
  const bool is_one =
      std::all_of(cells.begin(), cells.end(), [&](const CellSummary* s) { return view.cell(*s).load == load; });
  return Sentence(fmt::format("Saturated{}: {}", is_one ? ", " + load : "", view.labels(cells)))
      .add("; latencies depend on the length of the run; lower the rate")
      .text();
}

std::string crossover_sentence(const VerdictView& view) {
  for (const CrossoverClaim& claim : view.crossovers()) {
    if (claim.axis != CrossoverClaim::Axis::concurrency) continue;
    const Crossover crossover = claim.crossover();
    if (crossover.faster.empty() && crossover.slower.empty()) continue;
    return Sentence(concurrency_text(claim)).text();
  }
  return "";
}

std::string scaling_sentence(const VerdictView& view) {
  const CellSummary* one = nullptr;
  std::string gains;
  Sentence sentence("");
  for (const Claim& claim : view.claims()) {
    if (claim.kind != ClaimKind::over_one_rank || view.speculates(*claim.cell) || !claim.cell->rankable) continue;
    const CellAxes& axes = view.cell(*claim.cell).axes;
    if (one == nullptr) {
      one = claim.over;
      sentence = Sentence(fmt::format("Without speculation{}, against one rank:",
                                      view.has_several_loads() && view.cell(*one).axes.concurrency > 0
                                          ? fmt::format(" at concurrency {}", view.cell(*one).axes.concurrency)
                                          : ""));
    }
    if (claim.over != one) continue;
    sentence.add(
        fmt::format("{} tp{} pp{} {}", gains.empty() ? "" : ",", axes.tp, axes.pp, interval_text(claim.ratio)));
    gains += ".";
  }
  return one ? sentence.text() : "";
}

/// The first of the plan whose cells are all not shown to be faster, though another proposer may be; not one whose best
/// cell is said to lead by chance.
std::string loser_sentence(const VerdictView& view) {
  std::vector<std::string> proposers;
  for (const Claim& claim : view.claims())
    if (claim.kind == ClaimKind::over_plain && claim.cell->rankable) {
      const std::string& name = view.cell(*claim.cell).axes.proposer;
      if (std::find(proposers.begin(), proposers.end(), name) == proposers.end()) proposers.push_back(name);
    }
  if (proposers.size() < 2) return "";
  for (const std::string& proposer : proposers) {
    const Claim* best = nullptr;
    bool gains = false;
    for (const Claim& claim : view.claims()) {
      if (claim.kind != ClaimKind::over_plain || !claim.cell->rankable ||
          view.cell(*claim.cell).axes.proposer != proposer)
        continue;
      gains |= claim.shown == Outcome::faster;
      if (!best || begins_higher(claim.ratio, best->ratio)) best = &claim;
    }
    const auto is_said = [&](const Pick& pick) {
      return pick.kind == PickKind::throughput && &pick.best() == best->cell && leads_by_chance(view, pick);
    };
    if (gains || std::any_of(view.picks().begin(), view.picks().end(), is_said)) continue;
    return Sentence(fmt::format("{} is not shown to be faster", proposer))
        .add(fmt::format("; its best cell, {}, is at {}", view.marked_label(*best->cell), interval_text(best->ratio)))
        .text();
  }
  return "";
}

/// Where the best for a user or a device is another than the fastest.
std::string choice_sentence(const VerdictView& view) {
  const Pick* const fastest = telling_pick(view);
  if (!fastest) return "";
  const Pick *const user = view.pick(PickKind::latency, *fastest->group), *const device = view.pick(
                                                                              PickKind::per_device, *fastest->group);
  std::vector<std::string> parts;
  if (user && &user->best() != &fastest->best())
    parts.push_back(fmt::format("per user: {}, {:.1f} tok/s", view.label(user->best()), 1000 / user->value));
  if (device && &device->best() != &fastest->best())
    parts.push_back(fmt::format("per device: {}, {:.1f} tok/s", view.label(device->best()), device->value));
  return parts.empty() ? "" : Sentence(fmt::format("Highest estimate {}", fmt::join(parts, "; "))).text();
}

}  // namespace

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

size_t num_words(const std::string& text) {
  std::istringstream words(text);
  size_t count = 0;
  for (std::string word; words >> word;) ++count;
  return count;
}

std::vector<std::string> make_headline(const VerdictView& view) {
  std::vector<std::string> out;
  const auto add = [&](std::string text) {
    if (!text.empty()) out.push_back(std::move(text));
  };
  const Validity validity = validity_of(view);
  if (!view.summary().finished()) add(Sentence(unfinished_text(view)).text());
  if (!validity.is_valid()) add(validity_sentence(view, validity));
  add(speed_sentence(view));
  if (validity.is_valid()) add(validity_sentence(view, validity));
  for (const auto& make : {unreached_sentence, goodput_sentence, saturation_sentence, crossover_sentence,
                           scaling_sentence, loser_sentence, choice_sentence}) {
    if (out.size() == kMostHeadlines) break;
    add(make(view));
  }
  return out;
}

}  // namespace paceline
