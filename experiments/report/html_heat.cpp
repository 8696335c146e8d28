#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "experiments/analysis/crossover.h"
#include "experiments/analysis/verdict_view.h"
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

/// What a cell of the map tells.
struct Gain {
  RatioInterval over_plain;
  const CellSummary* reference = nullptr;
  bool is_of_column = false;  // the reference has the placement and load of the cell

  bool is_faster() const { return outcome_of(over_plain) == Outcome::faster; }
  bool is_slower() const { return outcome_of(over_plain) == Outcome::slower; }
  bool is_open() const { return outcome_of(over_plain) == Outcome::inconclusive; }
};

/// Over plain decoding of the same placement and load where that was measured, whatever sweep.baseline names; else over
/// the baseline. None where the cell has no speedup.
std::optional<Gain> gain_of(const VerdictView& view, const CellSummary& s) {
  if (!s.speedup) return std::nullopt;
  Gain gain{.over_plain = *s.speedup, .reference = view.baseline_of(s)};
  if (const auto over_twin = view.gain_of_speculation(s)) {
    gain.over_plain = over_twin->ratio;
    gain.reference = over_twin->over;
  }
  gain.is_of_column = !gain.reference || (!view.speculates(*gain.reference) &&
                                          column_of(view.cell(*gain.reference).axes) == column_of(view.cell(s).axes));
  return gain;
}

std::string heat_cell(const Report& report, const VerdictView& view, const CellSummary* s) {
  if (s == nullptr) return "<td class=\"none\"></td>";
  const CellResult& cell = report.cell(*s);
  const std::optional<Gain> gain = gain_of(view, *s);
  if (!gain)
    return fmt::format("<td class=\"none\">{}</td>", cell.not_run ? std::string("not run") : to_string(cell.status));
  const char* const found = gain->is_faster() ? "faster" : gain->is_slower() ? "slower" : "inconclusive";
  const std::string over = gain->reference ? " over " + report.label(report.cell(*gain->reference).axes) : "";
  const std::string apart = gain->reference ? view.apart_text(*s, *gain->reference) : "";
  const std::string why = (apart.empty() ? "" : "; " + apart) + (s->rankable ? "" : "; not ranked: " + s->not_rankable);
  return fmt::format("<td class=\"{}\" title=\"{}\">{:.2f}×{}{}{}</td>", tint_class(gain->over_plain),
                     html_escaped(fmt::format("{}: {}{}, {}{}", report.label(cell.axes),
                                              interval_text(gain->over_plain), over, found, why)),
                     gain->over_plain.ratio, gain->is_open() ? " ?" : "", s->rankable ? "" : " *",
                     gain->is_of_column ? "" : " †");
}

/// How the intervals of the map were made.
std::string pairings_of_map(const VerdictView& view) {
  PairingsTold told;
  for (const CellSummary& s : view.summary().cells) {
    const std::optional<Gain> gain = view.speculates(s) ? gain_of(view, s) : std::nullopt;
    if (!gain || !gain->reference) continue;
    const CellResult &cell = view.cell(s), &over = view.cell(*gain->reference);
    const std::optional<double> apart_s = measured_earlier_s(over, cell);
    const Pairing pairing = pairing_of(cell, over);
    told.add(pairing, apart_s, is_far_apart(apart_s, pairing, std::min(s.repetitions, gain->reference->repetitions)));
  }
  return told.text();
}

/// Where each proposer pays, as a list.
std::string crossovers(const VerdictView& view) {
  const std::vector<std::string> sentences = concurrency_crossovers(view);
  std::string out;
  for (size_t i = 0; i < std::min(sentences.size(), kMaxSentences); ++i)
    out += "<li>" + html_escaped(sentences[i] + ".") + "</li>";
  return out.empty() ? "" : "<ul>" + out + "</ul>";
}

}  // namespace

std::string tint_class(const RatioInterval& ratio) {
  const Outcome outcome = outcome_of(ratio);
  if (outcome == Outcome::inconclusive) return "open";
  const bool is_faster = outcome == Outcome::faster;
  const double octaves = std::log2(is_faster ? *ratio.low : *ratio.high);
  const int level = std::clamp(static_cast<int>(std::ceil(std::min(4.0, std::abs(octaves) * 4) - 1e-9)), 1, 4);
  return fmt::format("{}{}", is_faster ? 'f' : 's', level);
}

Section heat_section(const Report& report) {
  Section section{"heat", "Where speculation pays", ""};
  std::vector<Row> rows;
  std::vector<Column> columns;
  std::map<std::pair<size_t, Column>, const CellSummary*> by_place;
  for (const CellSummary& s : report.summary.cells) {
    const CellAxes& axes = report.cell(s).axes;
    if (!axes.drafts() || !axes.num_speculative_tokens) continue;
    const Row row{axes.proposer, axes.variant, *axes.num_speculative_tokens};
    auto at = std::find(rows.begin(), rows.end(), row);
    if (at == rows.end()) at = rows.insert(rows.end(), row);
    if (std::find(columns.begin(), columns.end(), column_of(axes)) == columns.end()) columns.push_back(column_of(axes));
    by_place[{static_cast<size_t>(at - rows.begin()), column_of(axes)}] = &s;
  }
  if (std::none_of(by_place.begin(), by_place.end(), [](const auto& e) { return e.second->speedup.has_value(); }))
    return section;
  std::sort(columns.begin(), columns.end());
  const VerdictView view(report.run, report.summary);
  std::vector<std::string> elsewhere;  // references of another placement or load
  for (const auto& [place, s] : by_place) {
    const std::optional<Gain> gain = gain_of(view, *s);
    if (!gain || gain->is_of_column) continue;
    const std::string label = report.label(report.cell(*gain->reference).axes);
    if (std::find(elsewhere.begin(), elsewhere.end(), label) == elsewhere.end()) elsewhere.push_back(label);
  }
  std::string head, body;
  for (const Column& c : columns)
    head += fmt::format("<th scope=\"col\">TP {} × PP {}<br>c = {}</th>", c.tp, c.pp,
                        c.concurrency > 0 ? std::to_string(c.concurrency) : "–");
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const std::string variant = row.variant.empty() ? "" : ", " + row.variant;
    body +=
        fmt::format("<tr><th scope=\"row\">{}{} k={}</th>", html_escaped(row.proposer), html_escaped(variant), row.k);
    for (const Column& column : columns) {
      const auto found = by_place.find({r, column});
      body += heat_cell(report, view, found == by_place.end() ? nullptr : found->second);
    }
    body += "</tr>\n";
  }
  const std::string caption =
      "Speedup over plain decoding of the same column" +
      (elsewhere.empty() ? "." : fmt::format("; †: not measured, so over {}.", fmt::join(elsewhere, "; ")));
  section.body =
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Speedup by proposer, k and concurrency\">"
      "<table class=\"heat\"><caption>" +
      html_escaped(caption) + "</caption><thead><tr><td></td>" + head + "</tr></thead><tbody>" + body +
      "</tbody></table></div>" + crossovers(view) +
      note(
          "Blue: faster, orange: slower, deeper in four steps up to a factor of two, by the end of the 95 % interval "
          "that is nearer to 1. Hatched, ?: the interval holds 1 or is missing. *: not ranked. c: concurrent requests; "
          "a larger batch has less idle compute for drafts to use. Intervals over repetitions, " +
          pairings_of_map(view));
  return section;
}

}  // namespace paceline::html
