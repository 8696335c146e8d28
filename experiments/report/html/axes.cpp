#include "experiments/report/html/axes.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "experiments/config/config.h"
#include "experiments/config/keys/schema.h"

namespace paceline::html {

namespace {

constexpr const char *kTp = "engine.parallel.tp", *kPp = "engine.parallel.pp",
                     *kK = "speculation.num_speculative_tokens", *kProposer = "speculation.proposer",
                     *kConcurrency = "load.concurrency", *kStated = "speculation.synthetic.acceptance_length";

std::string name_of(const std::string& path) {
  if (path == kTp) return "TP";
  if (path == kPp) return "PP";
  if (path == kK) return "draft length k";
  if (path == kStated) return "stated acceptance length";
  return std::string(last_part(path));
}

/// The scalar or list at a path; null when there is none.
const nlohmann::json* find_leaf(const nlohmann::json& tree, const std::string& path) {
  const nlohmann::json* const value = find_value(tree, path);
  return !value || value->is_null() || value->is_object() ? nullptr : value;
}

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
    if (cell.requested.is_object() && cell.requested.contains("speculation"))
      collect_numbers(cell.requested["speculation"], "speculation", numbers);
    if (cell.axes.num_speculative_tokens) numbers[kK].insert(*cell.axes.num_speculative_tokens);
  }
  std::string widest = kK;
  for (const auto& [path, values] : numbers)
    if (values.size() > std::max<size_t>(1, numbers[widest].size())) widest = path;
  return widest;
}

}  // namespace

ChartAxis::ChartAxis(const std::string& key_or_alias) {
  const KeySpec* const key = find_key_or_alias(key_or_alias);
  path_ = key ? key->path : key_or_alias;
  name_ = name_of(path_);
}

std::string ChartAxis::with(const std::string& value) const {
  return path_ == kK ? "k=" + value : fmt::format("{} {}", name_, value);
}

std::optional<std::string> ChartAxis::value(const CellResult& cell) const {
  const CellAxes& axes = cell.axes;
  if (path_ == kTp) return std::to_string(axes.tp);
  if (path_ == kPp) return std::to_string(axes.pp);
  if (path_ == kProposer) return axes.proposer;
  if (path_ == kConcurrency) return std::to_string(axes.concurrency);
  if (path_ == kK)
    return axes.num_speculative_tokens ? std::optional(std::to_string(*axes.num_speculative_tokens)) : std::nullopt;
  const nlohmann::json* const value = find_leaf(cell.requested, path_);
  if (!value) return std::nullopt;
  return bare_text(*value);
}

ChartLayout chart_layout(const RunResult& run) {
  const ReportConfig defaults;
  const nlohmann::json* const x = find_leaf(run.config_resolved, "report.x");
  const bool is_chosen = x && x->is_string() && x->get<std::string>() != kAutoChartX;
  const nlohmann::json* const facet = find_leaf(run.config_resolved, "report.facet");
  ChartLayout layout{.x = ChartAxis(is_chosen ? x->get<std::string>() : widest_axis(run)), .facets = {}};
  const auto add = [&](const std::string& name) {
    ChartAxis axis(name);
    // A line is one proposer over x anyway.
    if (axis == layout.x || axis == ChartAxis(kProposer)) return;
    if (std::find(layout.facets.begin(), layout.facets.end(), axis) == layout.facets.end())
      layout.facets.push_back(std::move(axis));
  };
  if (facet && facet->is_array()) {
    for (const auto& name : *facet)
      if (name.is_string()) add(name.get<std::string>());
  } else {
    for (const std::string& name : defaults.facet) add(name);
  }
  return layout;
}

Leftovers::Leftovers(const ChartLayout& layout, const std::vector<const CellResult*>& cells) {
  const auto is_told = [&](const ChartAxis& axis) {
    return axis == layout.x || std::find(layout.facets.begin(), layout.facets.end(), axis) != layout.facets.end();
  };
  for (const char* path : {kTp, kPp, kK, kConcurrency}) {
    const ChartAxis axis{std::string(path)};
    const bool varies = std::any_of(cells.begin(), cells.end(), [&](const CellResult* cell) {
      return axis.value(*cell) != axis.value(*cells.front());
    });
    if (varies && !is_told(axis)) varying_.push_back(axis);
  }
  named_.push_back(fmt::format("{}=", last_part(layout.x.path())));
  for (const ChartAxis& axis : layout.facets) named_.push_back(fmt::format("{}=", last_part(axis.path())));
}

std::string Leftovers::text(const CellResult& cell) const {
  std::string out;
  const auto add = [&out](const std::string& word) { out += (out.empty() ? "" : " ") + word; };
  for (const ChartAxis& axis : varying_) {
    const std::string name = axis.path() == kK ? "k=" : axis.path() == kConcurrency ? "c=" : axis.name() + " ";
    if (const auto value = axis.value(cell)) add(name + *value);
  }
  std::istringstream words(cell.axes.variant);
  for (std::string word; words >> word;) {
    const bool told =
        std::any_of(named_.begin(), named_.end(), [&](const auto& name) { return word.starts_with(name); });
    if (!told) add(word);
  }
  return out;
}

std::optional<double> as_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

}  // namespace paceline::html
