#pragma once
// From the JSON of a run folder back to structs: the inverse of what results.h writes. Fields that an older version did
// not write keep their defaults. All throw nlohmann::json::exception for JSON of another form.

#include <nlohmann/json.hpp>

#include "experiments/results/results.h"

namespace paceline {

/// A line of requests.jsonl; its repetition stands in `repetition`.
RequestRecord request_from_json(const nlohmann::json& json);

/// Without its requests.
RepetitionResult repetition_from_json(const nlohmann::json& json);

/// What samples_to_json() wrote.
std::vector<SampleTexts> samples_from_json(const nlohmann::json& json);

/// What timeline_to_json() wrote.
std::vector<TimelinePoint> timeline_from_json(const nlohmann::json& json);

/// Fill what cell_plan_to_json(), cell_load_to_json() and logit_checks_to_json() wrote.
void read_cell_plan(const nlohmann::json& json, CellResult& cell);
void read_cell_load(const nlohmann::json& json, CellResult& cell);
std::vector<LogitCheck> logit_checks_from_json(const nlohmann::json& json);

}  // namespace paceline
