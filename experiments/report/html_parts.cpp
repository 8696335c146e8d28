#include "experiments/report/html_parts.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "experiments/report/svg_chart.h"
#include "experiments/report/text.h"

namespace paceline::html {

namespace {

bool is_better(const CellSummary& a, const CellSummary& b) {
  return std::tuple(a.rankable, *a.output_tok_s) > std::tuple(b.rankable, *b.output_tok_s);
}

}  // namespace

Report::Report(const RunResult& run_, const RunSummary& summary_) : run(run_), summary(summary_) {
  std::set<int> concurrencies;
  for (const CellResult& c : run.cells) {
    concurrencies.insert(c.axes.concurrency);
    if (c.axes.proposer != "none" &&
        std::find(proposers_.begin(), proposers_.end(), c.axes.proposer) == proposers_.end())
      proposers_.push_back(c.axes.proposer);
  }
  concurrencies_.assign(concurrencies.begin(), concurrencies.end());
  for (const CellSummary& s : summary.cells) {
    if (!s.output_tok_s || cell(s).forced) continue;
    const CellAxes& axes = cell(s).axes;
    const auto rival = std::find_if(fastest_.begin(), fastest_.end(), [&](const CellSummary* other) {
      const CellAxes& o = cell(*other).axes;
      return std::tie(o.tp, o.pp, o.concurrency, o.proposer, o.variant) ==
             std::tie(axes.tp, axes.pp, axes.concurrency, axes.proposer, axes.variant);
    });
    if (rival == fastest_.end())
      fastest_.push_back(&s);
    else if (is_better(s, **rival))
      *rival = &s;
  }
}

int Report::color(const std::string& proposer) const {
  if (proposer == "none") return kNumChartColors - 1;
  return static_cast<int>(std::find(proposers_.begin(), proposers_.end(), proposer) - proposers_.begin()) %
         (kNumChartColors - 1);
}

std::string Report::label(const CellAxes& axes) const {
  const std::string label = axes_label(axes);
  return has_several_concurrencies() ? label : label.substr(0, label.rfind(" c="));
}

std::string placement(const CellAxes& axes) { return fmt::format("TP {} × PP {}", axes.tp, axes.pp); }

std::string Report::place(const CellAxes& axes) const {
  return has_several_concurrencies() ? fmt::format("{}, concurrency {}", placement(axes), axes.concurrency)
                                     : placement(axes);
}

std::string Report::method(const CellAxes& axes) const {
  std::string text = proposer_label(axes);
  if (axes.num_speculative_tokens) text += fmt::format(" k={}", *axes.num_speculative_tokens);
  return text;
}

std::string note(const std::string& html) { return "<p class=\"note\">" + html + "</p>"; }

std::string grid(const std::string& charts) { return "<div class=\"grid\">" + charts + "</div>"; }

std::string table(const std::string& caption, const std::vector<TableColumn>& columns, const std::string& rows,
                  const char* css) {
  std::string out = fmt::format(
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table "
      "class=\"{1}\"><caption>{0}</caption>"
      "<thead><tr>",
      html_escaped(caption), css);
  for (const TableColumn& column : columns) {
    out += fmt::format("<th scope=\"col\"{}{}>{}</th>", column.is_text ? " class=\"s\"" : "",
                       *column.help ? fmt::format(" title=\"{}\"", html_escaped(column.help)) : "",
                       html_escaped(column.name));
  }
  return out + "</tr></thead><tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string row_open(const CellResult& cell, const CellSummary& s, const std::string& filter_text) {
  return fmt::format("<tr{}{}>",
                     filter_text.empty() ? "" : fmt::format(" data-label=\"{}\"", html_escaped(filter_text)),
                     cell.status == CellStatus::failed ? " class=\"failed\""
                     : s.rankable                      ? ""
                                                       : " class=\"muted\"");
}

std::string text_cell(const std::string& text, const char* css) {
  return fmt::format("<td class=\"{}\">{}</td>", css, html_escaped(text));
}

std::string number_cell(const std::optional<double>& value, int digits, const std::string& more) {
  if (json_number(value).is_null()) return "<td>–</td>";
  return fmt::format("<td>{}{}</td>", number_text(value, digits), more);
}

std::string percent_cell(const std::optional<double>& share) {
  if (json_number(share).is_null()) return "<td>–</td>";
  return fmt::format("<td>{:.0f} %</td>", *share * 100);
}

std::vector<TableColumn> axes_columns() {
  return {{"TP", false, "tensor-parallel ranks"},
          {"PP", false, "pipeline stages"},
          {"proposer", true},
          {"k", false, "num_speculative_tokens"},
          {"c", false, "concurrent requests; 0: all at once"}};
}

std::string axes_cells(const CellAxes& axes) {
  return fmt::format("<td>{}</td><td>{}</td><td class=\"s\">{}</td><td>{}</td><td>{}</td>", axes.tp, axes.pp,
                     html_escaped(proposer_label(axes)),
                     axes.num_speculative_tokens ? std::to_string(*axes.num_speculative_tokens) : "–",
                     axes.concurrency);
}

}  // namespace paceline::html
