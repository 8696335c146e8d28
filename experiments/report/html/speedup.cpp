// Speedup over report.x, a chart for each value of report.facet.

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "experiments/config/config.h"
#include "experiments/config/keys/schema.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxLinesOfProposer = 3;  // in one chart; more split the charts
constexpr std::array<LineStyle, kMaxLinesOfProposer> kStyles = {LineStyle::solid, LineStyle::dashed,
                                                                LineStyle::dash_dotted};
constexpr double kOrdinalFrom = 12;  // largest over smallest x from which values stand at equal distances

constexpr const char *kTp = "engine.parallel.tp", *kPp = "engine.parallel.pp",
                     *kK = "speculation.num_speculative_tokens", *kProposer = "speculation.proposer",
                     *kConcurrency = "load.concurrency", *kStated = "speculation.synthetic.acceptance_length";

/// The scalar or list at a path; null when there is none.
const nlohmann::json* find_leaf(const nlohmann::json& tree, const std::string& path) {
  const nlohmann::json* const value = find_value(tree, path);
  return !value || value->is_null() || value->is_object() ? nullptr : value;
}

/// A key of the configuration as an axis of a chart.
struct ChartAxis {
  std::string path;
  std::string name;    // as it stands beside the chart
  std::string prefix;  // of a value: "k=", "TP "

  /// A full path or an alias; an unknown name gives an axis without values.
  explicit ChartAxis(const std::string& key_or_alias) {
    const KeySpec* const key = find_key_or_alias(key_or_alias);
    path = key ? key->path : key_or_alias;
    name = path == kTp       ? "TP"
           : path == kPp     ? "PP"
           : path == kK      ? "draft length k"
           : path == kStated ? "stated acceptance length"
                             : std::string(last_part(path));
    prefix = path == kK ? "k=" : name + " ";
  }
  bool operator==(const ChartAxis& other) const { return path == other.path; }

  /// None where the cell has no value: k of a cell that does not speculate.
  std::optional<std::string> value(const CellResult& cell) const {
    const CellAxes& axes = cell.axes;
    if (path == kTp) return std::to_string(axes.tp);
    if (path == kPp) return std::to_string(axes.pp);
    if (path == kProposer) return axes.proposer;
    if (path == kConcurrency) return std::to_string(axes.concurrency);
    if (path == kK)
      return axes.num_speculative_tokens ? std::optional(std::to_string(*axes.num_speculative_tokens)) : std::nullopt;
    const nlohmann::json* const found = find_leaf(cell.requested, path);
    return found ? std::optional(bare_text(*found)) : std::nullopt;
  }
};

/// Numbers below a section of a configuration, by path.
void collect_numbers(const nlohmann::json& tree, const std::string& path,
                     std::map<std::string, std::set<double>>& numbers) {
  if (tree.is_number()) numbers[path].insert(tree.get<double>());
  if (!tree.is_object()) return;
  for (const auto& [name, value] : tree.items()) collect_numbers(value, path + "." + name, numbers);
}

/// The number of speculation.* that has the most values among the cells that speculate; k where none has two.
std::string widest_axis(const RunResult& run) {
  std::map<std::string, std::set<double>> numbers;
  for (const CellResult& cell : run.cells) {
    if (!cell.axes.drafts()) continue;
    if (const nlohmann::json* const speculation = find_value(cell.requested, "speculation"))
      collect_numbers(*speculation, "speculation", numbers);
    if (cell.axes.num_speculative_tokens) numbers[kK].insert(*cell.axes.num_speculative_tokens);
  }
  std::string widest = kK;
  for (const auto& [path, values] : numbers)
    if (values.size() > std::max<size_t>(1, numbers[widest].size())) widest = path;
  return widest;
}

/// From the run's resolved configuration; what it does not hold has the defaults of the schema. Without a report.x the
/// number of speculation.* with the most values in the sweep is x.
struct ChartLayout {
  ChartAxis x;
  std::vector<ChartAxis> facets;
};

ChartLayout chart_layout(const RunResult& run) {
  const nlohmann::json* const x = find_leaf(run.config_resolved, "report.x");
  const bool is_chosen = x && x->is_string() && x->get<std::string>() != kAutoChartX;
  ChartLayout layout{.x = ChartAxis(is_chosen ? x->get<std::string>() : widest_axis(run)), .facets = {}};
  const nlohmann::json* const facet = find_leaf(run.config_resolved, "report.facet");
  for (const nlohmann::json& name : facet && facet->is_array() ? *facet : nlohmann::json(ReportConfig().facet)) {
    if (!name.is_string()) continue;
    const ChartAxis axis(name.get<std::string>());
    // A line is one proposer over x anyway.
    if (axis.path != layout.x.path && axis.path != kProposer &&
        std::find(layout.facets.begin(), layout.facets.end(), axis) == layout.facets.end())
      layout.facets.push_back(axis);
  }
  return layout;
}

/// What tells cells of one proposer apart beside x and facets, in the order of `cells`: "c=8", "" where nothing does.
std::vector<std::string> leftovers(const ChartLayout& layout, const std::vector<const CellResult*>& cells) {
  std::vector<ChartAxis> told = layout.facets, varying;
  told.push_back(layout.x);
  for (const char* path : {kTp, kPp, kK, kConcurrency}) {
    ChartAxis axis{std::string(path)};
    if (path == kConcurrency) axis.prefix = "c=";
    const bool varies = std::any_of(cells.begin(), cells.end(), [&](const CellResult* cell) {
      return axis.value(*cell) != axis.value(*cells.front());
    });
    if (varies && std::find(told.begin(), told.end(), axis) == told.end()) varying.push_back(axis);
  }
  std::vector<std::string> texts;
  for (const CellResult* cell : cells) {
    std::string text;
    for (const ChartAxis& axis : varying)
      if (const auto value = axis.value(*cell)) text += (text.empty() ? "" : " ") + axis.prefix + *value;
    std::istringstream words(cell->axes.variant);
    for (std::string word; words >> word;) {
      const auto tells = [&](const ChartAxis& axis) {
        return word.starts_with(fmt::format("{}=", last_part(axis.path)));
      };
      if (std::none_of(told.begin(), told.end(), tells)) text += (text.empty() ? "" : " ") + word;
    }
    texts.push_back(text);
  }
  return texts;
}

/// One cell of the charts.
struct Point {
  const CellSummary* summary;
  std::string x, facet, line;
};

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, value).ptr == end && !text.empty() ? std::optional(value) : std::nullopt;
}

/// Ticks of these x values, in their order: numbers at their places, where they do not span too much.
void set_x_ticks(LineChart& chart, std::vector<std::string> texts) {
  std::vector<double> numbers;
  for (const std::string& text : texts)
    if (const auto number = as_number(text)) numbers.push_back(*number);
  const bool numeric = numbers.size() == texts.size();
  if (numeric) {
    std::sort(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return *as_number(a) < *as_number(b); });
    std::sort(numbers.begin(), numbers.end());
  }
  const bool even = !numeric || (numbers.front() > 0 && numbers.back() / numbers.front() > kOrdinalFrom);
  for (size_t i = 0; i < texts.size(); ++i) chart.x_ticks.push_back(even ? static_cast<double>(i) : numbers[i]);
  chart.x_tick_texts = std::move(texts);
}

std::string facet_title(const Report& report, const ChartLayout& layout, const CellResult& cell) {
  std::string title;
  for (const ChartAxis& axis : layout.facets)
    title += (title.empty() ? "" : " × ") + axis.prefix + axis.value(cell).value_or("–");
  return title.empty() ? report.run.info.name : title;
}

/// Of the cells that the charts compare: what their ratios are, and how the intervals were made.
std::string how_measured(const Report& report) {
  PairingsTold told;
  for (const CellSummary& s : report.summary.cells)
    if (s.speedup) told.add(s.pairing, s.baseline_apart_s, s.baseline_far);
  return fmt::format("Output tok/s, prefill included, over the baseline (line at 1): {}. ", report.baseline_text()) +
         told.text() + " Arrowhead: the interval continues. Faded: not ranked.";
}

/// Where x has one value, lines would be single points: a bar for each cell instead.
std::string single_bars(const Report& report) {
  BarChart chart{.title = "Speedup", .x_label = "speedup", .reference = 1.0};
  auto cells =
      report.cells([&](const CellSummary& s) { return s.speedup && report.cell(s).baseline_id != report.cell(s).id; });
  report.sort_by_place(cells);
  for (const CellSummary* s : cells) {
    const CellAxes& axes = report.cell(*s).axes;
    chart.rows.push_back({.group = report.place(axes),
                          .label = report.method(axes),
                          .value = s->speedup->ratio,
                          .low = s->speedup->low,
                          .high = s->speedup->high,
                          .color = report.color(*s),
                          .faded = !s->rankable,
                          .text = speedup_text(s->speedup) + (s->rankable ? "" : " (" + s->not_rankable + ")")});
    cut_whisker(chart.rows.back());
  }
  return wide(chart.title, svg_bar_chart(chart)) + note(how_measured(report));
}

/// The charts' points, by cell; of more lines than a chart has room for each has charts of its own.
std::vector<Point> points_of(const Report& report, const ChartLayout& layout) {
  std::vector<Point> points;
  std::vector<const CellResult*> cells;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    const auto x = layout.x.value(cell);
    if (!cell.axes.drafts() || !x) continue;
    points.push_back({&s, *x, facet_title(report, layout, cell), ""});
    cells.push_back(&cell);
  }
  const std::vector<std::string> lines = leftovers(layout, cells);
  const bool split = std::set(lines.begin(), lines.end()).size() > kMaxLinesOfProposer;
  for (size_t i = 0; i < points.size(); ++i) {
    if (split)
      points[i].facet += ", " + lines[i];
    else
      points[i].line = lines[i];
  }
  return points;
}

/// The line of what was measured and that of speedup_bound.
struct Lines {
  LineSeries measured, free;

  Lines(const std::string& name, int color, LineStyle style)
      : measured{.name = name, .color = color, .style = style},
        free{.name = name + ", no extra verify cost", .color = color, .style = LineStyle::dotted, .markers = false} {}

  void add(const Report& report, const CellSummary& s, double x) {
    // Failed or skipped: the line must not run through.
    LinePoint at{.x = x, .y = std::numeric_limits<double>::quiet_NaN(), .faded = !s.rankable}, free_at = at;
    if (s.speedup) {
      at.y = s.speedup->ratio;
      at.low = s.speedup->low;
      at.high = s.speedup->high;
      at.tooltip = fmt::format("{}: {} {}", report.label(report.cell(s).axes), speedup_text(s.speedup), s.not_rankable);
      free_at.y = s.speedup_bound.value_or(free_at.y);
    }
    measured.points.push_back(at);
    free.points.push_back(free_at);
  }
};

/// Whether it is certified, token by token, of all drafting cells that ran.
bool are_outputs_equal(const RunResult& run) {
  return std::ranges::all_of(run.cells, [](const CellResult& cell) {
    const bool is_certified = cell.certificate.status == CertificateStatus::pass && !cell.certificate.flips;
    return cell.status != CellStatus::done || !cell.axes.drafts() || is_certified;
  });
}

}  // namespace

Section speedup_section(const Report& report) {
  const ChartLayout layout = chart_layout(report.run);
  Section section{"speedup", "Speedup by " + layout.x.name};
  const std::vector<Point> points = points_of(report, layout);
  std::vector<std::string> facets, lines, x_texts, proposers = report.proposers();
  const auto place_in = [](std::vector<std::string>& list, const std::string& text) {
    const auto found = std::find(list.begin(), list.end(), text);
    const auto place = size_t(found - list.begin());
    if (found == list.end()) list.push_back(text);
    return place;
  };
  double top = 1.2;
  bool any_forced = false, any_bound = false;
  for (const Point& point : points) {
    const CellSummary& s = *point.summary;
    any_forced = any_forced || report.cell(s).forced;
    place_in(lines, point.line);
    if (!s.speedup) continue;
    any_bound = any_bound || s.speedup_bound;
    place_in(facets, point.facet);
    place_in(x_texts, point.x);
    // A wide interval of few repetitions may leave the chart; the points may not.
    top = std::max({top, s.speedup->ratio * 1.1, std::min(s.speedup->high.value_or(0), s.speedup->ratio * 1.5),
                    s.speedup_bound.value_or(0)});
  }
  if (facets.empty()) return section;
  if (x_texts.size() == 1) return {"speedup", "Speedup", single_bars(report)};
  std::vector<LegendEntry> legend;
  std::string charts;
  for (const std::string& facet : facets) {
    LineChart chart{.title = facet,
                    .x_label = layout.x.name,
                    .y_label = "speedup",
                    .reference = 1.0,
                    .y_max = nice_ticks(0, top, 5).back(),
                    .width = width_of_each(facets.size(), lines.size() > 1 ? 400.0 : 294.0)};
    set_x_ticks(chart, x_texts);
    std::map<std::pair<size_t, size_t>, Lines> drawn;  // by places of proposer and line
    for (const Point& point : points) {
      const auto tick = std::find(chart.x_tick_texts.begin(), chart.x_tick_texts.end(), point.x);
      if (point.facet != facet || tick == chart.x_tick_texts.end()) continue;
      const std::string proposer = report.proposer(*point.summary);
      const size_t line = place_in(lines, point.line);
      const Lines lines_of(point.line.empty() ? proposer : proposer + " " + point.line, report.color(proposer),
                           kStyles[line]);
      drawn.try_emplace({place_in(proposers, proposer), line}, lines_of)
          .first->second.add(report, *point.summary, chart.x_ticks[size_t(tick - chart.x_tick_texts.begin())]);
    }
    for (auto& [key, of_line] : drawn) {
      for (LineSeries* series : {&of_line.measured, &of_line.free})
        std::stable_sort(series->points.begin(), series->points.end(),
                         [](const LinePoint& a, const LinePoint& b) { return a.x < b.x; });
      add_to_legend(legend, of_line.measured);
      chart.series.push_back(std::move(of_line.measured));
      chart.series.push_back(std::move(of_line.free));
    }
    charts += svg_line_chart(chart);
  }
  if (any_bound)
    legend.push_back({.name = "estimate if verifying were as cheap as decoding one token (proposer's colour)",
                      .color = kNumChartColors - 1,
                      .style = LineStyle::dotted});
  section.body =
      chart_legend(legend) + grid(charts) +
      note(how_measured(report) +
           " Dotted: estimate, not measured: the speedup if verifying k + 1 tokens cost as much as decoding one, with "
           "acceptance, drafting and prefill as measured. The gap below it is the cost of verification; timing noise "
           "can put a measured point above it." +
           (any_forced ? " Stated acceptance: drafts are taken from the text, their cost is real. A line crosses 1 at "
                         "the break-even acceptance length."
            : are_outputs_equal(report.run) ? " Outputs are the same at every k."
                                            : ""));
  return section;
}

}  // namespace paceline::html
