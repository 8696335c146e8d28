#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "experiments/analysis/claims/view.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"

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

std::string heat_cell(const Report& report, const VerdictView& view, const CellSummary* s) {
  if (s == nullptr) return "<td class=\"none\"></td>";
  const CellResult& cell = report.cell(*s);
  const Claim* const gain = view.claim(ClaimKind::over_plain, *s);
  if (!gain)
    return fmt::format("<td class=\"none\">{}</td>", cell.not_run ? std::string("not run") : to_string(cell.status));
  const std::string over = report.label(report.cell(*gain->over).axes);
  const std::string apart = gain->far_apart_s ? baseline_time_text(*gain->far_apart_s) : "";
  const std::string why = (apart.empty() ? "" : "; " + apart) + (s->rankable ? "" : "; not ranked: " + s->not_rankable);
  return fmt::format("<td class=\"{}\" title=\"{}\">{:.2f}×{}{}{}</td>", tint_class(gain->ratio, gain->outcome),
                     html_escaped(fmt::format("{}: {} over {}, {}{}", report.label(cell.axes),
                                              interval_text(gain->ratio), over, to_string(gain->outcome), why)),
                     gain->ratio.ratio, gain->outcome == Outcome::inconclusive ? " ?" : "", s->rankable ? "" : " *",
                     view.is_over_plain_at_its_place(*gain) ? "" : " †");
}

/// How the intervals of the map were made.
std::string pairings_of_map(const VerdictView& view) {
  PairingsTold told;
  for (const Claim& claim : view.claims()) {
    if (claim.kind != ClaimKind::over_plain) continue;
    const CellResult &cell = view.cell(*claim.cell), &over = view.cell(*claim.over);
    told.add(pairing_of(cell, over), measured_earlier_s(over, cell), claim.far_apart_s.has_value());
  }
  return told.text();
}

/// Where each proposer pays, as a list.
std::string crossovers(const VerdictView& view) {
  std::string out;
  size_t count = 0;
  for (const CrossoverClaim& claim : view.crossovers())
    if (claim.axis == CrossoverClaim::Axis::concurrency && count++ < kMaxSentences)
      out += "<li>" + html_escaped(concurrency_text(claim) + ".") + "</li>";
  return out.empty() ? "" : "<ul>" + out + "</ul>";
}

}  // namespace

std::string tint_class(const RatioInterval& ratio, Outcome outcome) {
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
  const VerdictView& view = report.view;
  if (std::none_of(by_place.begin(), by_place.end(),
                   [&](const auto& each) { return view.claim(ClaimKind::over_plain, *each.second); }))
    return section;
  std::sort(columns.begin(), columns.end());
  std::vector<std::string> elsewhere;  // references of another placement or load
  for (const auto& [place, s] : by_place) {
    const Claim* const gain = view.claim(ClaimKind::over_plain, *s);
    if (!gain || view.is_over_plain_at_its_place(*gain)) continue;
    const std::string label = report.label(report.cell(*gain->over).axes);
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
          "that is nearer to 1. Hatched, ?: the interval includes 1 or is missing. *: not ranked. c: concurrent "
          "requests; "
          "a larger batch has less idle compute for drafts to use. Intervals over repetitions, " +
          pairings_of_map(view));
  return section;
}

}  // namespace paceline::html
