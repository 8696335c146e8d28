#pragma once
// Long samples (`tests/run.sh --long`): what is drawn more often before a release, and the record of it in the tree.

#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

namespace paceline::test {

/// True under `tests/run.sh --long`.
inline bool long_samples() { return std::getenv("PACELINE_LONG") != nullptr; }

/// Writes results/long/NAME.json when long samples are drawn, else nothing. To be called when the test has passed.
void record_long_sample(const std::string& name, const nlohmann::ordered_json& facts);

}  // namespace paceline::test
