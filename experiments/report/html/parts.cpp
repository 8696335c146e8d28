#include "experiments/report/html/parts.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "engine/util/json_io.h"
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
  const auto text = [&](const char* key) {
    const nlohmann::json* const value =
        find_value(cell.requested, fmt::format("speculation.{}.{}", cell.axes.proposer, key));
    return value && !value->is_null() ? bare_text(*value) : "";
  };
  if (text("self") == "true") return "self";
  const std::string path = text("path"), shape = text("inflate");
  return path.substr(path.find_last_of("/:") + 1) + (shape.empty() ? "" : " as " + shape);
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
  std::vector<std::pair<std::tuple<int, int, int, std::string, std::string>, const CellSummary*>> fastest;
  for (const CellSummary& s : summary.cells) {
    if (!s.output_tok_s || cell(s).forced) continue;
    const CellAxes& axes = cell(s).axes;
    const CellSummary*& best =
        group_of(fastest, std::tuple(axes.tp, axes.pp, axes.concurrency, axes.proposer, axes.variant));
    if (!best || ranks_before(s, *best)) best = &s;
  }
  for (const auto& [key, s] : fastest) fastest_.push_back(s);
}

std::string Report::linked(const std::string& file, const std::string& text) const {
  if (!has_data() || !is_in_folder(run, file)) return text;
  const auto is_plain = [](char c) {
    return static_cast<unsigned char>(c) < 0x80 &&
           (std::isalnum(c) != 0 || std::string_view("-._~/").find(c) != std::string_view::npos);
  };
  const std::string path = (data_ / file).lexically_normal().generic_string();
  return fmt::format("<a href=\"{}\">{}</a>", percent_encoded(path, is_plain), text);
}

void Report::sort_by_place(std::vector<const CellSummary*>& cells) const {
  std::stable_sort(cells.begin(), cells.end(), [this](const CellSummary* a, const CellSummary* b) {
    const CellAxes &x = cell(*a).axes, &y = cell(*b).axes;
    return std::tie(x.tp, x.pp, x.concurrency) < std::tie(y.tp, y.pp, y.concurrency);
  });
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

std::string Report::baseline_text() const {
  const auto is_over_plain = [&](const CellSummary& s) {
    const CellSummary* const base = view.baseline_of(s);
    return base && (base == &s ? !view.speculates(s) : view.is_plain_twin(*base, s));
  };
  for (const CellSummary& s : summary.cells)
    if (s.speedup && !is_over_plain(s)) return "the cell that sweep.baseline names";
  return "no speculation in the same placement and load";
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
  if (!halves_ && !apart_) return "95 % intervals: paired Student t on log speedups over repetitions.";
  std::string text =
      "95 % intervals on log speedups over repetitions: paired Student t where cells were measured by turns";
  if (halves_) text += "; Welch's t where they were measured in halves, A B … B A";
  if (apart_)
    text +=
        fmt::format("; Welch's t where they were measured up to {} apart, not paired", rough_time_text(farthest_s_));
  return text + ".";
}

double width_of_each(size_t count, double least) {
  constexpr double kPage = 1220, kMost = 600, kGap = 14;
  const double n = static_cast<double>(std::max<size_t>(1, count));
  return std::clamp(std::floor((kPage - kGap * (n - 1)) / n), least, kMost);
}

std::string percent_encoded(std::string_view bytes, bool (*is_plain)(char c)) {
  std::string out;
  for (const char c : bytes) out += is_plain(c) ? std::string(1, c) : fmt::format("%{:02X}", (unsigned char)c);
  return out;
}

std::string number(const std::optional<double>& value, int digits) {
  return value && std::isfinite(*value) ? number_text(value, digits) : "–";
}

std::string percent(const std::optional<double>& share) {
  return share && std::isfinite(*share) ? fmt::format("{:.0f} %", *share * 100) : "–";
}

std::optional<double> ratio(double part, double whole) {
  return whole > 0 ? std::optional(part / whole) : std::nullopt;
}

Table table_of(const Report& report, const std::string& title, const std::vector<const CellSummary*>& cells,
               const CellColumns& columns) {
  Table table{.title = title,
              .columns = {{"TP", false, "tensor-parallel ranks"},
                          {"PP", false, "pipeline stages"},
                          {"proposer", true},
                          {"k", false, "num_speculative_tokens"},
                          {"c", false, "concurrent requests; –: not limited"}},
              .rows = {}};
  for (const CellColumn& column : columns) table.columns.push_back({column.name, column.is_text, column.help});
  for (const CellSummary* s : cells) {
    const CellResult& cell = report.cell(*s);
    Table::Row row{.cells = axes_cells(cell.axes),
                   .css = cell.status == CellStatus::failed ? "failed"
                          : s->rankable                     ? ""
                                                            : "muted"};
    for (const CellColumn& column : columns) row.cells.emplace_back(column.text(*s));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<Table::Cell> axes_cells(const CellAxes& axes) {
  return {std::to_string(axes.tp), std::to_string(axes.pp), proposer_label(axes),
          axes.num_speculative_tokens ? std::to_string(*axes.num_speculative_tokens) : "–",
          axes.concurrency > 0 ? std::to_string(axes.concurrency) : "–"};
}

std::string rank_name(size_t rank, int stage, bool has_stages) {
  return has_stages ? fmt::format("rank {}, stage {}", rank, stage) : fmt::format("rank {}", rank);
}

std::string folded(const Table& table) {
  return "<details><summary>As numbers</summary>" + html_table(table, "sortable") + "</details>";
}

}  // namespace paceline::html
