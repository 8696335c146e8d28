#pragma once
// The settings of a run or a cell by what they decide.

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "experiments/config/keys/schema.h"

namespace paceline {

/// {path: value} of the keys in `resolved` (nested by path, as config_to_json() writes it) whose effect is at least
/// `least`; keys that it lacks, as files of older programs do, are left out. Files stand by their names alone: their
/// folders differ between machines. Empty for what is no object.
std::map<std::string, nlohmann::json> settings_that_change(KeyEffect least, const nlohmann::json& resolved);

}  // namespace paceline
