#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"

namespace paceline::html {

namespace {

constexpr size_t kMostLatencyPlaces = 12;

/// Of a curve, ascending. It ends at the 99th percentile: the axis would belong to one outlier otherwise.
std::vector<double> shown_quantiles() {
  std::vector<double> quantiles;
  for (int percent = 0; percent <= 99; percent += 3) {
    if (percent == 51) quantiles.push_back(0.5);
    quantiles.push_back(percent / 100.0);
  }
  return quantiles;
}

using Samples = std::vector<double>;  // ms

struct Metric {
  const char* name;
  Samples (*of)(const CellResult& cell);
};

template <class Add>
Samples collect(const CellResult& cell, Add&& add) {
  Samples samples;
  for (const RepetitionResult& repetition : cell.repetitions)
    for (const RequestRecord& request : repetition.requests) add(request, samples);
  return samples;
}

const std::array<Metric, 4> kMetrics = {{
    {"TTFT",
     [](const CellResult& cell) {
       return collect(cell, [](const RequestRecord& q, Samples& out) { out.push_back(q.ttft_ms); });
     }},
    {"TPOT",
     [](const CellResult& cell) {
       return collect(cell, [](const RequestRecord& q, Samples& out) {
         if (const auto tpot = tpot_ms(q)) out.push_back(*tpot);
       });
     }},
    {"ITL",
     [](const CellResult& cell) {
       return collect(
           cell, [](const RequestRecord& q, Samples& out) { out.insert(out.end(), q.itl_ms.begin(), q.itl_ms.end()); });
     }},
    {"E2E",
     [](const CellResult& cell) {
       return collect(cell, [](const RequestRecord& q, Samples& out) { out.push_back(q.e2e_ms); });
     }},
}};

/// The distribution's curve with marks at p50 and p90.
LineSeries curve(const Report& report, const CellSummary& s, Samples samples) {
  const CellAxes& axes = report.cell(s).axes;
  const int color = report.color(s);
  LineSeries series{.name = report.method(axes),
                    .color = color,
                    .shape = {},
                    .style = LineStyle::solid,
                    .markers = true,
                    .points = {}};
  std::sort(samples.begin(), samples.end());
  for (double q : shown_quantiles()) {
    const bool mark = q == 0.5 || q == 0.9;
    const double value = *quantile(samples, q);
    series.points.push_back(
        {.x = value,
         .y = q,
         .low = {},
         .high = {},
         .faded = !s.rankable,
         .mark = mark,
         .tooltip = mark ? fmt::format("{}: {:.0f} % within {:.3g} ms", report.label(axes), 100 * q, value) : ""});
  }
  return series;
}

std::string cdf_chart(const Report& report, const Metric& metric, const std::vector<const CellSummary*>& cells) {
  LineChart chart{.title = metric.name,
                  .x_label = "milliseconds",
                  .y_label = fmt::format("share of {} within", metric.name),
                  .x_ticks = {},
                  .x_tick_texts = {},
                  .x_edges = XEdges::tight,
                  .reference = {},
                  .series = {},
                  .width = 292,
                  .height = 200};
  double high = 0;
  for (const CellSummary* s : cells) {
    Samples samples = metric.of(report.cell(*s));
    if (samples.empty()) continue;
    chart.series.push_back(curve(report, *s, std::move(samples)));
    high = std::max(high, chart.series.back().points.back().x);
  }
  if (chart.series.empty()) return "";
  chart.x_ticks = nice_ticks(0, high, 5);
  return svg_line_chart(chart);
}

std::string cdfs(const Report& report) {
  std::vector<std::pair<std::string, std::vector<const CellSummary*>>> places;
  for (const CellSummary* s : report.fastest()) {
    const CellAxes& axes = report.cell(*s).axes;
    const std::string place = report.place(axes) + (axes.variant.empty() ? "" : ", " + axes.variant);
    auto known = std::find_if(places.begin(), places.end(), [&](const auto& p) { return p.first == place; });
    if (known == places.end()) known = places.insert(places.end(), {place, {}});
    known->second.push_back(s);
  }
  std::string out;
  for (size_t i = 0; i < std::min(places.size(), kMostLatencyPlaces); ++i) {
    const auto& [place, cells] = places[i];
    std::vector<LegendEntry> legend;
    for (const CellSummary* s : cells) {
      const CellAxes& axes = report.cell(*s).axes;
      legend.push_back({.name = report.method(axes), .color = report.color(*s)});
    }
    std::string charts;
    for (const Metric& metric : kMetrics) charts += cdf_chart(report, metric, cells);
    out += "<h3>" + html_escaped(place) + "</h3>" + chart_legend(legend) + grid(charts);
  }
  if (places.size() > kMostLatencyPlaces)
    out += note(fmt::format("{} more places are in the table only.", places.size() - kMostLatencyPlaces));
  return out;
}

}  // namespace

Section latency_section(const Report& report) {
  Section section{"latency", "Latency", ""};
  const bool has_limits = !report.run.slo.empty();
  std::string body;
  int64_t fewest = 0;
  for (const CellSummary& s : report.summary.cells) {
    if (!report.is_done(s)) continue;
    const CellResult& cell = report.cell(s);
    body += row_open(cell, s) + axes_cells(cell.axes);
    for (const Percentiles* p : {&s.ttft_ms, &s.tpot_ms, &s.itl_ms}) {
      const int digits = p == &s.ttft_ms ? 1 : 2;
      body += number_cell(p->p50, digits) + number_cell(p->p90, digits) + number_cell(p->p99, digits);
    }
    body += number_cell(s.e2e_ms.p50, 1) + number_cell(s.busy, 2);
    if (has_limits) {
      body += percent_cell(s.goodput ? std::optional(s.goodput->share) : std::nullopt) +
              number_cell(s.goodput ? s.goodput->rate_per_s : std::nullopt, 2);
    }
    body += "</tr>\n";
    fewest = fewest == 0 ? s.num_requests : std::min(fewest, s.num_requests);
  }
  if (body.empty()) return section;
  std::vector<TableColumn> columns = axes_columns();
  for (const char* name : {"TTFT p50", "TTFT p90", "TTFT p99", "TPOT p50", "TPOT p90", "TPOT p99", "ITL p50", "ITL p90",
                           "ITL p99", "E2E p50", "compute share"})
    columns.push_back({name});
  if (has_limits) {
    columns.push_back({"good", false, "share of requests that meet report.slo"});
    columns.push_back({"good req/s", false, "requests that meet report.slo, per second"});
  }
  section.body =
      cdfs(report) +
      note(
          "Share of requests (ITL: of gaps) that took no longer; up to the 99th percentile, marks at the median and "
          "the 90th. Each proposer at its fastest k.") +
      table("Milliseconds over all requests and repetitions.", columns, body, "sortable") +
      note(
          "TTFT: submit to first token. TPOT: (E2E − TTFT) / (tokens − 1). ITL: gap between emissions; one emission "
          "may "
          "bring several tokens, so compare TPOT between cells. compute share: draft + verify + sample as a share of "
          "the "
          "deciding rank's time." +
          (fewest < 1000 ? fmt::format(" With {} requests in a cell, p99 is an extreme, not an estimate.", fewest)
                         : std::string()) +
          (has_limits ? fmt::format(" good: share of requests with {}; good req/s: those per second of wall time "
                                    "(goodput).",
                                    html_escaped(slo_text(report.run.slo)))
                      : " Goodput is not told: the experiment sets no report.slo."));
  return section;
}

}  // namespace paceline::html
