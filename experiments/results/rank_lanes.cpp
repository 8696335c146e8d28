#include "experiments/results/rank_lanes.h"

#include <array>

#include "experiments/results/json_values.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr const char* kLanesSchema = "paceline.ranks";
constexpr int kLanesVersion = 1;
constexpr std::array<const char*, kNumActivityKinds> kKinds = {"pass", "draft", "sample", "wait_stage", "wait_peers"};

RankLane lane_from_json(const json& object) {
  RankLane lane{.stage = value_of<int>(object.at("stage")),
                .shard = value_of<int>(object.at("shard")),
                .device = object.at("device").get<std::string>(),
                .activities = {}};
  const json &start = object.at("start_ns"), &duration = object.at("duration_ns"), &kind = object.at("kind"),
             &pass = object.at("pass");
  for (size_t i = 0; i < start.size(); ++i) {
    const int which = value_of<int>(kind.at(i));
    if (which < 0 || which >= kNumActivityKinds) continue;  // of a later version: the other kinds still hold
    lane.activities.push_back({.kind = static_cast<ActivityKind>(which),
                               .start_ns = value_of<int64_t>(start.at(i)),
                               .duration_ns = value_of<int64_t>(duration.at(i)),
                               .pass = value_of<int64_t>(pass.at(i))});
  }
  return lane;
}

}  // namespace

json rank_lanes_to_json(const RankLanes& lanes) {
  json ranks = json::array();
  for (const RankLane& lane : lanes.ranks) {
    json start = json::array(), duration = json::array(), kind = json::array(), pass = json::array();
    for (const LaneActivity& activity : lane.activities) {
      start.push_back(activity.start_ns);
      duration.push_back(activity.duration_ns);
      kind.push_back(static_cast<int>(activity.kind));
      pass.push_back(activity.pass);
    }
    ranks.push_back({{"stage", lane.stage},
                     {"shard", lane.shard},
                     {"device", lane.device},
                     {"start_ns", start},
                     {"duration_ns", duration},
                     {"kind", kind},
                     {"pass", pass}});
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
