#pragma once
// What `regress --baseline` may name.

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace paceline {

struct FoundBaseline {
  std::string name;      // the file, or the run's id
  nlohmann::json facts;  // as make_baseline() makes them
};

/// A baseline file (a regular file, or a name that ends in .json), else a recorded run as find_run() takes it. Throws
/// what read_baseline(), find_run() and read_run() throw.
FoundBaseline find_baseline(const std::filesystem::path& results_root, const std::string& name);

}  // namespace paceline
