#pragma once
// What earlier runs say about forecasts: how many times the floor a sweep takes here.

#include <compare>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

namespace paceline {

/// What a cell has in common with another whose ratio of time to floor says something about it: batches, drafts and the
/// size of a model each change that ratio.
struct CellKind {
  std::string model;  // CellResult::model
  std::string load;   // CellResult::load
  std::string proposer;
  int concurrency = 0;
  auto operator<=>(const CellKind&) const = default;
};

struct Calibration {
  std::string run;   // id
  double ratio = 1;  // time_ratio() of experiments/analysis/forecast_ratio.h
};

/// The newest finished run below `root` on this machine (machine_id of environment.json) whose finished cells are of
/// exactly these kinds, among the newest 24. Reads files that are short. None where there is no such run; files that
/// cannot be read are passed over.
std::optional<Calibration> find_calibration(const std::filesystem::path& root, const std::string& machine_id,
                                            const std::set<CellKind>& kinds);

}  // namespace paceline
