#include "experiments/results/disturbance.h"

#include "experiments/results/results.h"

namespace paceline {

using nlohmann::json;

namespace {

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json(nullptr);
}

template <class Value>
std::optional<Value> read(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<Value>()) : std::nullopt;
}

}  // namespace

json disturbance_to_json(const std::optional<Disturbance>& disturbance) {
  if (!disturbance) return nullptr;
  return {{"wall_s", json_number(disturbance->wall_s)},
          {"cores", disturbance->cores},
          {"foreign_cpu_s", json_number(disturbance->foreign_cpu_s)},
          {"stolen_s", json_number(disturbance->stolen_s)},
          {"throttled_s", json_number(disturbance->throttled_s)},
          {"throttled_periods", or_null(disturbance->throttled_periods)},
          {"thermal_events", or_null(disturbance->thermal_events)},
          {"clock_ghz", json_number(disturbance->clock_ghz)},
          {"gpus", nullptr}};
}

std::optional<Disturbance> disturbance_from_json(const json& object) {
  if (!object.is_object()) return std::nullopt;
  return Disturbance{.wall_s = read<double>(object, "wall_s").value_or(0),
                     .cores = read<int>(object, "cores").value_or(0),
                     .foreign_cpu_s = read<double>(object, "foreign_cpu_s"),
                     .stolen_s = read<double>(object, "stolen_s"),
                     .throttled_s = read<double>(object, "throttled_s"),
                     .throttled_periods = read<int64_t>(object, "throttled_periods"),
                     .thermal_events = read<int64_t>(object, "thermal_events"),
                     .clock_ghz = read<double>(object, "clock_ghz")};
}

}  // namespace paceline
