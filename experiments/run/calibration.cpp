#include "experiments/run/calibration.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "experiments/results/read.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr size_t kMostRuns = 24;

json read_or_null(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const json content = in ? json::parse(in, nullptr, false) : json();
  return content.is_object() ? content : json();
}

std::optional<double> ratio_of(const json& summary, const std::set<CellKind>& kinds) {
  const std::string status = summary.value("status", "");
  if (status != "done" && status != "failed_cells") return std::nullopt;
  const json forecast = summary.value("forecast", json());
  if (!forecast.is_object() || !forecast.value("time_ratio", json()).is_number()) return std::nullopt;
  std::set<CellKind> measured;
  for (const json& cell : summary.value("cells", json::array())) {
    if (cell.value("status", "") != "done") continue;
    const json axes = cell.value("axes", json::object());
    measured.insert({.model = cell.value("model", ""),
                     .load = cell.value("load", "closed"),
                     .proposer = axes.value("proposer", ""),
                     .concurrency = axes.value("concurrency", 0)});
  }
  return measured == kinds ? std::optional(forecast.at("time_ratio").get<double>()) : std::nullopt;
}

}  // namespace

std::optional<Calibration> find_calibration(const std::filesystem::path& root, const std::string& machine_id,
                                            const std::set<CellKind>& kinds) {
  const std::vector<std::string> ids = list_runs(root);
  for (size_t i = 0; i < std::min(ids.size(), kMostRuns); ++i) {
    const std::string& id = ids[ids.size() - 1 - i];
    try {
      if (read_or_null(root / id / "environment.json").value("machine_id", "") != machine_id) continue;
      if (const auto ratio = ratio_of(read_or_null(root / id / "summary.json"), kinds))
        return Calibration{.run = id, .ratio = *ratio};
    } catch (const json::exception&) {  // of another form
    }
  }
  return std::nullopt;
}

}  // namespace paceline
