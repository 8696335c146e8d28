#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/analysis/verdict/parts.h"

namespace paceline {
namespace {

constexpr int64_t kMinRequestsForP99 = 1000;

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

/// What speculation adds to the cell of the lowest latency, or that it adds nothing.
std::string latency_gain(const VerdictView& view, const LoadGroup& group, const CellSummary& best) {
  if (const Claim* const row = view.claim(ClaimKind::over_baseline, best)) {
    std::string text = fmt::format("; decoding is {} as fast as its baseline's", interval_text(row->ratio));
    if (row->shown == Outcome::inconclusive) {
      const std::string why = view.not_shown_text(*row);
      text += ", not shown to differ" + (why.empty() ? "" : ": " + why);
    }
    const CellSummary* const base = view.baseline_of(best);
    if (base && base->is_saturated()) text += "; the baseline does not keep up";
    return text;
  }
  if (view.speculates(best)) {
    const CellSummary* const base = view.baseline_of(best);
    return base && !view.cell(*base).repetitions.empty()
               ? "; its gain is not known, as outputs of one token have no decode times"
               : "; its baseline was not measured, so its gain is not known";
  }
  return best_of(view, group, PickKind::latency, Among::speculative)
             ? "; no speculative cell that keeps up has a lower one"
             : "";
}

std::string best_latency(const VerdictView& view, const LoadGroup& group) {
  const Pick* const pick = view.pick(PickKind::latency, group);
  if (!pick) return fmt::format("Open loop, {}: no cell keeps up.", group.load);
  const CellSummary& best = pick->best();
  std::string text = fmt::format("Open loop, {}: lowest latency with {} ({}; {}", group.load, view.label(best),
                                 percentiles_text("e2e", best.e2e_ms), percentiles_text("ttft", best.ttft_ms));
  text += fmt::format("; {})", rates_text(*best.open_loop)) + latency_gain(view, group, best);
  if (pick->cells.size() > 1)
    text += fmt::format("; not shown to be higher: {}", view.labels({pick->cells.begin() + 1, pick->cells.end()}));
  return text + ". Compare latencies: below saturation tok/s is what was sent, whatever the engine.";
}

std::string saturation(const VerdictView& view) {
  std::string names;
  int count = 0;
  constexpr int kMostListed = 4;
  for (const CellSummary& s : view.summary().cells) {
    if (!s.is_saturated() || ++count > kMostListed) continue;
    names += fmt::format("{}{} at {} ({})", names.empty() ? "" : "; ", view.label(s), view.cell(s).load,
                         rates_text(*s.open_loop));
  }
  if (count == 0) return "";
  if (count > kMostListed) names += fmt::format("; and {} more", count - kMostListed);
  return fmt::format("Saturated: {}. The queue grows, so latencies depend on how long the run was; lower the rate.",
                     names);
}

std::string best_goodput(const VerdictView& view, const Pick& pick) {
  const LoadGroup& group = *pick.group;
  const std::string load = group.load == "closed" ? fmt::format("concurrency {}", group.concurrency) : group.load;
  std::string text = fmt::format("Goodput ({}), {}: ", slo_text(view.run().slo), load);
  if (pick.best().goodput->share == 0) return text + "no request meets it.";
  const auto numbers = [](const CellSummary& s) {
    return fmt::format("{} good ({:.0f} % of requests)", rate_text(s.goodput->rate_per_s), 100 * s.goodput->share);
  };
  if (pick.cells.size() == 1)
    text += fmt::format("most with {}, {}", view.label(pick.best()), numbers(pick.best()));
  else
    text += fmt::format("{} are not told apart, {}", view.labels(pick.cells), numbers(pick.best()));
  const CellSummary* const plain = best_of(view, group, PickKind::goodput, Among::plain);
  if (plain && std::find(pick.cells.begin(), pick.cells.end(), plain) == pick.cells.end())
    text += fmt::format("; without speculation {}", numbers(*plain));
  return text + ".";
}

}  // namespace

void add_open_loops(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const LoadGroup& group : view.groups()) {
    const bool is_open = std::any_of(group.cells.begin(), group.cells.end(),
                                     [](const CellSummary* s) { return s->rankable && s->open_loop; });
    if (is_open) out.push_back({VerdictKind::best, best_latency(view, group)});
  }
  if (std::string text = saturation(view); !text.empty()) out.push_back({VerdictKind::caution, std::move(text)});
}

void add_goodput(const VerdictView& view, std::vector<VerdictSentence>& out) {
  for (const Pick& pick : view.picks())
    if (pick.kind == PickKind::goodput) out.push_back({VerdictKind::best, best_goodput(view, pick)});
}

}  // namespace paceline
