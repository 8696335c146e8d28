#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/metrics/categories.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

/// Of one load, a kind of text.
struct TextColumn {
  int concurrency = 0;
  std::string category;
  auto operator<=>(const TextColumn&) const = default;
};

struct LeagueRow {
  std::string name;
  bool is_ranked = true;
  std::map<TextColumn, const Claim*> by_column;
};

/// Of the cell, whatever it is compared with.
const CategorySummary& category_of(const Claim& claim) {
  return *std::find_if(claim.cell->categories.begin(), claim.cell->categories.end(),
                       [&](const CategorySummary& of) { return of.category == claim.category; });
}

std::string league_cell(const LeagueRow& row, const TextColumn& column, bool is_best) {
  const auto found = row.by_column.find(column);
  if (found == row.by_column.end()) return "<td class=\"none\"></td>";
  const Claim& claim = *found->second;
  const CategorySummary& of = category_of(claim);
  return fmt::format(
      "<td class=\"{}\" title=\"{}\">{}{:.2f}×{}{}</td>", tint_class(claim.ratio, claim.outcome),
      html_escaped(fmt::format("{}, {}: {}, acceptance length {}, {} requests", row.name, column.category,
                               interval_text(claim.ratio), number_text(of.mean_acceptance_length, 2), of.num_requests)),
      is_best ? "<b>★ " : "", claim.ratio.ratio, is_best ? "</b>" : "", row.is_ranked ? "" : " *");
}

}  // namespace

Section league_section(const Report& report) {
  Section section{"league", "Who wins where", ""};
  const VerdictView& view = report.view;
  std::vector<LeagueRow> rows;
  std::vector<TextColumn> columns;
  const CellAxes* place = nullptr;  // of the first speculating cell: one is enough, as drafts do not depend on it
  for (const Claim& claim : view.claims()) {
    if (claim.kind != ClaimKind::in_category) continue;
    const CellAxes& axes = view.cell(*claim.cell).axes;
    if (place == nullptr) place = &axes;
    if (axes.tp != place->tp || axes.pp != place->pp) continue;
    const std::string name = fmt::format("{} k={}", proposer_label(axes), axes.num_speculative_tokens.value_or(0));
    const TextColumn column{axes.concurrency, claim.category};
    if (std::find(columns.begin(), columns.end(), column) == columns.end()) columns.push_back(column);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const LeagueRow& one) { return one.name == name; });
    if (row == rows.end())
      row = rows.insert(rows.end(), {.name = name, .is_ranked = claim.cell->rankable, .by_column = {}});
    row->by_column.emplace(column, &claim);
  }
  if (rows.size() < 2 || columns.size() < 2) return section;
  std::sort(columns.begin(), columns.end());
  std::string head, body;
  std::map<TextColumn, std::pair<double, const LeagueRow*>> best;
  for (const TextColumn& column : columns) {
    head += fmt::format("<th scope=\"col\">{}{}</th>", html_escaped(column.category),
                        report.has_several_concurrencies() ? fmt::format("<br>c = {}", column.concurrency) : "");
    for (const LeagueRow& row : rows) {
      const auto found = row.by_column.find(column);
      if (!row.is_ranked || found == row.by_column.end()) continue;
      auto& leader = best[column];
      if (found->second->ratio.ratio > leader.first) leader = {found->second->ratio.ratio, &row};
    }
  }
  for (const LeagueRow& row : rows) {
    body += fmt::format("<tr><th scope=\"row\">{}</th>", html_escaped(row.name));
    for (const TextColumn& column : columns) body += league_cell(row, column, best[column].second == &row);
    body += "</tr>\n";
  }
  section.body = fmt::format(
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Speedup of decoding by proposer and text\">"
      "<table class=\"heat\"><caption>Speedup of decoding over plain decoding, by the category of the prompts; TP {} × "
      "PP {}.</caption><thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table></div>",
      place->tp, place->pp, head, body);
  section.body += note(
      "★: the largest of its column; where intervals overlap it may be another. Tints and hatching as in the map "
      "above. *: "
      "not ranked. Tooltips have intervals and acceptance lengths.");
  return section;
}

}  // namespace paceline::html
