#include "experiments/analysis/verdict/verdict.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/util/counted.h"
#include "experiments/analysis/claims/headline.h"
#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/verdict/parts.h"

namespace paceline {

namespace {

constexpr size_t kMostTiedNamed = 4;  // beyond, their number says more

/// Why a speculative cell is fast: its tokens per pass and where they come from.
std::string source_of_gain(const CellSummary& s) {
  if (!s.tokens_per_target_forward || !s.draft_acceptance_rate) return "";
  std::string text = fmt::format("{:.2f} tokens per sequence and pass", *s.tokens_per_target_forward);
  text += fmt::format(" ({} of drafted tokens accepted", percent_text(*s.draft_acceptance_rate));
  if (s.draft_coverage && *s.draft_coverage < 0.995) {
    text += fmt::format(", drafts in {} of steps", percent_text(*s.draft_coverage));
  }
  return text + ")";
}

/// What the fastest cell, which does not speculate, leaves to say of those that do; is_said: not of ranked ones.
std::string of_speculation(const VerdictView& view, const LoadGroup& group, const Pick& pick, bool is_said) {
  int planned = 0, measured = 0, ranked = 0;
  for (const CellSummary* s : group.cells) {
    const CellResult& cell = view.cell(*s);
    if (!view.speculates(*s)) continue;
    planned += cell.status != CellStatus::skipped || cell.not_run ? 1 : 0;
    measured += cell.status == CellStatus::done ? 1 : 0;
    ranked += VerdictView::ranks_by_rate(*s) ? 1 : 0;
  }
  if (planned == 0) return "there is no speculative cell to compare with";
  if (measured == 0) return "no speculative cell ran";
  if (ranked == 0) return "no speculative cell is ranked";
  if (is_said)
    return ranked < planned ? fmt::format("{} of {} are ranked", ranked, counted(planned, "speculative cell")) : "";
  const char* const which = measured < planned ? " that ran" : "";
  return fmt::format("no {}speculative cell{} {} faster", ranked < measured ? "ranked " : "", which,
                     may_be_beaten_by_drafts(view, pick) ? "is shown to be" : "is");
}

/// The best cell of a load. Of the one that the headline names only what that leaves out; nothing of one that leads by
/// chance and is told of with its proposer.
std::string best_sentence(const VerdictView& view, const LoadGroup& group) {
  const Pick* const pick = view.pick(PickKind::throughput, group);
  if (!pick) return "";
  const CellSummary *const best = &pick->best(), *const base = view.baseline_of(*best);
  const CellSummary* const best_plain = best_of(view, group, PickKind::throughput, Among::plain);
  const std::vector<const CellSummary*> tied(pick->cells.begin() + 1, pick->cells.end());
  const bool is_said = pick == telling_pick(view), by_chance = leads_by_chance(view, *pick);
  if (by_chance && is_told_of_as_not_paying(view, group, *best)) return "";
  std::vector<std::string> facts;
  const auto add = [&](std::string fact) {
    if (!fact.empty()) facts.push_back(std::move(fact));
  };
  std::string text = view.marked_label(*best);
  if (!is_said) {
    const std::string where = view.has_several_loads() ? group.where() : "";
    text = fmt::format(
        "{}: {}, {:.1f} tok/s",
        by_chance ? "No speculative cell is shown to be faster" + where + ". Highest estimate" : "Fastest" + where,
        text, *best->output_tok_s);
  }
  if (const Claim* const row = view.claim(ClaimKind::over_baseline, *best)) {
    const std::optional<double> far_s = best->baseline_far ? best->baseline_apart_s : std::nullopt;
    if (is_said)
      for (std::string& note : VerdictView::whole_notes(*best, best->decode_speedup, far_s)) add(std::move(note));
    else
      text += fmt::format(", {} over {}", interval_text(*best->speedup),
                          view.whole_over_text(*best, *base, best->decode_speedup, far_s));
    if (row->shown == Outcome::inconclusive) {
      if (!is_said && !by_chance) add("not shown to be faster than that");
      add(view.not_shown_text(*row));
    }
  } else if (best->outcome == Outcome::none && !view.cell(*best).baseline_id.empty()) {
    add("its baseline was not measured, so its gain is not known");
  }
  add(source_of_gain(*best));
  if (view.cell(*best).certificate.status == CertificateStatus::unverified) add("UNVERIFIED");
  const CellSummary* const twin = view.reference_of(*best);
  if (twin && twin != base && twin != best_plain && view.speculates(*best)) {
    if (const std::optional<RatioInterval> gain = view.rate_over(*best, *twin))
      add(fmt::format("{} over {}", interval_text(*gain), view.reference_text(*best, *twin)));
  }
  if (best_plain && best_plain != best && base != best_plain) {
    const std::optional<RatioInterval> gain = view.rate_over(*best, *best_plain);
    add(fmt::format("against the fastest plain cell ({}{}, {:.1f} tok/s): {}", view.label(*best_plain),
                    best_plain->noise.empty() ? "" : ", disturbed", *best_plain->output_tok_s,
                    gain ? interval_text(*gain) : "–") +
        in_brackets({view.apart_text(*best, *best_plain)}));
  }
  if (tied.size() > kMostTiedNamed)
    add(fmt::format("{} other cells cannot be told apart from it", tied.size()));
  else if (!tied.empty())
    add("not shown to be slower: " + view.labels(tied));
  if (!view.speculates(*best)) add(of_speculation(view, group, *pick, is_said));
  if (is_said && facts.empty()) return "";
  return fmt::format("{}{}{}.", text, facts.empty() ? "" : is_said ? ": " : "; ", fmt::join(facts, "; "));
}

/// A plain cell of one rank beside its twins of several.
struct AgainstOneRank {
  const CellSummary* one = nullptr;
  std::string gains;          // " tp2 pp1 1.71× [1.68, 1.74], tp1 pp2 …"; empty: no twin
  bool share_variant = true;  // with all twins: it tells what they have in common, and is not the label of a row
};

AgainstOneRank against_one_rank(const VerdictView& view, const CellSummary& one) {
  AgainstOneRank out{.one = &one, .gains = {}};
  for (const Claim& claim : view.claims()) {
    const CellSummary& s = *claim.cell;
    if (claim.kind != ClaimKind::over_one_rank || claim.over != &one || !VerdictView::ranks_by_rate(s)) continue;
    const CellAxes& axes = view.cell(s).axes;
    out.share_variant &= axes.variant == view.cell(one).axes.variant;
    const PhaseTimes& p = s.phase_ms_per_step;
    std::string cost;
    if (s.step_ms && *s.step_ms > 0 && std::max(p.bubble_ms, p.communicate_ms) / *s.step_ms >= 0.05) {
      const bool bubbles = p.bubble_ms > p.communicate_ms;
      cost = fmt::format("{} {} of the time", bubbles ? "bubbles take" : "communication takes",
                         percent_text(std::max(p.bubble_ms, p.communicate_ms) / *s.step_ms));
    }
    out.gains +=
        fmt::format("{} tp{} pp{} {}", out.gains.empty() ? "" : ",", axes.tp, axes.pp, interval_text(claim.ratio)) +
        in_brackets({claim.far_apart_s ? baseline_time_text(*claim.far_apart_s) : "", cost});
  }
  return out;
}

void add_parallel(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const LoadGroup& group : view.groups()) {
    std::vector<AgainstOneRank> all;
    for (const CellSummary* s : group.cells) {
      const CellAxes& axes = view.cell(*s).axes;
      if (view.speculates(*s) || axes.tp * axes.pp > 1 || !VerdictView::ranks_by_rate(*s)) continue;
      if (AgainstOneRank each = against_one_rank(view, *s); !each.gains.empty()) all.push_back(std::move(each));
    }
    for (const AgainstOneRank& each : all) {
      const std::string& variant = view.cell(*each.one).axes.variant;
      const bool named = !variant.empty() && (each.share_variant || all.size() > 1);
      out.push_back(
          {VerdictKind::parallel, fmt::format("Without speculation, against one rank{} ({}{:.1f} tok/s):{}.",
                                              view.has_several_loads() ? group.where() : "",
                                              named ? variant + ", " : "", *each.one->output_tok_s, each.gains)});
    }
  }
}

std::string failure_sentence(const VerdictView& view, const CellSummary& s) {
  const CertificateResult& certificate = view.cell(s).certificate;
  const std::string requests = counted(certificate.mismatches, "request");
  const std::string where = certificate.flips ? fmt::format("{} that noise does not explain (fast numerics: {})",
                                                            requests, flips_text(*certificate.flips))
                                              : requests;
  return fmt::format("NOT LOSSLESS: {} differs from its reference in {} ({} compared){}{}.", view.label(s), where,
                     counted(certificate.tokens_checked, "token"), certificate.detail.empty() ? "" : ": ",
                     certificate.detail);
}

/// Cells without a certificate, by the reason.
struct UnverifiedCells {
  int cells = 0;
  std::vector<std::pair<std::string, int>> reasons;  // with how many cells have it, in the order of the plan

  void add(const CellResult& cell) {
    ++cells;
    const std::string& why = cell.certificate.detail;
    const auto known = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == why; });
    if (known != reasons.end())
      ++known->second;
    else if (!why.empty())
      reasons.emplace_back(why, 1);
  }

  std::string text() const {
    constexpr size_t kMostListed = 3;
    std::string text = fmt::format("UNVERIFIED: {} without a certificate", counted(cells, "cell"));
    for (size_t i = 0; i < std::min(kMostListed, reasons.size()); ++i) {
      const auto& [why, count] = reasons[i];
      text += fmt::format("{} {}{}", i == 0 ? ":" : ";", count == cells ? "" : fmt::format("{}: ", count), why);
    }
    if (reasons.size() > kMostListed) text += fmt::format("; and {} other reasons", reasons.size() - kMostListed);
    return text + ".";
  }
};

void add_correctness(const VerdictView& view, std::vector<VerdictSentence>& out) {
  int fast = 0;
  int64_t fast_tokens = 0;
  std::set<int> ks;  // of speculative cells that passed
  UnverifiedCells unverified;
  for (const CellSummary& s : view.summary().cells) {
    const CellResult& cell = view.cell(s);
    if (cell.status != CellStatus::done) continue;
    if (cell.certificate.status == CertificateStatus::fail)
      out.push_back({VerdictKind::correctness, failure_sentence(view, s), true});
    if (cell.certificate.status == CertificateStatus::unverified) unverified.add(cell);
    if (cell.certificate.status != CertificateStatus::pass) continue;
    if (cell.certificate.flips) {
      ++fast;
      fast_tokens += cell.certificate.tokens_checked;
    } else if (cell.axes.num_speculative_tokens) {
      ks.insert(*cell.axes.num_speculative_tokens);
    }
  }
  if (ks.size() > 1)
    out.push_back({VerdictKind::correctness, "The output is the same at every k: choose k by speed alone."});
  if (fast > 0)
    out.push_back(
        {VerdictKind::correctness,
         fmt::format("Fast numerics, not token-exact: {} certified, {} compared up to each request's first "
                     "flip; {}.",
                     counted(fast, "cell"), counted(fast_tokens, "token"), flips_text(*pooled_flips(view.run())))});
  if (unverified.cells > 0) out.push_back({VerdictKind::correctness, unverified.text()});
}

std::vector<VerdictSentence> make_details(const VerdictView& view) {
  std::vector<VerdictSentence> out;
  for (const LoadGroup& group : view.groups()) {
    if (std::string text = best_sentence(view, group); !text.empty())
      out.push_back({VerdictKind::best, std::move(text)});
  }
  add_open_loops(view, out);
  add_goodput(view, out);
  for (const CrossoverClaim& claim : view.crossovers())
    if (claim.axis == CrossoverClaim::Axis::concurrency)
      out.push_back({VerdictKind::best, fmt::format("Over concurrency: {}.", concurrency_text(claim))});
  add_forced(view, out);
  add_bounds(view, out);
  add_pays_not(view, out);
  add_parallel(view, out);
  add_correctness(view, out);
  add_categories(view, out);
  add_cautions(view, out);
  std::stable_partition(out.begin(), out.end(), [](const VerdictSentence& v) { return v.bad; });
  if (const std::vector<std::string> unreached = concurrency_sentences(view); !unreached.empty())
    out.insert(out.begin(), {VerdictKind::caution, fmt::format("{}", fmt::join(unreached, " "))});
  return out;
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

std::string flips_text(const FlipCount& flips) {
  return fmt::format("{}, {} explained by noise of {} at {}", counted(flips.found, "flip"), flips.explained,
                     flips.noise ? fmt::format("up to {:.3g}", *flips.noise) : "unknown size",
                     counted(flips.positions, "position"));
}

std::string costliest_phase(const CellSummary& summary) {
  if (!summary.passes || summary.passes->decode.pass_ms.value_or(0) <= 0) return "";
  const PhaseTimes& p = summary.passes->decode.phase_ms;
  const std::array<std::pair<double, const char*>, 5> phases = {{{p.draft_ms, "drafting takes"},
                                                                 {p.sample_ms, "sampling takes"},
                                                                 {p.schedule_ms, "scheduling takes"},
                                                                 {p.communicate_ms, "communication takes"},
                                                                 {p.bubble_ms, "pipeline bubbles take"}}};
  const auto largest = std::max_element(phases.begin(), phases.end());
  const double share = largest->first / *summary.passes->decode.pass_ms;
  if (share < 0.1) return "";
  return fmt::format("{} {} of a decode pass", largest->second, percent_text(share));
}

RunVerdict make_verdict(const VerdictView& view) {
  return {.validity = validity_of(view), .headline = make_headline(view), .details = make_details(view)};
}

RunVerdict make_verdict(const RunResult& run, const RunSummary& summary) {
  return make_verdict(VerdictView(run, summary));
}

}  // namespace paceline
