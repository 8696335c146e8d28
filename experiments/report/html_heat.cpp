#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "experiments/report/text.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxSentences = 12;

struct Row {
  std::string proposer, variant;
  int k;
  bool operator==(const Row&) const = default;
};
struct Column {
  int tp, pp, concurrency;
  auto operator<=>(const Column&) const = default;
};

Column column_of(const CellAxes& axes) { return {axes.tp, axes.pp, axes.concurrency}; }

/// Class of the tint: f1 … f4 faster, s1 … s4 slower, in equal steps of the logarithm up to a factor of two.
std::string tint(double ratio) {
  const double octaves = std::log2(ratio);
  const int level = std::min(4, static_cast<int>(std::ceil(std::abs(octaves) * 4 - 1e-9)));
  if (level == 0 || !std::isfinite(octaves)) return "f0";
  return fmt::format("{}{}", octaves > 0 ? 'f' : 's', level);
}

std::string heat_cell(const Report& report, const CellSummary* s) {
  if (s == nullptr) return "<td class=\"none\"></td>";
  const CellResult& cell = report.cell(*s);
  if (!s->speedup) return fmt::format("<td class=\"none\">{}</td>", to_string(cell.status));
  const bool open = s->outcome == Outcome::inconclusive;
  return fmt::format("<td class=\"{}\" title=\"{}\">{:.2f}×{}{}</td>", tint(s->speedup->ratio),
                     html_escaped(report.label(cell.axes) + ": " + cell_verdict(cell, *s)), s->speedup->ratio,
                     open ? " ?" : "", s->rankable ? "" : " *");
}

/// Per place and proposer: up to which concurrency the best k is faster, and where it ends.
std::string crossovers(const Report& report) {
  std::map<std::tuple<int, int, std::string>, std::map<int, const CellSummary*>> best;
  for (const CellSummary& s : report.summary.cells) {
    const CellAxes& axes = report.cell(s).axes;
    if (!s.rankable || !s.speedup || axes.proposer == "none" || !axes.variant.empty()) continue;
    const CellSummary*& known = best[{axes.tp, axes.pp, axes.proposer}][axes.concurrency];
    if (known == nullptr || s.speedup->ratio > known->speedup->ratio) known = &s;
  }
  std::string out;
  size_t count = 0;
  for (const auto& [key, by_concurrency] : best) {
    const auto& [tp, pp, proposer] = key;
    if (by_concurrency.size() < 2 || ++count > kMaxSentences) continue;
    const auto text = [&](const auto& entry) {
      return fmt::format("{:.2f}× at concurrency {}{}", entry.second->speedup->ratio, entry.first,
                         entry.second->outcome == Outcome::inconclusive ? " (inconclusive)" : "");
    };
    const auto stops = std::find_if(by_concurrency.begin(), by_concurrency.end(),
                                    [](const auto& entry) { return entry.second->speedup->ratio <= 1; });
    std::string sentence;
    const auto& last = *by_concurrency.rbegin();
    if (stops == by_concurrency.begin())
      sentence = fmt::format("gains nothing from the smallest batch on: {}", text(*stops));
    else if (stops != by_concurrency.end() && std::prev(stops)->second->outcome == Outcome::faster)
      sentence = fmt::format("stops paying: {}, {}", text(*std::prev(stops)), text(*stops));
    else if (stops == by_concurrency.end() && last.second->outcome == Outcome::faster)
      sentence = fmt::format("still gains at the largest batch: {}", text(last));
    else
      sentence = fmt::format("shows no clear gain at the largest batch: {}", text(last));
    out += "<li>" + html_escaped(fmt::format("tp{} pp{} {}, at its best k, {}.", tp, pp, proposer, sentence)) + "</li>";
  }
  return out.empty() ? "" : "<ul>" + out + "</ul>";
}

}  // namespace

Section heat_section(const Report& report) {
  Section section{"heat", "Where speculation pays", ""};
  std::vector<Row> rows;
  std::vector<Column> columns;
  std::map<std::pair<size_t, Column>, const CellSummary*> by_place;
  for (const CellSummary& s : report.summary.cells) {
    const CellAxes& axes = report.cell(s).axes;
    if (axes.proposer == "none" || !axes.num_speculative_tokens) continue;
    const Row row{axes.proposer, axes.variant, *axes.num_speculative_tokens};
    auto at = std::find(rows.begin(), rows.end(), row);
    if (at == rows.end()) at = rows.insert(rows.end(), row);
    if (std::find(columns.begin(), columns.end(), column_of(axes)) == columns.end()) columns.push_back(column_of(axes));
    by_place[{static_cast<size_t>(at - rows.begin()), column_of(axes)}] = &s;
  }
  if (std::none_of(by_place.begin(), by_place.end(), [](const auto& e) { return e.second->speedup.has_value(); }))
    return section;
  std::sort(columns.begin(), columns.end());
  std::string head, body;
  for (const Column& c : columns)
    head += fmt::format("<th scope=\"col\">TP {} × PP {}<br>c = {}</th>", c.tp, c.pp, c.concurrency);
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const std::string variant = row.variant.empty() ? "" : ", " + row.variant;
    body +=
        fmt::format("<tr><th scope=\"row\">{}{} k={}</th>", html_escaped(row.proposer), html_escaped(variant), row.k);
    for (const Column& column : columns) {
      const auto found = by_place.find({r, column});
      body += heat_cell(report, found == by_place.end() ? nullptr : found->second);
    }
    body += "</tr>\n";
  }
  section.body =
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Speedup by proposer, k and concurrency\">"
      "<table class=\"heat\"><caption>Speedup over plain decoding of the same column.</caption><thead><tr><td></td>" +
      head + "</tr></thead><tbody>" + body + "</tbody></table></div>" + crossovers(report) +
      note(
          "Blue: faster, orange: slower, deeper in four steps up to a factor of two. ?: the interval holds 1 or is "
          "missing. *: "
          "not "
          "ranked. c: concurrent requests; a larger batch has less idle compute for drafts to use.");
  return section;
}

}  // namespace paceline::html
