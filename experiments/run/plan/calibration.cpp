#include "experiments/run/plan/calibration.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "experiments/results/files/files.h"
#include "experiments/results/files/run_names.h"
#include "experiments/results/reachable_concurrency.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr size_t kMostRuns = 24;

json read_or_null(const std::filesystem::path& file) {
  const auto text = try_read_user_file(file, kResultFile);
  const json content = text ? json::parse(*text, nullptr, false) : json();
  return content.is_object() ? content : json();
}

MeasuredCell measured_cell(const json& cell) {
  const json& axes = cell.at("axes");
  const auto num_requests = cell.at("num_requests").get<double>();
  const ConcurrencyLimits limits{
      .requests = cell.at("num_requests").get<int64_t>() / cell.at("repetitions").get<int64_t>(),
      .concurrency = axes.at("concurrency").get<int64_t>(),
      .max_num_seqs = cell.at("effective").value("max_num_seqs", std::numeric_limits<int64_t>::max())};
  const double turns = num_requests / double(reachable_concurrency(limits));
  const double forwards = cell.at("counters").at("target_forwards").get<double>();
  return {.id = cell.at("id").get<std::string>(),
          .kind = {.model = cell.at("model").get<std::string>(),
                   .load = cell.at("load").get<std::string>(),
                   .proposer = axes.at("proposer").get<std::string>(),
                   .concurrency = int(limits.concurrency)},
          .turn_s = cell.at("step_ms").get<double>() / 1e3 * forwards / turns,
          .mean_output = cell.at("output_tokens").get<double>() / num_requests};
}

/// Of a run's folder; none where it says nothing about these kinds. Throws json::exception for another form.
std::optional<Calibration> calibration_of(const std::filesystem::path& folder, const std::set<CellKind>& kinds) {
  const json summary = read_or_null(folder / "summary.json");
  const std::string status = summary.value("status", "");
  if (status != "done" && status != "failed_cells") return std::nullopt;
  const json forecast = summary.value("forecast", json());
  if (!forecast.is_object() || !forecast.value("time_ratio", json()).is_number()) return std::nullopt;
  Calibration out{.run = summary.at("id").get<std::string>(), .ratio = forecast.at("time_ratio").get<double>()};
  std::set<CellKind> measured;
  for (const json& cell : summary.at("cells")) {
    if (cell.at("status") != "done" || cell.at("num_requests").get<int64_t>() == 0) continue;
    out.cells.push_back(measured_cell(cell));
    measured.insert(out.cells.back().kind);
    out.num_noisy += cell.at("noisy").get<bool>() ? 1 : 0;
    out.requests = cell.at("num_requests").get<int64_t>() / cell.at("repetitions").get<int64_t>();
  }
  const json sampling = read_or_null(folder / "config.resolved.json").value("sampling", json::object());
  out.max_tokens = sampling.value("max_tokens", 0);
  return measured == kinds ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

std::optional<Calibration> find_calibration(const std::filesystem::path& root, const std::string& machine_id,
                                            const std::set<CellKind>& kinds, int64_t requests) {
  const auto num_faults = [&](const Calibration& calibration) {
    return (calibration.num_noisy > 0 ? 1 : 0) + (is_much_smaller(calibration.requests, requests) ? 1 : 0);
  };
  const std::vector<std::string> ids = list_runs(root);
  std::optional<Calibration> best;
  for (size_t i = 0; i < std::min(ids.size(), kMostRuns); ++i) {
    const std::filesystem::path folder = root / ids[ids.size() - 1 - i];
    try {
      if (read_or_null(folder / "environment.json").value("machine_id", "") != machine_id) continue;
      std::optional<Calibration> found = calibration_of(folder, kinds);
      if (!found || (best && num_faults(*found) >= num_faults(*best))) continue;
      best = std::move(found);
      if (num_faults(*best) == 0) break;
    } catch (const json::exception&) {  // of another form
    }
  }
  return best;
}

SecondsRange calibrated_forecast(const Calibration& calibration, const PlannedCell& planned) {
  const auto is_same = [&](const MeasuredCell& cell) { return cell.id == planned.id && cell.kind == planned.kind; };
  const bool has_same = std::any_of(calibration.cells.begin(), calibration.cells.end(), is_same);
  SecondsRange range{.low = std::numeric_limits<double>::infinity(), .high = 0};
  for (const MeasuredCell& cell : calibration.cells) {
    if (has_same ? !is_same(cell) : cell.kind != planned.kind) continue;
    const double time_s = planned.num_turns * cell.turn_s;
    const bool may_grow = calibration.max_tokens > 0 && planned.max_tokens > calibration.max_tokens;
    const double shrinks = cell.mean_output > 0 ? std::min(1.0, planned.mean_output / cell.mean_output) : 1;
    const double grows = may_grow ? std::max(1.0, planned.mean_output / calibration.max_tokens) : 1;
    range.low = std::min(range.low, time_s * shrinks);
    range.high = std::max(range.high, time_s * shrinks * grows);
  }
  return range;
}

}  // namespace paceline
