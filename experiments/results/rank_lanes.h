#pragma once
// What each rank of a cell did when, over a window of its first repetition: cells/<NAME>/ranks.json (schema:
// results/README.md). Of the engine only the kinds of activities.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/comm/activity_log.h"
#include "experiments/results/fields.h"

namespace paceline {

inline constexpr const char* kRankLanesFile = "ranks.json";

/// A piece of work, or a wait within or before one. Times count from the window's start.
struct LaneActivity {
  ActivityKind kind = ActivityKind::pass;
  int64_t start_ns = 0, duration_ns = 0, pass = 0;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("start_ns", &LaneActivity::start_ns, "since the window's start");
    visit("duration_ns", &LaneActivity::duration_ns, "");
    visit("kind", &LaneActivity::kind, "place in `kinds`");
    visit("pass", &LaneActivity::pass, "number of the target's pass; 0: of none");
  }
};

struct RankLane {
  int stage = 0, shard = 0;
  std::string device;
  std::vector<LaneActivity> activities;  // by start; what reaches over an edge of the window is cut there

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("stage", &RankLane::stage, "", FieldRule::required);
    visit("shard", &RankLane::shard, "", FieldRule::required);
    visit("device", &RankLane::device, R"("cpu", "cuda:0")", FieldRule::required);
  }
};

/// All ranks on one time axis.
struct RankLanes {
  int64_t window_ns = 0;
  int deciding_rank = 0;
  std::vector<RankLane> ranks;  // [tp * pp]; empty: not recorded

  bool empty() const { return ranks.empty(); }
};

nlohmann::json rank_lanes_to_json(const RankLanes& lanes);
/// The inverse; nothing where the JSON has another form or a newer version.
std::optional<RankLanes> rank_lanes_from_json(const nlohmann::json& json);

}  // namespace paceline
