#include "experiments/report/html/parts.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "experiments/analysis/claims/view.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"
#include "speculative/proposer_entry.h"

namespace paceline::html {

namespace {

/// As Report::color(), by names of proposers; of several with one name, as drafts of different models have, the first
/// has its colour.
std::vector<int> colors_of(const std::vector<std::string>& names) {
  constexpr int kMost = kNumChartColors - 1;
  const std::vector<std::string> listed = proposer_names(ProposerNames::drafting);
  const int num_listed = std::min(int(listed.size()), kMost - 1);
  std::vector<int> colors;
  std::set<std::string> coloured;
  int further = 0;
  for (const std::string& name : names) {
    const auto at = std::find(listed.begin(), listed.begin() + num_listed, name) - listed.begin();
    const bool has_its_own = at < num_listed && coloured.insert(name).second;
    colors.push_back(has_its_own ? int(at) : num_listed + further++ % (kMost - num_listed));
  }
  return colors;
}

/// What a proposer with a second model drafts with: "self", or the model's folder and the shape that it was grown into;
/// "" for one without.
std::string draft_model(const CellResult& cell) {
  const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json speculation = cell.requested.is_object() ? cell.requested.value("speculation", none) : none;
  const auto text = [](const nlohmann::json& value) { return value.is_string() ? value.get<std::string>() : ""; };
  const nlohmann::json keys = speculation.is_object() ? speculation.value(cell.axes.proposer, none) : none;
  if (!keys.is_object()) return "";
  if (keys.value("self", nlohmann::json(false)) == true) return "self";
  const std::string path = text(keys.value("path", nlohmann::json())),
                    shape = text(keys.value("inflate", nlohmann::json()));
  return path.substr(path.find_last_of("/:") + 1) + (shape.empty() ? "" : " as " + shape);
}

/// A path as a relative URL.
std::string url_of(const std::filesystem::path& path) {
  constexpr std::string_view kPlain = "-._~/";
  std::string out;
  for (const char c : path.lexically_normal().generic_string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte < 0x80 && (std::isalnum(byte) != 0 || kPlain.find(c) != std::string_view::npos);
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

/// Whether the run's folder has it, or will, as it is written together with the page at the end of the run.
bool is_in_folder(const RunResult& run, const std::string& file) {
  std::error_code ignored;
  const bool is_at_its_end = run.info.status != "running";
  const bool is_written_beside =
      is_at_its_end && (file == "summary.json" || file == "summary.csv" || file == "summary.md" ||
                        (file == "samples.json" && !run.sample_texts.empty()));
  return is_written_beside || std::filesystem::exists(std::filesystem::path(run.folder) / file, ignored);
}

}  // namespace

Report::Report(const RunResult& run_, const RunSummary& summary_, std::filesystem::path data)
    : run(run_), summary(summary_), view(run_, summary_), data_(std::move(data)) {
  std::set<int> concurrencies;
  for (const CellResult& c : run.cells) {
    concurrencies.insert(c.axes.concurrency);
    draft_models_[c.axes.proposer].insert(draft_model(c));
  }
  std::vector<std::string> names;
  for (const CellResult& c : run.cells) {
    if (!c.axes.drafts() || std::find(proposers_.begin(), proposers_.end(), proposer(c)) != proposers_.end()) continue;
    proposers_.push_back(proposer(c));
    names.push_back(c.axes.proposer);
  }
  colors_ = colors_of(names);
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
    else if (ranks_before(s, **rival))
      *rival = &s;
  }
}

std::string Report::linked(const std::string& file, const std::string& text) const {
  if (!has_data() || !is_in_folder(run, file)) return text;
  return fmt::format("<a href=\"{}\">{}</a>", url_of(data_ / file), text);
}

std::string Report::proposer(const CellResult& c) const {
  if (draft_models_.at(c.axes.proposer).size() < 2) return c.axes.proposer;
  return fmt::format("{} ({})", c.axes.proposer, draft_model(c));
}

int Report::color(const std::string& proposer) const {
  if (proposer == kNoProposer) return kNumChartColors - 1;
  return colors_[static_cast<size_t>(std::find(proposers_.begin(), proposers_.end(), proposer) - proposers_.begin())];
}

std::string Report::label(const CellAxes& axes) const {
  const std::string label = axes_label(axes);
  return has_several_concurrencies() ? label : label.substr(0, label.rfind(" c="));
}

std::string placement(const CellAxes& axes) { return fmt::format("TP {} × PP {}", axes.tp, axes.pp); }

std::string Report::place(const CellAxes& axes) const {
  return has_several_concurrencies() && axes.concurrency > 0
             ? fmt::format("{}, concurrency {}", placement(axes), axes.concurrency)
             : placement(axes);
}

std::string Report::method(const CellAxes& axes) const {
  std::string text = proposer_label(axes);
  if (axes.num_speculative_tokens) text += fmt::format(" k={}", *axes.num_speculative_tokens);
  return text;
}

std::string note(const std::string& html) { return "<p class=\"note\">" + html + "</p>"; }

std::string grid(const std::string& charts) { return "<div class=\"grid\">" + charts + "</div>"; }

std::string wide(const std::string& label, const std::string& chart) {
  return fmt::format("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</div>",
                     html_escaped(label), chart);
}

void cut_whisker(BarRow& row) {
  if (!row.high) return;
  const double longest = 1.5 * row.value;
  row.is_cut = *row.high > longest;
  row.high = std::min(*row.high, longest);
}

void PairingsTold::add(Pairing pairing, std::optional<double> apart_s, bool is_far) {
  halves_ = halves_ || pairing == Pairing::in_halves;
  if (pairing != Pairing::none && !is_far) return;
  apart_ = true;
  farthest_s_ = std::max(farthest_s_, std::fabs(apart_s.value_or(0)));
}

std::string PairingsTold::text() const {
  if (!halves_ && !apart_) return "of logs, paired: Student t.";
  std::string text = "of logs: Student t of pairs where cells were measured by turns";
  if (halves_) text += "; Welch's where they were measured in halves, A B … B A";
  if (apart_)
    text += fmt::format("; Welch's where they were measured up to {} apart, not paired", rough_time_text(farthest_s_));
  return text + ".";
}

double width_of_each(size_t count, double least) {
  constexpr double kPage = 1220, kMost = 600, kGap = 14;
  const double n = static_cast<double>(std::max<size_t>(1, count));
  return std::clamp(std::floor((kPage - kGap * (n - 1)) / n), least, kMost);
}

std::string table(const std::string& caption, const std::vector<TableColumn>& columns, const std::string& rows,
                  const char* css) {
  std::string out = fmt::format("<table class=\"{}\"><caption>{}</caption><thead><tr>", css, html_escaped(caption));
  for (const TableColumn& column : columns) {
    out += fmt::format("<th scope=\"col\"{}{}>{}</th>", column.is_text ? " class=\"s\"" : "",
                       *column.help ? fmt::format(" title=\"{}\"", html_escaped(column.help)) : "",
                       html_escaped(column.name));
  }
  return wide(caption, out + "</tr></thead><tbody>\n" + rows + "</tbody></table>") + "\n";
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
          {"c", false, "concurrent requests; –: no closed loop"}};
}

std::string axes_cells(const CellAxes& axes) {
  return fmt::format("<td>{}</td><td>{}</td><td class=\"s\">{}</td><td>{}</td><td>{}</td>", axes.tp, axes.pp,
                     html_escaped(proposer_label(axes)),
                     axes.num_speculative_tokens ? std::to_string(*axes.num_speculative_tokens) : "–",
                     axes.concurrency > 0 ? std::to_string(axes.concurrency) : "–");
}

}  // namespace paceline::html
