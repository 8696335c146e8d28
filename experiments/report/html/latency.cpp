#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"

namespace paceline::html {

namespace {

constexpr size_t kMostLatencyPlaces = 12;
constexpr std::array<const char*, 4> kLatencyNames = {"TTFT", "TPOT", "ITL", "E2E"};

/// [kLatencyNames] in ms, of all requests and repetitions.
using LatencySamples = std::array<std::vector<double>, kLatencyNames.size()>;

LatencySamples latencies_of(const CellResult& cell) {
  LatencySamples samples;
  auto& [ttft, tpot, itl, e2e] = samples;
  for (const RepetitionResult& repetition : cell.repetitions) {
    for (const RequestRecord& request : repetition.requests) {
      if (std::isfinite(request.ttft_ms)) ttft.push_back(request.ttft_ms);
      if (const auto ms = tpot_ms(request)) tpot.push_back(*ms);
      itl.insert(itl.end(), request.itl_ms.begin(), request.itl_ms.end());
      e2e.push_back(request.e2e_ms);
    }
  }
  for (std::vector<double>& each : samples) std::sort(each.begin(), each.end());
  return samples;
}

/// The distribution's curve with marks at p50 and p90. It ends at the 99th percentile: the axis would belong to one
/// outlier otherwise.
LineSeries curve(const Report& report, const CellSummary& s, const std::vector<double>& samples) {
  const CellAxes& axes = report.cell(s).axes;
  LineSeries series{.name = report.method(axes), .color = report.color(s)};
  for (int step = 0; step <= 99; step += 3) {
    const int percent = step == 51 ? 50 : step;
    const double q = percent / 100.0, value = *quantile(samples, q);
    const bool mark = percent == 50 || percent == 90;
    series.points.push_back(
        {.x = value,
         .y = q,
         .faded = !s.rankable,
         .mark = mark,
         .tooltip = mark ? fmt::format("{}: {} % within {:.3g} ms", report.label(axes), percent, value) : ""});
  }
  return series;
}

/// The legend of the cells and a chart for each latency.
std::string curves(const Report& report, const std::vector<const CellSummary*>& cells) {
  std::array<LineChart, kLatencyNames.size()> charts;
  std::vector<LegendEntry> legend;
  for (const CellSummary* s : cells) {
    legend.push_back({.name = report.method(report.cell(*s).axes), .color = report.color(*s)});
    const LatencySamples samples = latencies_of(report.cell(*s));
    for (size_t i = 0; i < charts.size(); ++i)
      if (!samples[i].empty()) charts[i].series.push_back(curve(report, *s, samples[i]));
  }
  std::string out;
  for (size_t i = 0; i < charts.size(); ++i) {
    LineChart& chart = charts[i];
    if (chart.series.empty()) continue;
    double high = 0;
    for (const LineSeries& series : chart.series) high = std::max(high, series.points.back().x);
    chart.title = kLatencyNames[i];
    chart.x_label = "milliseconds";
    chart.y_label = chart.title == "ITL" ? "share of gaps" : "share of requests";
    chart.x_ticks = nice_ticks(0, high, 5);
    chart.x_edges = XEdges::tight;
    chart.width = 292;
    chart.height = 200;
    out += svg_line_chart(chart);
  }
  return chart_legend(legend) + grid(out);
}

std::string curves_by_place(const Report& report) {
  std::vector<std::pair<std::string, std::vector<const CellSummary*>>> places;
  for (const CellSummary* s : report.fastest()) {
    const CellAxes& axes = report.cell(*s).axes;
    group_of(places, report.place(axes) + (axes.variant.empty() ? "" : ", " + axes.variant)).push_back(s);
  }
  std::string out;
  for (size_t i = 0; i < std::min(places.size(), kMostLatencyPlaces); ++i)
    out += "<h3>" + html_escaped(places[i].first) + "</h3>" + curves(report, places[i].second);
  if (places.size() > kMostLatencyPlaces)
    out += note(fmt::format("{} more places are in the table only.", places.size() - kMostLatencyPlaces));
  return out;
}

/// Up to which rate each keeps report.slo, as a list.
std::string kept_rates(const Report& report) {
  std::string out;
  for (const KeptRates& rates : report.view.kept_rates())
    out += "<li>" + html_escaped(fmt::format("{}: {}", rates.name, shares_text(rates))) + "</li>";
  if (out.empty()) return "";
  return "<h3>Rates that keep the limits</h3><ul>" + out + "</ul>" +
         note(fmt::format(
             "Share of requests with {} at each rate; a rate is kept where the 95 % interval of that share lies at {} "
             "or "
             "above, missed where it lies below, and not decided where it holds that share, or lies above it with one "
             "repetition. Requests of one queue are late together, which few repetitions do not show: repeat near the "
             "limit.",
             html_escaped(slo_text(report.run.slo)), attainment_text(report.run.slo)));
}

}  // namespace

Section latency_section(const Report& report) {
  Section section{"latency", "Latency"};
  const auto cells = report.done_cells();
  if (cells.empty()) return section;
  CellColumns columns;
  for (const auto& [name, ms] :
       {std::pair("TTFT", &CellSummary::ttft_ms), {"TPOT", &CellSummary::tpot_ms}, {"ITL", &CellSummary::itl_ms}})
    for (const auto& [which, value] :
         {std::pair("p50", &Percentiles::p50), {"p90", &Percentiles::p90}, {"p99", &Percentiles::p99}})
      columns.push_back({fmt::format("{} {}", name, which), "", [ms = ms, value = value](const CellSummary& s) {
                           return number((s.*ms).*value, ms == &CellSummary::ttft_ms ? 1 : 2);
                         }});
  columns.push_back({"E2E p50", "", [](const CellSummary& s) { return number(s.e2e_ms.p50, 1); }});
  columns.push_back(
      {"compute share", "draft + verify + sample, share of the sampling rank's time", field(&CellSummary::busy, 2)});
  if (!report.run.slo.empty()) {
    columns.push_back({"good", "share of requests that meet report.slo", [](const CellSummary& s) {
                         return percent(s.goodput ? std::optional(s.goodput->share) : std::nullopt);
                       }});
    columns.push_back(
        {"good req/s", "requests that meet report.slo, per second of wall time",
         [](const CellSummary& s) { return number(s.goodput ? s.goodput->rate_per_s : std::nullopt, 2); }});
  }
  const auto fewest = std::min_element(cells.begin(), cells.end(), [](const CellSummary* a, const CellSummary* b) {
    return a->num_requests < b->num_requests;
  });
  section.body =
      kept_rates(report) + curves_by_place(report) +
      note(
          "Share of requests (ITL: of gaps) at or below the time on the x-axis. Marks: median and 90th percentile. "
          "Each proposer at its fastest k.") +
      html_table(table_of(report, "Milliseconds over all requests and repetitions.", cells, columns), "sortable") +
      note(
          "TTFT: submit to first token. TPOT: (E2E − TTFT) / (tokens − 1). ITL: gap between two moments at which a "
          "request gets tokens; with drafts it may get several at once, so compare cells by TPOT. compute share: share "
          "of the sampling rank's time spent drafting, verifying and sampling." +
          ((*fewest)->num_requests < 1000
               ? fmt::format(" With {} requests in a cell, p99 is close to the maximum.", (*fewest)->num_requests)
               : "") +
          (report.run.slo.empty() ? " No goodput: report.slo is not set."
                                  : fmt::format(" good: requests with {}.", html_escaped(slo_text(report.run.slo)))));
  return section;
}

}  // namespace paceline::html
