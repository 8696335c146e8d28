#pragma once
// report.x and report.facet: which keys lay out the speedup charts.

#include <optional>
#include <string>
#include <vector>

#include "experiments/results/results.h"

namespace paceline::html {

/// A key of the configuration as an axis of a chart.
class ChartAxis {
 public:
  /// A full path or an alias; an unknown name gives an axis without values.
  explicit ChartAxis(const std::string& key_or_alias);

  const std::string& path() const { return path_; }
  /// As it stands beside the chart: "draft length k", "TP", "stated acceptance length", the last part of other paths.
  const std::string& name() const { return name_; }
  /// "k=3", "TP 2": the axis at a value.
  std::string with(const std::string& value) const;
  /// None where the cell has no value: k of a cell that does not speculate.
  std::optional<std::string> value(const CellResult& cell) const;

  bool operator==(const ChartAxis& other) const { return path_ == other.path_; }

 private:
  std::string path_, name_;
};

/// From the run's resolved configuration; what it does not hold has the defaults of the schema. Without a report.x the
/// number of speculation.* with the most values in the sweep is x: k, or the stated acceptance length.
struct ChartLayout {
  ChartAxis x;
  std::vector<ChartAxis> facets;
};
ChartLayout chart_layout(const RunResult& run);

/// What tells two cells of one proposer apart beside x and facets: "c=8", "" where nothing does. `cells` are those of
/// the charts.
class Leftovers {
 public:
  Leftovers(const ChartLayout& layout, const std::vector<const CellResult*>& cells);
  std::string text(const CellResult& cell) const;

 private:
  std::vector<ChartAxis> varying_;  // of the five axes of a cell
  std::vector<std::string> named_;  // "max=" of x and facets, whose words in a variant are not told again
};

/// A number of a value's text, where all of it is one.
std::optional<double> as_number(const std::string& text);

}  // namespace paceline::html
