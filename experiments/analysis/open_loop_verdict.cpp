#include "experiments/analysis/open_loop_verdict.h"

#include <algorithm>

#include <fmt/format.h>

namespace paceline {
namespace {

constexpr int64_t kMinRequestsForP99 = 1000;

/// Without the load, which the sentence names.
std::string label_of(const CellResult& cell) {
  const CellAxes& axes = cell.axes;
  std::string text =
      fmt::format("tp{} pp{} {}", axes.tp, axes.pp, axes.variant == cell.load ? axes.proposer : proposer_label(axes));
  if (axes.num_speculative_tokens) text += fmt::format(" k={}", *axes.num_speculative_tokens);
  return text;
}

/// Loads of cells that may be ranked, in the order of the plan.
std::vector<std::string> loads_of(const RunResult& run, const RunSummary& summary, bool open_only) {
  std::vector<std::string> loads;
  for (const CellSummary& s : summary.cells) {
    const std::string& load = run.cells[s.cell].load;
    if (s.rankable && (s.open_loop || !open_only) && std::find(loads.begin(), loads.end(), load) == loads.end())
      loads.push_back(load);
  }
  return loads;
}

bool is_saturated(const CellSummary& s) { return s.open_loop && s.open_loop->saturated.value_or(false); }

std::string milliseconds(const std::optional<double>& value) { return value ? fmt::format("{:.1f}", *value) : "–"; }

/// "ttft p50 12.1 ms, p90 30.2 ms"; p99 only where enough requests carry it.
std::string percentiles_text(const char* name, const Percentiles& p) {
  std::string text = fmt::format("{} p50 {} ms, p90 {} ms", name, milliseconds(p.p50), milliseconds(p.p90));
  if (p.count >= kMinRequestsForP99) text += fmt::format(", p99 {} ms", milliseconds(p.p99));
  return text;
}

std::string rates_text(const OpenLoopSummary& o) {
  return fmt::format("offered {:.3g}/s, achieved {:.3g}/s", o.offered_rate_per_s.value_or(0),
                     o.achieved_rate_per_s.value_or(0));
}

const CellSummary* find_cell(const RunResult& run, const RunSummary& summary, const std::string& id) {
  const auto found = std::find_if(summary.cells.begin(), summary.cells.end(),
                                  [&](const CellSummary& s) { return run.cells[s.cell].id == id; });
  return found == summary.cells.end() ? nullptr : &*found;
}

std::string best_latency(const RunResult& run, const RunSummary& summary, const std::string& load) {
  const CellSummary* best = nullptr;
  for (const CellSummary& s : summary.cells) {
    if (!s.rankable || !s.open_loop || run.cells[s.cell].load != load || is_saturated(s) || !s.e2e_ms.p50) continue;
    if (!best || *s.e2e_ms.p50 < *best->e2e_ms.p50) best = &s;
  }
  if (!best) return fmt::format("Open loop, {}: no cell keeps up.", load);
  const CellResult& cell = run.cells[best->cell];
  std::string text = fmt::format("Open loop, {}: lowest latency with {} ({}; {}", load, label_of(cell),
                                 percentiles_text("e2e", best->e2e_ms), percentiles_text("ttft", best->ttft_ms));
  text += fmt::format("; {})", rates_text(*best->open_loop));
  if (best->outcome == Outcome::baseline || best->outcome == Outcome::none) {
    text += "; no speculative cell has a lower one";
  } else if (best->decode_speedup) {
    text += fmt::format("; decoding is {} as fast as its baseline's{}", interval_text(*best->decode_speedup),
                        best->outcome == Outcome::inconclusive ? " (inconclusive)" : "");
    const CellSummary* const base = find_cell(run, summary, cell.baseline_id);
    if (base && is_saturated(*base)) text += "; the baseline does not keep up";
  }
  return text + ". Compare latencies: below saturation tok/s is what was sent, whatever the engine.";
}

std::string saturation(const RunResult& run, const RunSummary& summary) {
  std::string names;
  int count = 0;
  constexpr int kMostListed = 4;
  for (const CellSummary& s : summary.cells) {
    if (!is_saturated(s) || ++count > kMostListed) continue;
    const CellResult& cell = run.cells[s.cell];
    names +=
        fmt::format("{}{} at {} ({})", names.empty() ? "" : "; ", label_of(cell), cell.load, rates_text(*s.open_loop));
  }
  if (count == 0) return "";
  if (count > kMostListed) names += fmt::format("; and {} more", count - kMostListed);
  return fmt::format("Saturated: {}. The queue grows, so latencies depend on how long the run was; lower the rate.",
                     names);
}

}  // namespace

void add_open_loops(const RunResult& run, const RunSummary& summary, std::vector<VerdictSentence>& out) {
  for (const std::string& load : loads_of(run, summary, /*open_only=*/true))
    out.push_back({VerdictKind::best, best_latency(run, summary, load)});
  if (std::string text = saturation(run, summary); !text.empty())
    out.push_back({VerdictKind::caution, std::move(text)});
}

void add_goodput(const RunResult& run, const RunSummary& summary, std::vector<VerdictSentence>& out) {
  if (run.slo.empty()) return;
  for (const std::string& load : loads_of(run, summary, /*open_only=*/false)) {
    const CellSummary *best = nullptr, *plain = nullptr;
    const auto better = [](const CellSummary* a, const CellSummary& b) {
      return !a || b.goodput->share > a->goodput->share;
    };
    for (const CellSummary& s : summary.cells) {
      const CellResult& cell = run.cells[s.cell];
      if (!s.rankable || !s.goodput || cell.load != load) continue;
      if (better(best, s)) best = &s;
      if (cell.axes.proposer == "none" && better(plain, s)) plain = &s;
    }
    if (!best) continue;
    if (best->goodput->share == 0) {
      out.push_back(
          {VerdictKind::best, fmt::format("Goodput ({}), {}: no request meets it.", slo_text(run.slo), load)});
      continue;
    }
    const auto numbers = [&](const CellSummary& s) {
      return fmt::format("{:.0f} % of requests, {:.3g}/s", 100 * s.goodput->share, s.goodput->rate_per_s.value_or(0));
    };
    std::string text = fmt::format("Goodput ({}), {}: most with {}, {}", slo_text(run.slo), load,
                                   label_of(run.cells[best->cell]), numbers(*best));
    if (plain && plain != best) text += fmt::format("; without speculation {}", numbers(*plain));
    out.push_back({VerdictKind::best, text + "."});
  }
}

void add_categories(const RunResult& run, const RunSummary& summary, std::vector<VerdictSentence>& out) {
  const CellSummary* best = nullptr;
  for (const CellSummary& s : summary.cells) {
    if (!s.rankable || s.categories.empty() || !s.decode_speedup || run.cells[s.cell].axes.proposer == "none") continue;
    if (!best || s.decode_speedup->ratio > best->decode_speedup->ratio) best = &s;
  }
  if (!best) return;
  std::vector<const CategorySummary*> order;
  for (const CategorySummary& c : best->categories) {
    if (c.decode_speedup) order.push_back(&c);
  }
  if (order.size() < 2) return;
  std::stable_sort(order.begin(), order.end(), [](const CategorySummary* a, const CategorySummary* b) {
    return a->decode_speedup->ratio > b->decode_speedup->ratio;
  });
  std::string text = fmt::format("By category, decoding with {}:", label_of(run.cells[best->cell]));
  constexpr size_t kMostListed = 12;
  for (size_t i = 0; i < std::min(kMostListed, order.size()); ++i)
    text += fmt::format("{} {} {:.2f}×", i == 0 ? "" : ",", order[i]->category.empty() ? "(none)" : order[i]->category,
                        order[i]->decode_speedup->ratio);
  if (order.size() > kMostListed) text += fmt::format(" and {} more", order.size() - kMostListed);
  out.push_back({VerdictKind::best, text + "."});
}

}  // namespace paceline
