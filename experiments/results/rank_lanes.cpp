#include "experiments/results/rank_lanes.h"

#include <array>

#include "experiments/results/fields.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr const char* kLanesSchema = "paceline.ranks";
constexpr int kLanesVersion = 1;
constexpr std::array<const char*, kNumActivityKinds> kKinds = {"pass", "draft", "sample", "wait_stage", "wait_peers"};

/// Kinds of a later version are left out: the others still hold.
RankLane lane_from_json(const json& object) {
  RankLane lane = from_fields<RankLane>(object);
  lane.activities = columns_from_json<LaneActivity>(object);
  std::erase_if(lane.activities, [](const LaneActivity& activity) { return int(activity.kind) >= kNumActivityKinds; });
  return lane;
}

}  // namespace

json rank_lanes_to_json(const RankLanes& lanes) {
  json ranks = json::array();
  for (const RankLane& lane : lanes.ranks) {
    ranks.push_back(fields_to_json(lane));
    ranks.back().update(columns_to_json(lane.activities));
  }
  return {{"schema", kLanesSchema},
          {"schema_version", kLanesVersion},
          {"window_ns", lanes.window_ns},
          {"deciding_rank", lanes.deciding_rank},
          {"kinds", kKinds},
          {"ranks", ranks}};
}

std::optional<RankLanes> rank_lanes_from_json(const json& object) {
  try {
    if (object.at("schema") != kLanesSchema || value_of<int>(object.at("schema_version")) > kLanesVersion)
      return std::nullopt;
    RankLanes lanes{.window_ns = value_of<int64_t>(object.at("window_ns")),
                    .deciding_rank = value_of<int>(object.at("deciding_rank")),
                    .ranks = {}};
    for (const json& lane : object.at("ranks")) lanes.ranks.push_back(lane_from_json(lane));
    const bool has_deciding = lanes.deciding_rank >= 0 && size_t(lanes.deciding_rank) < lanes.ranks.size();
    return lanes.window_ns > 0 && has_deciding ? std::optional(std::move(lanes)) : std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace paceline
