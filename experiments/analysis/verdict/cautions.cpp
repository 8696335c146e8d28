#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "experiments/analysis/metrics/loads.h"
#include "experiments/analysis/metrics/within_cell.h"
#include "experiments/analysis/outputs/certificate.h"
#include "experiments/analysis/statistics/noise.h"
#include "experiments/analysis/verdict/parts.h"
#include "experiments/analysis/verdict/sentence.h"
#include "experiments/client/openai_client.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

std::vector<const CellSummary*> cells_that_ran(const VerdictView& view) {
  std::vector<const CellSummary*> cells;
  for (const CellSummary& s : view.summary().cells)
    if (view.ran(s)) cells.push_back(&s);
  return cells;
}

/// Of a repetition.
int64_t most_requests(const VerdictView& view) {
  int64_t most = 0;
  for (const CellSummary* const s : cells_that_ran(view))
    if (s->repetitions > 0) most = std::max(most, std::ssize(view.cell(*s).repetitions.front().requests));
  return most;
}

/// Cells that ran, by their baseline, which did not.
std::map<size_t, int> missing_baselines(const VerdictView& view) {
  std::map<size_t, int> missing;
  for (const CellSummary* const s : cells_that_ran(view))
    if (const CellSummary* const base = view.baseline_of(*s); base && !view.ran(*base)) ++missing[base->cell];
  return missing;
}

/// "tp1 pp1 none, the baseline of 3 cells that ran, failed"
std::vector<std::string> missing_baseline_texts(const VerdictView& view) {
  std::vector<std::string> texts;
  for (const auto& [base, cells] : missing_baselines(view)) {
    const bool failed = view.run().cells[base].status == CellStatus::failed;
    texts.push_back(fmt::format("{}, the baseline of {}, {}", view.label(view.summary().cells[base]),
                                counted(cells, "cell that ran", "cells that ran"), failed ? "failed" : "did not run"));
  }
  return texts;
}

/// "2 of 3 cells were disturbed (at worst ngram5: other processes used 80 % of the cores)"
std::string disturbed_text(const VerdictView& view) {
  const std::vector<const CellSummary*> ran = cells_that_ran(view);
  int64_t disturbed = 0;
  const CellResult* worst = nullptr;
  WorstNoise by;
  for (const CellSummary* const s : ran) {
    if (s->noise.empty()) continue;
    ++disturbed;
    WorstNoise noise = worst_noise_of(view.cell(*s));
    if (worst && noise.times_limit <= by.times_limit) continue;
    by = std::move(noise);
    worst = &view.cell(*s);
  }
  if (!worst) return "";
  return fmt::format("{} of {} {} disturbed ({}{}: {})", disturbed, counted(std::ssize(ran), "cell"),
                     disturbed == 1 ? "was" : "were", disturbed == 1 ? "" : "at worst ", worst->id, by.text);
}

std::string not_lossless_text(const VerdictView& view, const CellSummary& s) {
  const CertificateResult& certificate = view.cell(s).certificate;
  const std::string requests = counted(certificate.mismatches, "request");
  const std::string where = certificate.flips ? fmt::format("{} that noise does not explain (fast numerics: {})",
                                                            requests, flips_text(*certificate.flips))
                                              : requests;
  return fmt::format("NOT LOSSLESS: {} differs from its reference in {} ({} compared){}{}.", view.label(s), where,
                     counted(certificate.tokens_checked, "token"), certificate.detail.empty() ? "" : ": ",
                     certificate.detail);
}

/// "UNVERIFIED: 3 cells without a certificate: 1: forced; 2: a rule."; `reasons`: with how many cells have each.
std::string unverified_text(int cells, const nlohmann::ordered_map<std::string, int>& reasons) {
  constexpr size_t kMostListed = 3;
  std::vector<std::string> texts;
  for (const auto& [why, count] : reasons)
    if (!why.empty() && texts.size() < kMostListed)
      texts.push_back(count == cells ? why : fmt::format("{}: {}", count, why));
  if (reasons.size() > kMostListed) texts.push_back(fmt::format("and {} other reasons", reasons.size() - kMostListed));
  return fmt::format("UNVERIFIED: {} without a certificate{}{}.", counted(cells, "cell"), texts.empty() ? "" : ": ",
                     fmt::join(texts, "; "));
}

void add_certificates(const VerdictView& view, std::vector<VerdictSentence>& out) {
  int unverified = 0;
  bool any_fast = false;
  nlohmann::ordered_map<std::string, int> reasons;
  for (const CellSummary* const s : cells_that_ran(view)) {
    const CertificateResult& certificate = view.cell(*s).certificate;
    any_fast |= certificate.status == CertificateStatus::pass && certificate.flips;
    if (certificate.status == CertificateStatus::fail)
      out.push_back({VerdictKind::correctness, not_lossless_text(view, *s), true});
    if (certificate.status != CertificateStatus::unverified) continue;
    ++unverified;
    ++reasons[certificate.detail];
  }
  if (any_fast)
    out.push_back({VerdictKind::correctness,
                   fmt::format("Fast numerics, not token-exact: {}.", flips_text(*pooled_flips(view.run())))});
  if (unverified > 0) out.push_back({VerdictKind::correctness, unverified_text(unverified, reasons)});
}

/// What numbers of servers do not tell.
void add_served_cautions(const VerdictView& view, const std::vector<const CellSummary*>& ran,
                         const std::function<void(std::string, bool)>& add) {
  const std::string_view kNotStated = name_of(SpeculationSource::none);
  int64_t whole = 0, silent = 0, warm = 0;
  std::string why_warm;
  for (const CellSummary* const s : ran) {
    const CellResult& cell = view.cell(*s);
    if (cell.repetitions.empty() || !cell.repetitions.front().client) continue;
    whole += cell.repetitions.front().client->streamed ? 0 : 1;
    silent += cell.axes.drafts() && cell.repetitions.front().client->acceptance_from == kNotStated ? 1 : 0;
    const std::string warm_prefixes = warm_prefixes_text(cell);
    warm += warm_prefixes.empty() ? 0 : 1;
    if (why_warm.empty()) why_warm = warm_prefixes;
  }
  if (warm > 0)
    add(fmt::format("{} met a server that may have known their prompts' prefixes from before: {}.",
                    counted(warm, "cell"), why_warm),
        true);
  if (silent > 0)
    add(counted(silent, "server states", "servers state") + " nothing of its drafts: their acceptance is not known.",
        false);
  if (whole > 0)
    add(counted(whole, "cell took its", "cells took their") +
            " answers whole (server.stream false): there is no time to the first token and none per token.",
        false);
}

/// Whether answers of the two differ so much in length, all told or the longest, that it may be what their speeds
/// differ by. REQUIRES: of a request each repetition draws the same again.
bool differ_in_length(const CellResult& a, const CellResult& b) {
  if (a.repetitions.empty() || b.repetitions.empty()) return false;
  const auto lengths = [](const CellResult& cell) {
    int64_t all = 0, longest = 1;
    for (const RequestRecord& q : cell.repetitions.front().requests)
      all += q.num_tokens(), longest = std::max<int64_t>(longest, q.num_tokens());
    return std::pair(double(std::max<int64_t>(all, 1)), double(longest));
  };
  constexpr double kMuch = kLeastEffect / 4;  // of a ratio that a sentence shows
  const auto [all_a, longest_a] = lengths(a);
  const auto [all_b, longest_b] = lengths(b);
  return std::abs(std::log(all_a / all_b)) > kMuch || std::abs(std::log(longest_a / longest_b)) > kMuch;
}

/// What intervals of some ratios leave out: drift between cells that were measured apart, lengths that were drawn.
void add_ratio_cautions(const VerdictView& view, const std::function<void(std::string, bool)>& add) {
  std::set<size_t> apart, drawn;
  double farthest_s = 0;
  for (const Claim& claim : view.claims()) {
    if (claim.kind == &ClaimKind::in_category) continue;
    if (claim.far_apart_s) {
      apart.insert(claim.cell->cell);
      farthest_s = std::max(farthest_s, std::abs(*claim.far_apart_s));
    }
    const CellResult& cell = view.cell(*claim.cell);
    if (!draws_anew(cell) && differ_in_length(cell, view.cell(*claim.over))) drawn.insert(claim.cell->cell);
  }
  if (!drawn.empty())
    add(fmt::format("{} answered with other lengths than what {} compared with, the same in each repetition: intervals "
                    "leave out that draw. sampling.ignore_eos makes lengths equal; at a temperature sampling.redraw "
                    "draws anew.",
                    counted(std::ssize(drawn), "cell"), drawn.size() == 1 ? "it is" : "they are"),
        true);
  if (!apart.empty())
    add(fmt::format("{} not paired with what {} compared with, but measured {} apart: drift of the machine is in no "
                    "interval.",
                    counted(std::ssize(apart), "cell was", "cells were"), apart.size() == 1 ? "it is" : "they are",
                    rough_time_text(farthest_s)),
        false);
}

/// Open loops of which the arrivals do not tell whether they keep up, and what a longer run would.
std::string unknown_saturation_text(const std::vector<const CellSummary*>& ran) {
  int64_t cells = 0, filling = 0;
  double growth = 0;
  for (const CellSummary* const s : ran) {
    if (!s->open_loop || s->open_loop->saturated || !s->open_loop->queue_growth_interval) continue;
    const Interval& in_flight = *s->open_loop->queue_growth_interval;
    ++(in_flight.low > 0 ? filling : cells);
    if (in_flight.low <= 0) growth = std::max(growth, in_flight.high / s->open_loop->offered_rate_per_s.value_or(1));
  }
  std::vector<std::string> texts;
  const auto keep = [](int64_t count) { return counted(count, "cell keeps", "cells keep"); };
  if (filling > 0)
    texts.push_back(fmt::format(
        "Whether {} up is not known: more and more requests were in flight, but later ones were not seen to "
        "wait longer, or found the engine empty: the run is short beside its requests or bursts. Send more.",
        keep(filling)));
  if (cells > 0)
    texts.push_back(
        fmt::format("Whether {} up is not known: of so few requests a queue that grows by up to {} of the arrival rate "
                    "would not be seen. A thousand tell a tenth.",
                    keep(cells), percent_text(growth)));
  return fmt::format("{}", fmt::join(texts, " "));
}

bool has_no_warm_up(const CellResult& cell) {
  const nlohmann::json* const requests = find_value(cell.requested, "measure.warmup_requests");
  return requests && *requests == 0;
}

/// Whether cells ran whose outputs nobody vouches for, and none with a certificate.
bool certifies_none(const VerdictView& view) {
  const auto has = [&](CertificateStatus status) {
    return std::ranges::any_of(cells_that_ran(view),
                               [&](const CellSummary* s) { return view.cell(*s).certificate.status == status; });
  };
  return has(CertificateStatus::unverified) && !has(CertificateStatus::pass);
}

std::string invalid_text(const Validity& validity, const std::string& so_far, const std::vector<std::string>& reasons,
                         const std::vector<std::string>& parts) {
  const bool is_timing = validity.disturbed && validity.reasons.size() == 1;
  Sentence sentence(fmt::format("INVALID{}{}: {}", is_timing ? " timings" : "", so_far, fmt::join(reasons, "; ")));
  sentence.add(validity.disturbed ? "; rerun when idle" : "");
  bool is_about_outputs = !is_timing;
  for (const std::string& each : parts) {
    const bool is_first = !is_about_outputs && !each.ends_with(" failed");
    sentence.add((is_first ? ". Outputs: " : "; ") + each);
    is_about_outputs |= is_first;
  }
  return sentence.text();
}

}  // namespace

Validity validity_of(const VerdictView& view) {
  std::vector<const CellSummary*> lossy;
  for (const CellSummary* const s : cells_that_ran(view))
    if (view.cell(*s).certificate.status == CertificateStatus::fail) lossy.push_back(s);
  Validity out;
  if (view.summary().done == 0) out.reasons.push_back("nothing was measured");
  if (lossy.size() == 1) out.reasons.push_back(view.label(*lossy.front()) + " is not lossless");
  if (lossy.size() > 1) out.reasons.push_back(fmt::format("{} cells are not lossless", lossy.size()));
  int without_baseline = 0;
  for (const auto& [base, cells] : missing_baselines(view)) without_baseline += cells;
  if (without_baseline > 0)
    out.reasons.push_back(counted(without_baseline, "cell lacks its baseline", "cells lack their baseline"));
  if (std::string disturbed = disturbed_text(view); !disturbed.empty()) {
    out.reasons.push_back(std::move(disturbed));
    out.disturbed = true;
  }
  return out;
}

std::string unfinished_text(const VerdictView& view) {
  const RunSummary& counts = view.summary();
  if (counts.finished()) return "";
  std::string text = fmt::format("Not finished: {} of {} ran", counts.done, counted(counts.planned(), "cell"));
  if (counts.done > 0 && counts.partial == counts.done)
    text += ", none with all its repetitions";
  else if (counts.partial > 0)
    text += fmt::format(", {} of them with fewer repetitions than asked for", counts.partial);
  if (counts.failed > 0) text += fmt::format("; {} failed", counts.failed);
  if (counts.not_run > 0) text += fmt::format("; {} did not run", counts.not_run);
  for (const std::string& missing : missing_baseline_texts(view)) text += "; " + missing;
  return text;
}

std::vector<std::string> certified_texts(const VerdictView& view) {
  int64_t strict = 0, fast = 0, tokens = 0, unverified = 0, random = 0;
  for (const CellSummary* const s : cells_that_ran(view)) {
    const CertificateResult& certificate = view.cell(*s).certificate;
    random += view.cell(*s).random_weights ? 1 : 0;
    unverified += certificate.status == CertificateStatus::unverified ? 1 : 0;
    if (certificate.status != CertificateStatus::pass) continue;
    ++(certificate.flips ? fast : strict);
    tokens += certificate.tokens_checked;
  }
  std::vector<std::string> parts;
  if (strict > 0)
    parts.push_back(fmt::format("{} lossless ({}{})", counted(strict, "cell"), counted(tokens, "token"),
                                fast == 0 ? ", 0 mismatches" : ""));
  if (fast > 0) parts.push_back(counted(fast, "cell agrees", "cells agree") + " within noise (fast numerics)");
  if (unverified > 0) parts.push_back(counted(unverified, "cell is", "cells are") + " UNVERIFIED");
  if (random > 0) parts.push_back(counted(random, "cell has", "cells have") + " random weights");
  if (const RunSummary& counts = view.summary(); counts.failed > 0)
    parts.push_back(fmt::format("{} of {} failed", counts.failed, counted(int64_t(counts.cells.size()), "cell")));
  return parts;
}

std::string validity_text(const VerdictView& view, const Validity& validity) {
  if (view.summary().done == 0) return "";
  std::vector<std::string> parts = certified_texts(view);
  const std::string so_far = view.summary().finished() ? "" : " so far";
  const auto outputs_of = [](const std::vector<std::string>& of) {
    return std::ranges::find_if(of, [](const std::string& part) { return !part.ends_with(" failed"); });
  };
  if (validity.is_valid()) {
    const char* const joint = outputs_of(parts) == parts.end() ? ", but " : ": ";  // failures alone prove nothing
    return Sentence(fmt::format("VALID{}{}", certifies_none(view) ? " timings" : "", so_far))
        .add(parts.empty() ? "" : fmt::format("{}{}", joint, fmt::join(parts, "; ")))
        .text();
  }
  std::ranges::reverse(parts);  // failed cells first: with a long reason there may be no room for all
  std::vector<std::string> reasons = validity.reasons;
  std::string text = invalid_text(validity, so_far, reasons, parts);
  const auto outputs = outputs_of(parts);
  if (outputs == parts.end() || text.find(*outputs) != std::string::npos) return text;
  for (std::string& reason : reasons) reason = reason.substr(0, reason.find(" ("));  // without the worst cell
  return invalid_text(validity, so_far, reasons, parts);
}

std::vector<std::string> unreached_texts(const VerdictView& view) {
  struct Unreached {
    std::vector<std::string> concurrencies;
    std::vector<const CellSummary*> cells;
  };
  nlohmann::ordered_map<std::string, Unreached> by_reason;
  for (const CellSummary* const s : cells_that_ran(view)) {
    const std::optional<ClosedLoop> loop = closed_loop_of(view.cell(*s));
    if (!loop || loop->is_reached()) continue;
    Unreached& unreached =
        by_reason[loop->in_batch == loop->in_flight
                      ? fmt::format("at most {} in flight, as there are no more (workload.requests)",
                                    counted(loop->in_batch, "request was", "requests were"))
                      : fmt::format("at most {} at once (engine.scheduler.max_num_seqs or static_batch_size)",
                                    counted(loop->in_batch, "request ran", "requests ran"))];
    unreached.cells.push_back(s);
    const std::string asked = std::to_string(loop->asked);
    if (std::ranges::find(unreached.concurrencies, asked) == unreached.concurrencies.end())
      unreached.concurrencies.push_back(asked);
  }
  std::vector<std::string> texts;
  for (const auto& entry : by_reason) {
    const std::string& reason = entry.first;
    const Unreached& of = entry.second;
    const bool is_one = of.concurrencies.size() == 1;
    const auto sentence = [&](const std::string& cells) {
      return fmt::format("Concurrency {} {} not reached in {}: {}.", listed_text(of.concurrencies),
                         is_one ? "was" : "were", cells, reason);
    };
    constexpr size_t kMostNamed = 3;
    const std::string named = is_one && of.cells.size() <= kMostNamed ? sentence(view.labels(of.cells)) : "";
    const bool is_named = !named.empty() && num_words(named) <= kMostHeadlineWords;
    texts.push_back(is_named ? named : sentence(counted(std::ssize(of.cells), "cell")));
  }
  return texts;
}

std::string repeated_prompts_text(const VerdictView& view) {
  const int64_t prompts = view.run().workload.prompts, requests = most_requests(view);  // 0: not known
  if (prompts == 0 || requests <= prompts) return "";
  const int64_t least = requests / prompts, most = (requests + prompts - 1) / prompts;
  return fmt::format(
      "{} for {}: each is sent {} times, which favours prefix caching and proposers that remember earlier answers; "
      "workload.requests={} sends each once.",
      counted(prompts, "prompt"), counted(requests, "request"),
      least == most ? std::to_string(least) : fmt::format("{} or {}", least, most), prompts);
}

bool remembers_texts(const VerdictView& view) {
  return std::ranges::any_of(cells_that_ran(view), [&](const CellSummary* s) {
    const ProposerEntry* const proposer = find_proposer(view.cell(*s).axes.proposer);
    return proposer && proposer->remembers_texts;
  });
}

void add_cautions(const VerdictView& view, const Validity& validity, std::vector<VerdictSentence>& out) {
  add_certificates(view, out);
  const auto add = [&out](std::string text, bool bad = false) {
    out.push_back({VerdictKind::caution, std::move(text), bad});
  };
  // what made the headline too long
  if (const std::string disturbed = disturbed_text(view);
      !disturbed.empty() && validity_text(view, validity).find(disturbed) == std::string::npos)
    add(disturbed + ".", true);
  if (view.summary().finished())  // else said with how far it came
    for (const std::string& text : missing_baseline_texts(view)) add(text + ": their gain is not known.", true);
  int64_t oversubscribed = 0, random = 0, older = 0, without_baseline = 0, cold = 0;
  bool repeats = false;
  int fewest = std::numeric_limits<int>::max(), most = 0;
  double most_degenerate = 0;
  const std::vector<const CellSummary*> ran = cells_that_ran(view);
  for (const CellSummary* const s : ran) {
    const CellResult& cell = view.cell(*s);
    oversubscribed += cell.oversubscribed ? 1 : 0;
    without_baseline += cell.baseline_id.empty() ? 1 : 0;
    random += cell.random_weights ? 1 : 0;
    cold += has_no_warm_up(cell) ? 1 : 0;
    const bool is_served = s->repetitions > 0 && cell.repetitions.front().client;
    older += s->repetitions > 0 && !s->passes && !is_served ? 1 : 0;
    repeats |= s->repetitions > 1;
    fewest = std::min(fewest, s->repetitions);
    most = std::max(most, s->repetitions);
    most_degenerate = std::max(most_degenerate, s->degenerate_share.value_or(0));
  }
  if (random > 0)
    add(counted(random, "cell has", "cells have") +
            " random weights (load_format dummy): times are real; tokens, acceptance and certificate are not those of "
            "a trained model.",
        true);
  if (const WorkloadFacts& workload = view.run().workload; workload.bad_records > 0)
    add(fmt::format("{} left out of the data set (workload.skip_bad); the first: {}.",
                    counted(workload.bad_records, "bad record was", "bad records were"), workload.first_bad));
  if (without_baseline > 0)
    add(counted(without_baseline, "cell has", "cells have") +
            " no baseline: the plan left it out, so their gain is not known.",
        true);
  if (oversubscribed > 0)
    add(counted(oversubscribed, "cell ran", "cells ran") + " more threads than cores (oversubscribed): not ranked.");
  if (cold > 0)
    add(counted(cold, "cell", "cells") +
        " had no warm-up (measure.warmup_requests 0): the first repetition also pays for what is done once.");
  if (older > 0)
    add(counted(older, "cell was", "cells were") +
        " recorded before prefill and decode passes were told apart: bounds and break-even are not known.");
  add_served_cautions(view, ran, add);
  add_ratio_cautions(view, add);
  if (const std::string text = unknown_saturation_text(ran); !text.empty()) add(text);
  constexpr int kEnough = 7;
  if (most == 1)
    add("1 repetition only: there are no intervals, so no order of speeds is shown; use 3 or more.");
  else if (!ran.empty() && fewest < kEnough)
    add(fmt::format("{} repetitions: intervals are wide{}; use {} or more.",
                    fewest == most ? std::to_string(fewest) : fmt::format("Between {} and {}", fewest, most),
                    fewest == 1 ? " or missing" : "", kEnough));
  if (most_degenerate > 0.1)
    add(fmt::format("Up to {} of the outputs end in a loop, which flatters every proposer.",
                    percent_text(most_degenerate)));
  if (const std::string text = repeated_prompts_text(view); !text.empty() && !remembers_texts(view)) add(text);
  const int64_t prompts = view.run().workload.prompts, requests = most_requests(view);
  if (repeats && requests > 0)
    add(fmt::format(
        "Intervals cover timing noise{}, not prompts: all repetitions send the same {}.",
        std::ranges::any_of(ran, [&](const CellSummary* s) { return draws_anew(view.cell(*s)); }) ? " and draws" : "",
        counted(prompts > 0 ? std::min(prompts, requests) : requests, "prompt")));
}

}  // namespace paceline
