#include "experiments/analysis/open_loop_verdict.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "engine/util/counted.h"

namespace paceline {
namespace {

constexpr int64_t kMinRequestsForP99 = 1000;

bool is_saturated(const CellSummary& s) { return s.open_loop && s.open_loop->saturated.value_or(false); }

std::string milliseconds(const std::optional<double>& value) { return value ? fmt::format("{:.1f}", *value) : "–"; }

/// "ttft p50 12.1 ms, p90 30.2 ms"; p99 only where enough requests carry it.
std::string percentiles_text(const char* name, const Percentiles& p) {
  std::string text = fmt::format("{} p50 {} ms, p90 {} ms", name, milliseconds(p.p50), milliseconds(p.p90));
  if (p.count >= kMinRequestsForP99) text += fmt::format(", p99 {} ms", milliseconds(p.p99));
  return text;
}

/// "0.512/s", "3990/s"
std::string rate_text(const std::optional<double>& per_s) {
  const double value = per_s.value_or(0);
  return value < 100 ? fmt::format("{:.3g}/s", value) : fmt::format("{:.0f}/s", value);
}

std::string rates_text(const OpenLoopSummary& o) {
  return fmt::format("offered {}, achieved {}", rate_text(o.offered_rate_per_s), rate_text(o.achieved_rate_per_s));
}

/// Median E2E of each repetition.
std::vector<double> median_e2e(const CellResult& cell) {
  std::vector<double> medians;
  for (const RepetitionResult& r : cell.repetitions) {
    std::vector<double> e2e;
    for (const RequestRecord& q : r.requests) e2e.push_back(q.e2e_ms);
    medians.push_back(quantile(e2e, 0.5).value_or(0));
  }
  return medians;
}

/// Of a cell whose latencies do not depend on how long the run was.
bool has_steady_latency(const CellSummary& s) { return s.rankable && s.open_loop && !is_saturated(s) && s.e2e_ms.p50; }

/// What speculation adds to the cell of the lowest latency, or that it adds nothing.
std::string latency_gain(const VerdictView& view, const LoadGroup& group, const CellSummary& best) {
  if (const Claim* const row = view.claim(ClaimKind::over_baseline, best)) {
    std::string text = fmt::format("; decoding is {} as fast as its baseline's", interval_text(row->ratio));
    if (row->shown == Outcome::inconclusive) {
      const std::string why = view.not_shown_text(*row);
      text += ", not shown to differ" + (why.empty() ? "" : ": " + why);
    }
    const CellSummary* const base = view.baseline_of(best);
    if (base && is_saturated(*base)) text += "; the baseline does not keep up";
    return text;
  }
  if (view.speculates(best)) {
    const CellSummary* const base = view.baseline_of(best);
    return base && !view.cell(*base).repetitions.empty()
               ? "; its gain is not known, as outputs of one token have no decode times"
               : "; its baseline was not measured, so its gain is not known";
  }
  const bool any = std::any_of(group.cells.begin(), group.cells.end(),
                               [&](const CellSummary* s) { return has_steady_latency(*s) && view.speculates(*s); });
  return any ? "; no speculative cell that keeps up has a lower one" : "";
}

std::string best_latency(const VerdictView& view, const LoadGroup& group) {
  const CellSummary* const best = lowest_latency(view, group);
  if (!best) return fmt::format("Open loop, {}: no cell keeps up.", group.load);
  std::string text = fmt::format("Open loop, {}: lowest latency with {} ({}; {}", group.load, view.label(*best),
                                 percentiles_text("e2e", best->e2e_ms), percentiles_text("ttft", best->ttft_ms));
  text += fmt::format("; {})", rates_text(*best->open_loop)) + latency_gain(view, group, *best);
  std::vector<const CellSummary*> tied;
  const std::vector<double> lowest = median_e2e(view.cell(*best));
  for (const CellSummary* s : group.cells) {
    if (s == best || !has_steady_latency(*s)) continue;
    const auto ratio =
        ratio_of_repetitions(median_e2e(view.cell(*s)), lowest, pairing_of(view.cell(*s), view.cell(*best)));
    if (ratio && ratio->low && *ratio->low <= 1) tied.push_back(s);
  }
  if (!tied.empty()) text += fmt::format("; not shown to be higher: {}", view.labels(tied));
  return text + ". Compare latencies: below saturation tok/s is what was sent, whatever the engine.";
}

std::string saturation(const VerdictView& view) {
  std::string names;
  int count = 0;
  constexpr int kMostListed = 4;
  for (const CellSummary& s : view.summary().cells) {
    if (!is_saturated(s) || ++count > kMostListed) continue;
    names += fmt::format("{}{} at {} ({})", names.empty() ? "" : "; ", view.label(s), view.cell(s).load,
                         rates_text(*s.open_loop));
  }
  if (count == 0) return "";
  if (count > kMostListed) names += fmt::format("; and {} more", count - kMostListed);
  return fmt::format("Saturated: {}. The queue grows, so latencies depend on how long the run was; lower the rate.",
                     names);
}

/// By good requests a second, then by latency.
bool has_more_goodput(const CellSummary& a, const CellSummary& b) {
  const auto rank = [](const CellSummary& s) {
    return std::pair(s.goodput->rate_per_s.value_or(0),
                     -s.e2e_ms.p50.value_or(std::numeric_limits<double>::infinity()));
  };
  return rank(a) > rank(b);
}

/// Whether nothing shows that `other` has less goodput than `best`: the interval of the ratio holds 1; or, where all
/// that was sent at one rate is good in equal shares, or there is no interval, the shares are equal.
bool has_equal_goodput(const VerdictView& view, const CellSummary& best, const CellSummary& other) {
  const bool same_share = other.goodput->share == best.goodput->share;
  if (same_share && best.open_loop && other.open_loop) return true;
  const ServiceLevel& slo = view.run().slo;
  const std::optional<RatioInterval> ratio =
      ratio_of_repetitions(good_rates(view.cell(best), slo), good_rates(view.cell(other), slo),
                           pairing_of(view.cell(best), view.cell(other)));
  return ratio && ratio->low ? outcome_of(*ratio) == Outcome::inconclusive : same_share;
}

std::string best_goodput(const VerdictView& view, const LoadGroup& group) {
  const CellSummary *best = nullptr, *plain = nullptr;
  for (const CellSummary* s : group.cells) {
    if (!s->rankable || !s->goodput) continue;
    if (!best || has_more_goodput(*s, *best)) best = s;
    if (!view.speculates(*s) && (!plain || has_more_goodput(*s, *plain))) plain = s;
  }
  if (!best) return "";
  const std::string load = group.load == "closed" ? fmt::format("concurrency {}", group.concurrency) : group.load;
  std::string text = fmt::format("Goodput ({}), {}: ", slo_text(view.run().slo), load);
  if (best->goodput->share == 0) return text + "no request meets it.";
  const auto numbers = [](const CellSummary& s) {
    return fmt::format("{} good ({:.0f} % of requests)", rate_text(s.goodput->rate_per_s), 100 * s.goodput->share);
  };
  std::vector<const CellSummary*> equal = {best};
  for (const CellSummary* s : group.cells)
    if (s != best && s->rankable && s->goodput && has_equal_goodput(view, *best, *s)) equal.push_back(s);
  if (equal.size() == 1)
    text += fmt::format("most with {}, {}", view.label(*best), numbers(*best));
  else
    text += fmt::format("{} are not told apart, {}", view.labels(equal), numbers(*best));
  if (plain && std::find(equal.begin(), equal.end(), plain) == equal.end())
    text += fmt::format("; without speculation {}", numbers(*plain));
  return text + ".";
}

}  // namespace

const CellSummary* lowest_latency(const VerdictView& view, const LoadGroup& group, Among among) {
  const CellSummary* best = nullptr;
  for (const CellSummary* s : group.cells) {
    if (has_steady_latency(*s) && view.is_among(*s, among) && (!best || *s->e2e_ms.p50 < *best->e2e_ms.p50)) best = s;
  }
  return best;
}

void add_open_loops(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const LoadGroup& group : view.groups()) {
    const bool is_open = std::any_of(group.cells.begin(), group.cells.end(),
                                     [](const CellSummary* s) { return s->rankable && s->open_loop; });
    if (is_open) out.push_back({VerdictKind::best, best_latency(view, group)});
  }
  if (std::string text = saturation(view); !text.empty()) out.push_back({VerdictKind::caution, std::move(text)});
}

void add_goodput(const VerdictView& view, std::vector<VerdictSentence>& out) {
  if (view.run().slo.empty()) return;
  for (const LoadGroup& group : view.groups()) {
    if (std::string text = best_goodput(view, group); !text.empty())
      out.push_back({VerdictKind::best, std::move(text)});
  }
}

}  // namespace paceline
