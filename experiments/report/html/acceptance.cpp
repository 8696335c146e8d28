#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/analysis/metrics/within_cell.h"
#include "experiments/report/html/parts.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxDraftLens = 6;  // of a proposer, in the charts

/// The cell whose acceptance stands for (proposer, k): the first finished one in plan order; `others` counts further
/// cells and how many of them have exactly the same shares.
struct Source {
  std::string proposer;
  int k = 0;
  const CellSummary* summary = nullptr;
  int others = 0, equal = 0;
};

/// By proposer, then k: of many the smallest, the largest and some between.
std::vector<Source> sources_of(const Report& report) {
  std::vector<Source> sources;
  for (const std::string& proposer : report.proposers()) {
    std::map<int, Source> by_k;
    for (const CellSummary& s : report.summary.cells) {
      const CellResult& cell = report.cell(s);
      const std::optional<int> k = cell.axes.num_speculative_tokens;
      if (report.proposer(cell) != proposer || !k || s.acceptance_per_position.empty() || cell.forced ||
          cell.random_weights)
        continue;
      Source& source = by_k.try_emplace(*k, Source{.proposer = proposer, .k = *k, .summary = &s}).first->second;
      if (source.summary == &s) continue;
      ++source.others;
      source.equal += s.acceptance_per_position == source.summary->acceptance_per_position ? 1 : 0;
    }
    std::vector<Source> all;
    for (const auto& [k, source] : by_k) all.push_back(source);
    const size_t shown = std::min(all.size(), kMaxDraftLens);
    for (size_t i = 0; i < shown; ++i)
      sources.push_back(all[shown == all.size() ? i : i * (all.size() - 1) / (shown - 1)]);
  }
  return sources;
}

/// A line for each k of one proposer.
std::string position_chart(const std::string& title, const std::string& y_label, int color,
                           const std::vector<Source>& sources, std::vector<double> CellSummary::*shares) {
  LineChart chart{.title = title, .x_label = "draft position", .y_label = y_label, .width = 600};
  chart.x_ticks.resize(size_t(sources.back().k));
  std::iota(chart.x_ticks.begin(), chart.x_ticks.end(), 1.0);
  for (const Source& source : sources) {
    const std::string name = fmt::format("k={}", source.k);
    LineSeries series{.name = name, .color = color, .end_text = name};
    for (const double share : source.summary->*shares) {
      const size_t position = series.points.size() + 1;
      series.points.push_back({.x = double(position),
                               .y = share,
                               .tooltip = fmt::format("{}, position {}: {:.3f}", name, position, share)});
    }
    chart.series.push_back(std::move(series));
  }
  return svg_line_chart(chart);
}

/// Verify steps by what they accepted; those without drafts apart.
std::string accepted_table(const std::vector<Source>& sources) {
  size_t most = 0;
  for (const Source& source : sources) most = std::max(most, size_t(source.k));
  Table table{.title = "Verify steps by number of accepted draft tokens, n; such a step emits n + 1 tokens.",
              .columns = {{"proposer", true}, {"k"}, {"no drafts"}},
              .rows = {}};
  for (size_t accepted = 0; accepted <= most; ++accepted) table.columns.push_back({std::to_string(accepted)});
  for (const Source& source : sources) {
    std::vector<int64_t> counts(most + 2);  // without drafts first
    const auto& histogram = source.summary->acceptance_histogram;
    for (size_t depth = 0; depth < histogram.size(); ++depth)
      for (size_t accepted = 0; accepted < histogram[depth].size(); ++accepted)
        counts[depth == 0 ? 0 : std::min(accepted, most) + 1] += histogram[depth][accepted];
    const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t(0));
    Table::Row row{.cells = {source.proposer, std::to_string(source.k)}};
    for (const int64_t count : counts)
      row.cells.emplace_back(count == 0 ? "" : percent(ratio(double(count), double(total))), "", "",
                             fmt::format("{} of {} verify steps", count, total));
    if (total > 0) table.rows.push_back(std::move(row));
  }
  return table.rows.empty() ? "" : "<h3>Accepted tokens per verify step</h3>" + html_table(table);
}

/// A bar for each proposer and k: how far requests differ.
std::string request_bars(const Report& report, const std::vector<Source>& sources) {
  BarChart chart{.title = "Acceptance length of each request", .x_label = "acceptance length of a request"};
  for (const Source& source : sources) {
    std::vector<double> lengths;
    for (const RequestRecord& request : report.cell(*source.summary).repetitions.front().requests)
      if (const auto length = acceptance_length(request)) lengths.push_back(*length);
    if (lengths.empty()) continue;
    const double low = *quantile(lengths, 0.25), median = *quantile(lengths, 0.5), high = *quantile(lengths, 0.75);
    chart.rows.push_back(
        {.group = source.proposer,
         .label = fmt::format("k={}", source.k),
         .value = median,
         .low = low,
         .high = high,
         .color = report.color(source.proposer),
         .text = fmt::format("{:.2f} [{:.2f}, {:.2f}], {} requests", median, low, high, lengths.size())});
  }
  if (chart.rows.empty()) return "";
  return "<h3>Acceptance length of each request</h3>" + wide(chart.title, svg_bar_chart(chart)) +
         note("Requests of the first repetition that had drafts. Bars end at the median; whiskers: quartiles.");
}

/// A line for each proposer at one k: whether drafts get better or worse as the output grows.
std::string along_output(const Report& report) {
  constexpr int64_t kMaxRanges = 16, kMinDrafts = 5;
  LineChart chart{.title = "Acceptance length along the output",
                  .x_label = "output position (tokens)",
                  .y_label = "acceptance length",
                  .x_edges = XEdges::tight,
                  .width = 600};
  double x_high = 0, y_high = 1;
  std::vector<LegendEntry> legend;
  std::set<std::string> drawn;
  for (const CellSummary* s : report.fastest()) {
    const CellResult& cell = report.cell(*s);
    const std::string proposer = report.proposer(cell);
    if (s->acceptance_per_position.empty() || cell.random_weights || !drawn.insert(proposer).second) continue;
    LineSeries series{.name = fmt::format("{} k={}", proposer, cell.axes.num_speculative_tokens.value_or(0)),
                      .color = report.color(proposer)};
    for (const OutputRange& range : acceptance_along_output(cell.repetitions.front(), kMaxRanges)) {
      const auto length = range.acceptance_length();
      if (!length || range.drafts < kMinDrafts) continue;
      series.points.push_back({.x = static_cast<double>(range.from + range.to) / 2,
                               .y = *length,
                               .tooltip = fmt::format("{}, after {} to {} tokens: {:.2f} over {} verify steps",
                                                      series.name, range.from, range.to - 1, *length, range.drafts)});
      x_high = std::max(x_high, static_cast<double>(range.to));
      y_high = std::max(y_high, *length);
    }
    add_to_legend(legend, series);
    chart.series.push_back(std::move(series));
  }
  if (legend.empty()) return "";
  chart.x_ticks = nice_ticks(0, x_high, 8);
  chart.y_max = nice_ticks(0, y_high, 5).back();
  return "<h3>Along the output</h3>" + chart_legend(legend) + grid(svg_line_chart(chart)) +
         note(fmt::format("First repetition of the first placement, each proposer at its fastest k. A point: a range "
                          "of output positions with at least {} verify steps that had drafts.",
                          kMinDrafts));
}

/// Of `others` cells that the charts do not show, `equal` have the acceptance of the one shown.
std::string others_text(int others, int equal) {
  if (others == 0) return "";
  const std::string cells = counted(others, "cell") + " not shown";
  return fmt::format(" {} the same acceptance as the one shown for {} proposer and k.",
                     others == 1       ? fmt::format("The cell not shown {}", equal == 1 ? "has" : "has not")
                     : equal == others ? "All " + cells + " have"
                                       : fmt::format("Of {}, {}", cells, counted(equal, "has", "have")),
                     others == 1 ? "its" : "their");
}

}  // namespace

Section acceptance_section(const Report& report) {
  Section section{"acceptance", "Acceptance"};
  const std::vector<Source> sources = sources_of(report);
  if (sources.empty()) return section;
  std::vector<std::pair<std::string, std::vector<Source>>> by_proposer;
  int others = 0, equal = 0;
  for (const Source& source : sources) {
    group_of(by_proposer, source.proposer).push_back(source);
    others += source.others;
    equal += source.equal;
  }
  section.body = "<h3>By position</h3>";
  for (const auto& [proposer, of_proposer] : by_proposer) {
    std::string lengths;
    for (const Source& source : of_proposer)
      lengths +=
          fmt::format("{}k={}: acceptance length {}, coverage {}", lengths.empty() ? "" : "; ", source.k,
                      number(source.summary->mean_acceptance_length, 2), number(source.summary->draft_coverage, 2));
    const int color = report.color(proposer);
    section.body += chart_legend({{.name = proposer + ". " + lengths, .color = color}}) +
                    grid(position_chart(proposer + ": acceptance rate by position", "acceptance rate", color,
                                        of_proposer, &CellSummary::acceptance_per_position) +
                         position_chart(proposer + ": conditional acceptance rate", "conditional acceptance rate",
                                        color, of_proposer, &CellSummary::acceptance_per_position_conditional));
  }
  section.body +=
      note(
          "A verify step is what one pass of the target does for one sequence once its prompt is read. Acceptance "
          "length: 1 + accepted tokens / verify steps with drafts, bonus token included. Acceptance rate: share of the "
          "verify steps with drafts whose draft token at the position was accepted; drafts that end before it count as "
          "rejected. Conditional: only verify steps whose earlier positions were all accepted. Coverage: share of "
          "verify steps that had drafts. Shown: the first finished cell of each proposer and k." +
          others_text(others, equal)) +
      request_bars(report, sources) + along_output(report) + accepted_table(sources);
  return section;
}

}  // namespace paceline::html
