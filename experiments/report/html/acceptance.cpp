#include "experiments/analysis/metrics/acceptance.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxDraftLens = 6;  // of a proposer, in the charts

/// The cell whose acceptance stands for (proposer, k): the first finished one in plan order; `others` counts further
/// cells and how many of them have exactly the same shares.
struct Source {
  const CellSummary* summary = nullptr;
  int others = 0, equal = 0;
};

Source source_of(const Report& report, const std::string& proposer, int k) {
  Source source;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    if (report.proposer(cell) != proposer || cell.axes.num_speculative_tokens != k ||
        s.acceptance_per_position.empty() || cell.forced || cell.random_weights) {
      continue;
    }
    if (source.summary == nullptr) {
      source.summary = &s;
    } else {
      ++source.others;
      source.equal += s.acceptance_per_position == source.summary->acceptance_per_position ? 1 : 0;
    }
  }
  return source;
}

/// Ascending; of many the smallest, the largest and some between.
std::vector<int> ks_of(const Report& report, const std::string& proposer) {
  std::set<int> ks;
  for (const CellSummary& s : report.summary.cells) {
    const CellAxes& axes = report.cell(s).axes;
    if (report.proposer(s) == proposer && axes.num_speculative_tokens && report.is_done(s))
      ks.insert(*axes.num_speculative_tokens);
  }
  std::vector<int> all(ks.begin(), ks.end()), some;
  if (all.size() <= kMaxDraftLens) return all;
  for (size_t i = 0; i < kMaxDraftLens; ++i) some.push_back(all[i * (all.size() - 1) / (kMaxDraftLens - 1)]);
  return some;
}

LineSeries position_series(const std::vector<double>& shares, int color, const std::string& name) {
  LineSeries series{
      .name = name, .color = color, .shape = {}, .style = LineStyle::solid, .points = {}, .end_text = name};
  for (size_t i = 0; i < shares.size(); ++i) {
    series.points.push_back({.x = static_cast<double>(i + 1),
                             .y = shares[i],
                             .low = {},
                             .high = {},
                             .faded = false,
                             .tooltip = fmt::format("{}, position {}: {:.3f}", name, i + 1, shares[i])});
  }
  return series;
}

/// Verify steps by what they accepted; those without drafts apart.
std::string accepted_histogram(const std::string& proposer, int k, int color, const CellSummary& s) {
  std::vector<int64_t> counts(std::min(static_cast<size_t>(k) + 1, s.acceptance_histogram.size()));
  int64_t none = 0, total = 0;
  for (size_t depth = 0; depth < s.acceptance_histogram.size(); ++depth) {
    const auto& row = s.acceptance_histogram[depth];
    for (size_t accepted = 0; accepted < row.size(); ++accepted) {
      total += row[accepted];
      if (depth == 0)
        none += row[accepted];
      else if (accepted < counts.size())
        counts[accepted] += row[accepted];
    }
  }
  if (total == 0) return "";
  ColumnChart chart{.title = fmt::format("{} k = {}: % of verify steps", proposer, k),
                    .x_label = "accepted tokens of a verify step",
                    .color = color,
                    .columns = {}};
  const auto add = [&](const std::string& label, int64_t count, const std::string& what) {
    const double share = static_cast<double>(count) / static_cast<double>(total);
    chart.columns.push_back(
        {.label = label, .share = share, .tooltip = fmt::format("{}: {} of {} steps", what, count, total)});
  };
  if (none > 0) add("–", none, "without drafts");
  for (size_t a = 0; a < counts.size(); ++a) add(std::to_string(a), counts[a], fmt::format("{} accepted", a));
  return svg_column_chart(chart);
}

LineChart position_chart(const std::string& title, const std::string& y_label, int max_k) {
  std::vector<double> ticks(static_cast<size_t>(max_k));
  std::iota(ticks.begin(), ticks.end(), 1.0);
  return {.title = title,
          .x_label = "draft position",
          .y_label = y_label,
          .x_ticks = ticks,
          .x_tick_texts = {},
          .reference = {},
          .series = {},
          .width = 600};
}

/// A box for each proposer and k: how far requests differ.
std::string request_boxes(const Report& report) {
  BoxChart chart{.title = "Acceptance length of each request", .x_label = "acceptance length of a request", .rows = {}};
  for (const std::string& proposer : report.proposers()) {
    for (int k : ks_of(report, proposer)) {
      const Source source = source_of(report, proposer, k);
      if (source.summary == nullptr) continue;
      std::vector<double> lengths;
      for (const RequestRecord& request : report.cell(*source.summary).repetitions.front().requests)
        if (const auto length = acceptance_length(request)) lengths.push_back(*length);
      if (lengths.empty()) continue;
      BoxRow row{.group = proposer, .label = fmt::format("k={}", k), .color = report.color(proposer), .text = ""};
      for (size_t i = 0; i < row.quantiles.size(); ++i)
        row.quantiles[i] = *quantile(lengths, static_cast<double>(i) / static_cast<double>(row.quantiles.size() - 1));
      row.text = fmt::format("{:.2f} [{:.2f}, {:.2f}], {} requests", row.quantiles[2], row.quantiles[1],
                             row.quantiles[3], lengths.size());
      chart.rows.push_back(std::move(row));
    }
  }
  if (chart.rows.empty()) return "";
  return "<h3>Acceptance length of each request</h3>" + wide(chart.title, svg_box_chart(chart)) +
         note(
             "Requests of the first repetition that had drafts. Box: the middle half of them, with the median; line: "
             "from "
             "the least to the most. Numbers: median and quartiles.");
}

/// A line for each proposer at one k: whether drafts get better or worse as the output grows.
std::string along_output(const Report& report) {
  constexpr int64_t kMaxRanges = 16, kMinDrafts = 5;
  LineChart chart{.title = "Acceptance length along the output",
                  .x_label = "tokens of the output before the step",
                  .y_label = "acceptance length",
                  .x_ticks = {},
                  .x_tick_texts = {},
                  .x_edges = XEdges::tight,
                  .reference = {},
                  .series = {},
                  .width = 600};
  double x_high = 0, y_high = 1;
  std::vector<LegendEntry> legend;
  for (const std::string& proposer : report.proposers()) {
    const auto& fastest = report.fastest();
    const auto found = std::find_if(fastest.begin(), fastest.end(), [&](const CellSummary* s) {
      return report.proposer(*s) == proposer && !s->acceptance_per_position.empty() && !report.cell(*s).random_weights;
    });
    if (found == fastest.end()) continue;
    const CellResult& cell = report.cell(**found);
    LineSeries series{.name = fmt::format("{} k={}", proposer, cell.axes.num_speculative_tokens.value_or(0)),
                      .color = report.color(proposer),
                      .shape = {},
                      .style = LineStyle::solid,
                      .points = {}};
    for (const OutputRange& range : acceptance_along_output(cell.repetitions.front(), kMaxRanges)) {
      const auto length = range.acceptance_length();
      if (!length || range.drafts < kMinDrafts) continue;
      const double x = static_cast<double>(range.from + range.to) / 2;
      series.points.push_back({.x = x,
                               .y = *length,
                               .low = {},
                               .high = {},
                               .tooltip = fmt::format("{}, after {} to {} tokens: {:.2f} over {} steps", series.name,
                                                      range.from, range.to - 1, *length, range.drafts)});
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
         note(fmt::format(
             "First repetition of the first placement, each proposer at its fastest k. A point is a range of "
             "output positions with at least {} steps that had drafts.",
             kMinDrafts));
}

}  // namespace

Section acceptance_section(const Report& report) {
  Section section{"acceptance", "Acceptance", ""};
  std::string body, histograms;
  int others = 0, equal = 0;
  for (const std::string& proposer : report.proposers()) {
    const std::vector<int> ks = ks_of(report, proposer);
    if (ks.empty()) continue;
    const int color = report.color(proposer);
    LineChart plain =
        position_chart(proposer + ": accepted up to this position", "share of steps with drafts", ks.back());
    LineChart conditional =
        position_chart(proposer + ": accepted if the one before was", "conditional share", ks.back());
    std::string lengths;
    for (int k : ks) {
      const Source source = source_of(report, proposer, k);
      if (source.summary == nullptr) continue;
      others += source.others;
      equal += source.equal;
      const CellSummary& s = *source.summary;
      const std::string name = fmt::format("k={}", k);
      plain.series.push_back(position_series(s.acceptance_per_position, color, name));
      conditional.series.push_back(position_series(s.acceptance_per_position_conditional, color, name));
      lengths += fmt::format("{}{}: acceptance length {}, coverage {}", lengths.empty() ? "" : "; ", name,
                             number_text(s.mean_acceptance_length, 2), number_text(s.draft_coverage, 2));
      histograms += accepted_histogram(proposer, k, color, s);
    }
    if (plain.series.empty()) continue;
    body += chart_legend({{.name = proposer + ". " + lengths, .color = color}}) +
            grid(svg_line_chart(plain) + svg_line_chart(conditional));
  }
  if (body.empty()) return section;
  std::string text =
      "Accepted up to this position: of the steps that had drafts, the share that accepted it and all before it "
      "(unconditional; a draft too short for the position counts as not accepted there). Accepted if the one before "
      "was: of those that had a draft at the position and kept all before it, the share that accepted it. Coverage: "
      "share of steps that had drafts at all. Acceptance depends on text "
      "and proposer, not on placement";
  text += others == 0 ? "."
                      : fmt::format(": {} of {} further cells with the same proposer and k show exactly these shares.",
                                    equal, others);
  section.body = "<h3>By position</h3>" + body + note(text) + request_boxes(report) + along_output(report);
  if (!histograms.empty())
    section.body +=
        "<h3>Accepted tokens per step</h3>" + grid(histograms) +
        note(
            "Numbers: per cent of verify steps; –: steps without drafts. A step emits one token more than it "
            "accepts.");
  return section;
}

}  // namespace paceline::html
