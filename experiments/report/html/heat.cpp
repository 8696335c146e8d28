// Maps of speedups: by proposer, k and place, and by kind of text.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "experiments/analysis/metrics/within_cell.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxSentences = 12;

/// f1 … f4 faster, s1 … s4 slower, in equal steps of the logarithm up to a factor of two, by the end of the interval
/// that is nearer to 1; "open" where nothing is shown.
std::string tint_class(const Claim& claim) {
  if (claim.outcome == Outcome::inconclusive) return "open";
  const bool is_faster = claim.outcome == Outcome::faster;
  const double octaves = std::log2(is_faster ? *claim.ratio.low : *claim.ratio.high);
  const int level = std::clamp(static_cast<int>(std::ceil(std::min(4.0, std::abs(octaves) * 4) - 1e-9)), 1, 4);
  return fmt::format("{}{}", is_faster ? 'f' : 's', level);
}

/// Rows by name, in the order of their appearance; columns by key, with their heads as HTML.
template <class Key, class Value>
struct HeatMap {
  std::vector<std::pair<std::string, std::map<Key, Value>>> rows;
  std::map<Key, std::string> heads;

  /// `cell`: of row, key and value, or null where there is none.
  template <class Cell>
  std::string html(const std::string& caption, Cell&& cell) const {
    std::string head, body;
    for (const auto& [key, text] : heads) head += "<th scope=\"col\">" + text + "</th>";
    for (const auto& [name, row] : rows) {
      body += fmt::format("<tr><th scope=\"row\">{}</th>", html_escaped(name));
      for (const auto& [key, text] : heads) {
        const auto found = row.find(key);
        body += found == row.end() ? "<td class=\"none\"></td>" : cell(name, key, found->second);
      }
      body += "</tr>\n";
    }
    return wide(caption, fmt::format("<table class=\"heat\"><caption>{}</caption><thead><tr><td></td>{}</tr></thead>"
                                     "<tbody>{}</tbody></table>",
                                     html_escaped(caption), head, body));
  }
};

std::string heat_cell(const Report& report, const CellSummary& s) {
  const VerdictView& view = report.view;
  const CellResult& cell = report.cell(s);
  const Claim* const gain = view.claim(ClaimKind::over_plain, s);
  if (!gain)
    return fmt::format("<td class=\"none\">{}</td>", cell.not_run ? std::string("not run") : to_string(cell.status));
  const std::string apart = gain->far_apart_s ? "; " + baseline_time_text(*gain->far_apart_s) : "";
  const std::string tip = fmt::format("{}: {} over {}, {}{}{}", report.label(cell.axes), interval_text(gain->ratio),
                                      report.label(report.cell(*gain->over).axes), outcome_text(*gain), apart,
                                      s.rankable ? "" : "; not ranked: " + s.not_rankable);
  return fmt::format("<td class=\"{}\" title=\"{}\">{:.2f}×{}{}{}</td>", tint_class(*gain), html_escaped(tip),
                     gain->ratio.ratio,
                     gain->outcome == Outcome::inconclusive ? " ?"
                     : gain->shown == Outcome::inconclusive ? " °"
                                                            : "",
                     s.rankable ? "" : " *", view.is_over_plain_at_its_place(*gain) ? "" : " †");
}

/// How the intervals of the map were made.
std::string pairings_of_map(const VerdictView& view) {
  PairingsTold told;
  for (const Claim& claim : view.claims()) {
    if (claim.kind != &ClaimKind::over_plain) continue;
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
      out += "<li>" + html_escaped(crossover_text(claim) + ".") + "</li>";
  return out.empty() ? "" : "<ul>" + out + "</ul>";
}

/// Of the cell, whatever it is compared with.
const CategorySummary& category_of(const Claim& claim) {
  return *std::find_if(claim.cell->categories.begin(), claim.cell->categories.end(),
                       [&](const CategorySummary& of) { return of.category == claim.category; });
}

}  // namespace

Section heat_section(const Report& report) {
  Section section{"heat", "Where speculation pays, end to end"};
  const VerdictView& view = report.view;
  HeatMap<std::array<int, 3>, const CellSummary*> map;
  std::vector<std::string> elsewhere;  // references of another placement or load
  bool any = false;
  for (const CellSummary& s : report.summary.cells) {
    const CellAxes& axes = report.cell(s).axes;
    if (!axes.drafts() || !axes.num_speculative_tokens) continue;
    const std::array key = {axes.tp, axes.pp, axes.concurrency};
    group_of(map.rows, report.method(axes))[key] = &s;
    map.heads[key] =
        fmt::format("{}<br>c = {}", placement(axes), axes.concurrency > 0 ? std::to_string(axes.concurrency) : "–");
    const Claim* const gain = view.claim(ClaimKind::over_plain, s);
    any = any || gain;
    if (!gain || view.is_over_plain_at_its_place(*gain)) continue;
    const std::string label = report.label(report.cell(*gain->over).axes);
    if (std::find(elsewhere.begin(), elsewhere.end(), label) == elsewhere.end()) elsewhere.push_back(label);
  }
  if (!any) return section;
  const std::string caption =
      "End-to-end speedup (prefill included) over no speculation in the same column" +
      (elsewhere.empty() ? "." : fmt::format("; †: not measured, so over {}.", fmt::join(elsewhere, "; ")));
  const auto cell = [&](const auto&, const auto&, const CellSummary* s) { return heat_cell(report, *s); };
  section.body =
      map.html(caption, cell) + crossovers(view) +
      note(
          "Blue: faster. Orange: slower. Darker: the whole 95 % interval lies farther from 1 (four shades). Hatched or "
          "?: the interval includes 1 or is missing. °: the interval excludes 1, but the difference is below "
          "2 % or not significant after correction for all comparisons of the run. *: not ranked. " +
          pairings_of_map(view));
  return section;
}

Section league_section(const Report& report) {
  Section section{"league", "Who wins by prompt category, decode only"};
  using Column = std::pair<int, std::string>;  // concurrency, kind of text
  HeatMap<Column, const Claim*> map;
  std::map<Column, const Claim*> best;
  const CellAxes* place = nullptr;  // of the first speculating cell: one is enough, as drafts do not depend on it
  for (const Claim& claim : report.view.claims()) {
    if (claim.kind != &ClaimKind::in_category) continue;
    const CellAxes& axes = report.cell(*claim.cell).axes;
    if (place == nullptr) place = &axes;
    if (axes.tp != place->tp || axes.pp != place->pp) continue;
    const Column column{axes.concurrency, claim.category};
    group_of(map.rows, report.method(axes)).emplace(column, &claim);
    map.heads[column] = html_escaped(claim.category) +
                        (report.has_several_concurrencies() ? fmt::format("<br>c = {}", axes.concurrency) : "");
    const Claim*& leader = best[column];
    if (claim.cell->rankable && (!leader || claim.ratio.ratio > leader->ratio.ratio)) leader = &claim;
  }
  if (map.rows.size() < 2 || map.heads.size() < 2) return section;
  const auto cell = [&](const std::string& name, const Column& column, const Claim* claim) {
    const CategorySummary& of = category_of(*claim);
    const std::string tip =
        fmt::format("{}, {}: {}, acceptance length {}, {} requests", name, claim->category, interval_text(claim->ratio),
                    number_text(of.mean_acceptance_length, 2), of.num_requests);
    const bool is_best = best[column] == claim;
    return fmt::format("<td class=\"{}\" title=\"{}\">{}{:.2f}×{}{}</td>", tint_class(*claim), html_escaped(tip),
                       is_best ? "<b>★ " : "", claim->ratio.ratio, is_best ? "</b>" : "",
                       claim->cell->rankable ? "" : " *");
  };
  section.body =
      map.html(fmt::format("Decode-only speedup (prefill excluded) over no speculation, by prompt category; {}.",
                           placement(*place)),
               cell) +
      note(
          "★: the largest estimate of its column; where intervals overlap, another may be faster. Colours, hatching "
          "and * as above. Tooltips have intervals and acceptance lengths.");
  return section;
}

}  // namespace paceline::html
