#include "experiments/analysis/summary_verdict.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "experiments/analysis/open_loop_verdict.h"

namespace paceline {

namespace {

const CellSummary* faster_of(const CellSummary* a, const CellSummary* b) {
  if (a == nullptr) return b;
  return b->output_tok_s.value_or(0) > a->output_tok_s.value_or(0) ? b : a;
}

/// Everything the sentences need, looked up once.
struct View {
  const RunResult& run;
  const RunSummary& summary;

  const CellResult& cell(const CellSummary& s) const { return run.cells[s.cell]; }
  /// Open loops are compared by latency (open_loop_verdict.h).
  static bool ranks_by_rate(const CellSummary& s) { return s.rankable && s.output_tok_s && !s.open_loop; }
  std::string label(const CellSummary& s) const {
    const CellAxes& axes = cell(s).axes;
    std::string text = fmt::format("tp{} pp{} {}", axes.tp, axes.pp, proposer_label(axes));
    if (axes.num_speculative_tokens) text += fmt::format(" k={}", *axes.num_speculative_tokens);
    return text;
  }
  std::vector<int> concurrencies() const {
    std::set<int> values;
    for (const CellSummary& s : summary.cells) {
      if (ranks_by_rate(s)) values.insert(cell(s).axes.concurrency);
    }
    return {values.begin(), values.end()};
  }
  const CellSummary* baseline_of(const CellSummary& s) const {
    for (const CellSummary& b : summary.cells) {
      if (cell(b).id == cell(s).baseline_id) return &b;
    }
    return nullptr;
  }
};

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// Why a speculative cell is fast: its tokens per pass and where they come from.
std::string source_of_gain(const CellSummary& s) {
  if (!s.tokens_per_target_forward || !s.draft_acceptance_rate) return "";
  std::string text = fmt::format("; {:.2f} tokens per target pass", *s.tokens_per_target_forward);
  text += fmt::format(" ({} of drafted tokens accepted", percent(*s.draft_acceptance_rate));
  if (s.draft_coverage && *s.draft_coverage < 0.995) {
    text += fmt::format(", drafts in {} of steps", percent(*s.draft_coverage));
  }
  return text + ")";
}

std::string best_sentence(const View& view, int concurrency, bool name_concurrency) {
  const CellSummary *best = nullptr, *best_plain = nullptr;
  for (const CellSummary& s : view.summary.cells) {
    const CellAxes& axes = view.cell(s).axes;
    if (!View::ranks_by_rate(s) || axes.concurrency != concurrency) continue;
    best = faster_of(best, &s);
    if (axes.proposer == "none") best_plain = faster_of(best_plain, &s);
  }
  if (best == nullptr) return "";
  const std::string where = name_concurrency ? fmt::format(" at concurrency {}", concurrency) : "";
  std::string text = fmt::format("Fastest{}: {}, {:.1f} tok/s", where, view.label(*best), *best->output_tok_s);
  if (best->outcome == Outcome::baseline || best->outcome == Outcome::none) {
    const bool others = std::any_of(view.summary.cells.begin(), view.summary.cells.end(), [&](const CellSummary& s) {
      return View::ranks_by_rate(s) && view.cell(s).axes.concurrency == concurrency &&
             view.cell(s).axes.proposer != "none";
    });
    return text + (others ? "; no speculative cell is faster." : "; there is no speculative cell to compare with.");
  }
  if (best->speedup) {
    const CellSummary* const base = view.baseline_of(*best);
    const bool placed_alike = base && view.cell(*base).axes.tp == view.cell(*best).axes.tp &&
                              view.cell(*base).axes.pp == view.cell(*best).axes.pp;
    text += fmt::format(", {} over {}", interval_text(*best->speedup),
                        placed_alike || !base ? "the same placement without speculation" : view.label(*base));
    if (best->outcome == Outcome::inconclusive) text += " (inconclusive: the interval is missing or holds 1)";
  }
  text += source_of_gain(*best);
  if (view.cell(*best).certificate.status == CertificateStatus::unverified) text += "; UNVERIFIED";
  if (best_plain != nullptr && view.baseline_of(*best) != best_plain) {
    text += fmt::format("; against the fastest plain cell ({}, {:.1f} tok/s): {:.2f}×", view.label(*best_plain),
                        *best_plain->output_tok_s, *best->output_tok_s / *best_plain->output_tok_s);
  }
  return text + ".";
}

/// Tokens per pass at which a cell would equal its baseline, from the measured step times.
std::string break_even(const CellSummary& s, const CellSummary* base) {
  if (base == nullptr || !s.step_ms || !base->step_ms || !s.tokens_per_target_forward || *base->step_ms <= 0) return "";
  const double needed = *s.step_ms / *base->step_ms * base->tokens_per_target_forward.value_or(1);
  return fmt::format(" a step costs {:.2f}× a plain one and gives {:.2f} tokens (break-even {:.2f})",
                     *s.step_ms / *base->step_ms, *s.tokens_per_target_forward, needed);
}

void add_pays_not(const View& view, std::vector<VerdictSentence>& out) {
  const std::vector<int> concurrencies = view.concurrencies();
  std::map<std::pair<int, std::string>, const CellSummary*> best;  // by concurrency, proposer: largest speedup
  for (const CellSummary& s : view.summary.cells) {
    const CellAxes& axes = view.cell(s).axes;
    if (!s.rankable || !s.speedup || axes.proposer == "none") continue;
    const CellSummary*& known = best[{axes.concurrency, axes.proposer}];
    if (known == nullptr || s.speedup->ratio > known->speedup->ratio) known = &s;
  }
  for (const auto& [key, s] : best) {
    if (s->outcome == Outcome::faster) continue;
    std::string text = fmt::format("{} {}{}: its best cell is {} at {};", key.second,
                                   s->outcome == Outcome::slower ? "does not pay" : "shows no clear gain",
                                   concurrencies.size() > 1 ? fmt::format(" at concurrency {}", key.first) : "",
                                   view.label(*s), interval_text(*s->speedup));
    text += break_even(*s, view.baseline_of(*s));
    if (const std::string phase = costliest_phase(*s); !phase.empty()) text += ", " + phase;
    out.push_back({VerdictKind::pays_not, text + "."});
  }
}

void add_parallel(const View& view, std::vector<VerdictSentence>& out) {
  for (int concurrency : view.concurrencies()) {
    const CellSummary* one = nullptr;
    std::vector<const CellSummary*> others;
    for (const CellSummary& s : view.summary.cells) {
      const CellAxes& axes = view.cell(s).axes;
      if (!View::ranks_by_rate(s) || axes.proposer != "none" || axes.concurrency != concurrency) continue;
      if (axes.tp * axes.pp == 1) {
        one = &s;
      } else {
        others.push_back(&s);
      }
    }
    if (one == nullptr || others.empty()) continue;
    std::string text = fmt::format("Without speculation, against one rank ({:.1f} tok/s", *one->output_tok_s);
    if (view.concurrencies().size() > 1) text += fmt::format(", concurrency {}", concurrency);
    text += "):";
    for (size_t i = 0; i < others.size(); ++i) {
      const CellSummary& s = *others[i];
      const CellAxes& axes = view.cell(s).axes;
      text += fmt::format("{} tp{} pp{}{} {:.2f}×", i == 0 ? "" : ",", axes.tp, axes.pp,
                          axes.variant.empty() ? "" : " " + axes.variant, *s.output_tok_s / *one->output_tok_s);
      const PhaseTimes& p = s.phase_ms_per_step;
      if (s.step_ms && *s.step_ms > 0 && std::max(p.bubble_ms, p.communicate_ms) / *s.step_ms >= 0.05) {
        const bool bubbles = p.bubble_ms > p.communicate_ms;
        text += fmt::format(" ({} {} of a step)", bubbles ? "bubbles take" : "communication takes",
                            percent(std::max(p.bubble_ms, p.communicate_ms) / *s.step_ms));
      }
    }
    out.push_back({VerdictKind::parallel, text + "."});
  }
}

std::string failure_sentence(const View& view, const CellSummary& s) {
  const CertificateResult& certificate = view.cell(s).certificate;
  const std::string where = certificate.flips
                                ? fmt::format("{} requests that noise does not explain (fast numerics: {})",
                                              certificate.mismatches, flips_text(*certificate.flips))
                                : fmt::format("{} requests", certificate.mismatches);
  return fmt::format("NOT LOSSLESS: {} differs from its reference in {} ({} tokens compared){}{}.", view.label(s),
                     where, certificate.tokens_checked, certificate.detail.empty() ? "" : ": ", certificate.detail);
}

/// Of the cells that passed in one kind of numerics.
struct Passed {
  int cells = 0;
  int64_t tokens = 0;

  std::string text() const {
    return fmt::format("{} {} certified, {} tokens compared", cells, cells == 1 ? "cell" : "cells", tokens);
  }
};

void add_correctness(const View& view, std::vector<VerdictSentence>& out) {
  Passed strict, fast;
  int unverified = 0;
  for (const CellSummary& s : view.summary.cells) {
    const CellResult& cell = view.cell(s);
    if (cell.status != CellStatus::done) continue;
    if (cell.certificate.status == CertificateStatus::fail)
      out.push_back({VerdictKind::correctness, failure_sentence(view, s), true});
    unverified += cell.certificate.status == CertificateStatus::unverified ? 1 : 0;
    if (cell.certificate.status != CertificateStatus::pass) continue;
    Passed& passed = cell.certificate.flips ? fast : strict;
    ++passed.cells;
    passed.tokens += cell.certificate.tokens_checked;
  }
  if (strict.cells > 0) {
    out.push_back({VerdictKind::correctness,
                   fmt::format("Lossless: {}, 0 mismatches; the output is the same at every k, so choose k by speed "
                               "alone.",
                               strict.text())});
  }
  if (fast.cells > 0) {
    out.push_back({VerdictKind::correctness,
                   fmt::format("Fast numerics, not token-exact: {} up to each request's first flip; {}.", fast.text(),
                               flips_text(*pooled_flips(view.run)))});
  }
  if (unverified > 0) {
    out.push_back({VerdictKind::correctness, fmt::format("UNVERIFIED: {} {} without a certificate.", unverified,
                                                         unverified == 1 ? "cell" : "cells")});
  }
}

void add_cautions(const View& view, std::vector<VerdictSentence>& out) {
  const RunSummary& summary = view.summary;
  if (summary.failed > 0) {
    out.push_back({VerdictKind::caution,
                   fmt::format("{} of {} cells failed; the table says why.", summary.failed, summary.cells.size()),
                   true});
  }
  if (view.run.workload.bad_records > 0) {
    const WorkloadFacts& workload = view.run.workload;
    out.push_back(
        {VerdictKind::caution,
         fmt::format("{} bad {} left out of the data set (workload.skip_bad); the first: {}.", workload.bad_records,
                     workload.bad_records == 1 ? "record was" : "records were", workload.first_bad)});
  }
  int oversubscribed = 0, forced = 0, random = 0, min_repetitions = 1 << 30;
  double most_degenerate = 0;
  for (const CellSummary& s : summary.cells) {
    const CellResult& cell = view.cell(s);
    if (cell.status != CellStatus::done) continue;
    oversubscribed += cell.oversubscribed ? 1 : 0;
    forced += cell.forced || cell.lossy ? 1 : 0;
    random += cell.random_weights ? 1 : 0;
    min_repetitions = std::min(min_repetitions, s.repetitions);
    most_degenerate = std::max(most_degenerate, s.degenerate_share.value_or(0));
  }
  if (oversubscribed > 0) {
    out.push_back({VerdictKind::caution,
                   fmt::format("{} {} more threads than cores (oversubscribed): measured and checked, not ranked.",
                               oversubscribed, oversubscribed == 1 ? "cell ran" : "cells ran")});
  }
  if (forced > 0) {
    out.push_back({VerdictKind::caution, fmt::format("{} {} forced acceptance or a lossy rule: not ranked.", forced,
                                                     forced == 1 ? "cell uses" : "cells use")});
  }
  if (random > 0) {
    out.push_back({VerdictKind::caution,
                   fmt::format("{} {} random weights (load_format dummy): times are real; tokens, acceptance and "
                               "certificate are not those of a trained model.",
                               random, random == 1 ? "cell has" : "cells have"),
                   true});
  }
  if (summary.done > 0 && min_repetitions < 7) {
    out.push_back(
        {VerdictKind::caution, fmt::format("{} {}: intervals are wide; use 7 or more before a close call is believed.",
                                           min_repetitions, min_repetitions == 1 ? "repetition only" : "repetitions")});
  }
  if (most_degenerate > 0.1) {
    out.push_back({VerdictKind::caution,
                   fmt::format("Up to {} of the outputs end in a repetition, which flatters every proposer.",
                               percent(most_degenerate))});
  }
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

std::string interval_text(const RatioInterval& interval) {
  if (!interval.low || !interval.high) return fmt::format("{:.2f}× (one repetition, no interval)", interval.ratio);
  return fmt::format("{:.2f}× (95 % interval {:.2f}-{:.2f})", interval.ratio, *interval.low, *interval.high);
}

std::string flips_text(const FlipCount& flips) {
  return fmt::format("{} {}, {} explained by noise of {} at {} positions", flips.found,
                     flips.found == 1 ? "flip" : "flips", flips.explained,
                     flips.noise ? fmt::format("up to {:.3g}", *flips.noise) : "unknown size", flips.positions);
}

std::string costliest_phase(const CellSummary& summary) {
  if (!summary.step_ms || *summary.step_ms <= 0) return "";
  const PhaseTimes& p = summary.phase_ms_per_step;
  const std::array<std::pair<double, const char*>, 5> phases = {{{p.draft_ms, "drafting takes"},
                                                                 {p.sample_ms, "sampling takes"},
                                                                 {p.schedule_ms, "scheduling takes"},
                                                                 {p.communicate_ms, "communication takes"},
                                                                 {p.bubble_ms, "pipeline bubbles take"}}};
  const auto largest = std::max_element(phases.begin(), phases.end());
  const double share = largest->first / *summary.step_ms;
  if (share < 0.1) return "";
  return fmt::format("{} {} of a step", largest->second, percent(share));
}

std::vector<VerdictSentence> make_verdict(const RunResult& run, const RunSummary& summary) {
  const View view{run, summary};
  std::vector<VerdictSentence> out;
  const std::vector<int> concurrencies = view.concurrencies();
  for (int concurrency : concurrencies) {
    std::string text = best_sentence(view, concurrency, concurrencies.size() > 1);
    if (!text.empty()) out.push_back({VerdictKind::best, std::move(text)});
  }
  add_open_loops(run, summary, out);
  add_goodput(run, summary, out);
  if (out.empty()) out.push_back({VerdictKind::best, "No cell can be ranked; see the reasons in the table.", true});
  add_pays_not(view, out);
  add_correctness(view, out);
  add_parallel(view, out);
  add_categories(run, summary, out);
  add_cautions(view, out);
  std::stable_partition(out.begin(), out.end(), [](const VerdictSentence& v) { return v.bad; });
  return out;
}

}  // namespace paceline
