#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

/// The cells of Report::fastest() under one load, by placement.
struct Load {
  std::string title;  // "Concurrency 4", "poisson 2/s"
  bool is_open = false;
  std::vector<const CellSummary*> cells;
};

std::vector<Load> loads_of(const Report& report) {
  std::vector<const CellSummary*> cells = report.fastest();
  std::ranges::stable_sort(cells, {}, [&](const CellSummary* s) {
    const CellAxes& axes = report.cell(*s).axes;
    return std::array{axes.concurrency, axes.tp, axes.pp};
  });
  std::vector<Load> loads;
  for (const CellSummary* s : cells) {
    const CellResult& cell = report.cell(*s);
    const std::string title =
        cell.load == "closed" ? fmt::format("Concurrency {}", cell.axes.concurrency) : html_escaped(cell.load);
    auto known = std::ranges::find(loads, title, &Load::title);
    if (known == loads.end())
      known = loads.insert(known, {.title = title, .is_open = s->open_loop.has_value(), .cells = {}});
    known->cells.push_back(s);
  }
  return loads;
}

/// A bar; `text` without what makes the cell one that is not ranked, or whose latencies grow.
BarRow bar_row(const Report& report, const CellSummary& s, double value, std::string text) {
  const CellAxes& axes = report.cell(s).axes;
  const bool saturated = s.is_saturated();
  if (saturated) text += " (saturated)";
  if (!s.rankable) text += " (" + s.not_rankable + ")";
  return {.group = placement(axes),
          .label = report.method(axes),
          .value = value,
          .low = {},
          .high = {},
          .color = report.color(s),
          .faded = saturated || !s.rankable,
          .text = std::move(text)};
}

std::string rate_chart(const Report& report, const Load& load) {
  BarChart chart{.title = "Output tokens per second",
                 .x_label = "output tokens per second (prefill included)",
                 .rows = {},
                 .scale_to = {}};
  for (const CellSummary* s : load.cells) {
    const std::optional<Interval>& interval = s->output_tok_s_interval;
    std::string text = fmt::format("{:.1f}", *s->output_tok_s);
    if (interval) text += fmt::format(" [{:.0f}, {:.0f}]", interval->low, interval->high);
    if (const CellResult& cell = report.cell(*s); s->speedup && cell.baseline_id != cell.id)
      text += fmt::format(" · {:.2f}×", s->speedup->ratio);
    BarRow& row = chart.rows.emplace_back(bar_row(report, *s, *s->output_tok_s, std::move(text)));
    if (!interval) continue;
    row.low = interval->low;
    row.high = interval->high;
    cut_whisker(row);
  }
  return wide(chart.title, svg_bar_chart(chart));
}

std::string goodput_chart(const Report& report, const Load& load) {
  BarChart chart{.title = "Goodput",
                 .x_label = fmt::format("requests per second with {}", slo_text(report.run.slo)),
                 .rows = {},
                 .scale_to = {}};
  for (const CellSummary* s : load.cells) {
    if (!s->goodput || !s->goodput->rate_per_s) continue;
    chart.rows.push_back(
        bar_row(report, *s, *s->goodput->rate_per_s,
                fmt::format("{:.2f}, {:.0f} % of all", *s->goodput->rate_per_s, 100 * s->goodput->share)));
  }
  return chart.rows.empty() ? "" : "<h4>Goodput</h4>" + wide(chart.title, svg_bar_chart(chart));
}

struct Latency {
  const char* title;
  const char* x_label;
  Percentiles CellSummary::*of;
  int digits;
};
const std::array<Latency, 3> kLatencies = {{
    {"TTFT", "time to first token, ms", &CellSummary::ttft_ms, 1},
    {"TPOT", "time per output token, ms", &CellSummary::tpot_ms, 2},
    {"E2E", "end-to-end latency of a request, ms", &CellSummary::e2e_ms, 1},
}};

std::string latency_chart(const Report& report, const Load& load, const Latency& latency) {
  BarChart chart{.title = latency.title, .x_label = latency.x_label, .rows = {}, .scale_to = {}};
  for (const CellSummary* s : load.cells) {
    const Percentiles& ms = s->*latency.of;
    if (!ms.p50) continue;
    std::string text =
        fmt::format("{}, p90 {}", number_text(ms.p50, latency.digits), number_text(ms.p90, latency.digits));
    const CellResult& cell = report.cell(*s);
    if (latency.of == &CellSummary::tpot_ms && s->decode_speedup && cell.baseline_id != cell.id)
      text += fmt::format(" · decode speedup {:.2f}×", s->decode_speedup->ratio);
    BarRow row = bar_row(report, *s, *ms.p50, std::move(text));
    row.low = ms.p50;
    row.high = ms.p90;
    chart.rows.push_back(std::move(row));
  }
  return chart.rows.empty() ? "" : fmt::format("<h4>{}</h4>", chart.title) + wide(chart.title, svg_bar_chart(chart));
}

/// What was asked of an open loop; its tok/s is what was sent.
std::string open_loop_charts(const Report& report, const Load& load) {
  std::string charts = goodput_chart(report, load);
  for (const Latency& latency : kLatencies) charts += latency_chart(report, load, latency);
  return charts;
}

/// A sweep of rates, as it is drawn.
struct RateLine {
  const RateSweep* sweep = nullptr;
  std::string place;  // of the chart
  int color = 0;
  LineStyle style = LineStyle::solid;  // tells apart what has one colour in one place: several k of a proposer
};

/// Of the sweeps of which some cell is the best of its proposer.
std::vector<RateLine> rate_lines(const Report& report) {
  constexpr LineStyle kStyles[] = {LineStyle::solid, LineStyle::dashed, LineStyle::dash_dotted, LineStyle::dotted};
  const std::set<const CellSummary*> fastest(report.fastest().begin(), report.fastest().end());
  std::map<std::pair<std::string, int>, size_t> num_lines;  // of a place and a colour
  std::vector<RateLine> lines;
  for (const RateSweep& sweep : report.view.rate_sweeps()) {
    if (std::ranges::none_of(sweep.points, [&](const auto& point) { return fastest.contains(point.cell); })) continue;
    const CellSummary& first = *sweep.points.front().cell;
    RateLine line{.sweep = &sweep, .place = placement(report.cell(first).axes), .color = report.color(first)};
    line.style = kStyles[num_lines[{line.place, line.color}]++ % std::size(kStyles)];
    lines.push_back(std::move(line));
  }
  return lines;
}

/// A chart for each placement.
std::string over_rates(const Report& report, const std::vector<RateLine>& drawn, const char* title, const char* y_label,
                       const std::function<std::optional<double>(const CellSummary&)>& y_of) {
  nlohmann::ordered_map<std::string, std::vector<LineSeries>> places;
  for (const RateLine& line : drawn) {
    const std::string& name = line.sweep->name;
    LineSeries series{.name = name, .color = line.color, .style = line.style};
    for (const auto& [rate_per_s, cell] : line.sweep->points) {
      const std::optional<double> y = report.is_done(*cell) ? y_of(*cell) : std::nullopt;
      if (!y) continue;
      series.points.push_back({.x = rate_per_s,
                               .y = *y,
                               .faded = !cell->rankable || cell->is_saturated(),
                               .tooltip = fmt::format("{} at {:g}/s: {:.3g}{}", name, rate_per_s, *y,
                                                      cell->is_saturated() ? " (saturated)" : "")});
    }
    if (!series.points.empty()) places[line.place].push_back(std::move(series));
  }
  std::string out;
  for (auto& [place, lines] : places) {
    std::set<double> rates;
    double y_max = 0;
    for (const LineSeries& line : lines)
      for (const LinePoint& point : line.points) {
        rates.insert(point.x);
        y_max = std::max(y_max, point.y);
      }
    out += svg_line_chart({.title = places.size() > 1 ? fmt::format("{}, {}", title, place) : title,
                           .x_label = "requests per second, sent",
                           .y_label = y_label,
                           .x_ticks = {rates.begin(), rates.end()},
                           .y_max = nice_ticks(0, y_max, 5).back(),
                           .series = std::move(lines),
                           .width = 292,
                           .height = 200});
  }
  return out;
}

/// What rises with the rate; empty: there is one.
std::string rate_curves(const Report& report) {
  const std::vector<RateLine> lines = rate_lines(report);
  if (lines.empty()) return "";
  std::vector<LegendEntry> legend;
  for (const RateLine& line : lines)
    legend.push_back({.name = line.sweep->name, .color = line.color, .style = line.style});
  std::string charts;
  if (!report.run.slo.empty())
    charts += over_rates(report, lines, "Good requests", "share", [](const CellSummary& s) {
      return s.goodput ? std::optional(s.goodput->share) : std::nullopt;
    });
  charts +=
      over_rates(report, lines, "TTFT, 90th percentile", "ms", [](const CellSummary& s) { return s.ttft_ms.p90; });
  charts +=
      over_rates(report, lines, "TPOT, 90th percentile", "ms", [](const CellSummary& s) { return s.tpot_ms.p90; });
  return "<h3>Over the rate</h3>" + chart_legend(legend) + grid(charts);
}

}  // namespace

Section headline_section(const Report& report) {
  Section section{"headline", "Speed at a glance", ""};
  const std::vector<Load> loads = loads_of(report);
  if (loads.empty()) return section;
  const auto num_open = std::count_if(loads.begin(), loads.end(), [](const Load& load) { return load.is_open; });
  if (num_open == std::ssize(loads)) section.title = "Latency at a glance";
  section.body += rate_curves(report);
  for (const Load& load : loads) {
    if (loads.size() > 1) section.body += fmt::format("<h3>{}</h3>", load.title);
    section.body += load.is_open ? open_loop_charts(report, load) : rate_chart(report, load);
  }
  if (num_open < std::ssize(loads))
    section.body += note(fmt::format(
        "Each proposer at the k that was fastest for its placement; all k are in the table. Whiskers and "
        "brackets: 95 % intervals, Student t on log tok/s over repetitions. ×: speedup over the baseline: "
        "{}. Arrowhead: the interval continues; its whisker is cut at 1.5 times the bar. Faded: not ranked.",
        report.baseline_text()));
  if (num_open > 0)
    section.body += note(
        "Open loops: each proposer at the k with the lowest median E2E latency, over the rate each k that has it at "
        "some rate; all k are in the table. Bars of "
        "latencies end at the median, whiskers at the 90th percentile. decode speedup: the baseline's mean time per "
        "output token over the cell's. There is no tok/s: the arrival rate sets it. Faded: not ranked, or saturated "
        "(the queue grew, so latencies depend on the length of the run).");
  return section;
}

Section published_section(const Report& report) {
  const Table published = published_table(report.run, report.summary);
  return {"published", "Beside what others measured", published.rows.empty() ? "" : html_table(published)};
}

}  // namespace paceline::html
