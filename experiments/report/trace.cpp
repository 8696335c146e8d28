#include "experiments/report/trace.h"

#include <fmt/format.h>

#include "experiments/analysis/metrics/lane_pieces.h"

namespace paceline {

using nlohmann::json;

namespace {

json named(const char* what, int cell, size_t rank, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", cell}, {"tid", rank}, {"args", {{"name", name}}}};
}

json event(int cell, size_t rank, const std::string& name, const char* category, int64_t start_ns,
           int64_t duration_ns) {
  return {{"ph", "X"},
          {"name", name},
          {"pid", cell},
          {"tid", rank},
          {"ts", double(start_ns) / 1e3},
          {"dur", double(duration_ns) / 1e3},
          {"cat", category}};
}

json activity_event(int cell, size_t rank, const LaneActivity& a) {
  const bool is_wait = a.kind == ActivityKind::wait_stage || a.kind == ActivityKind::wait_peers;
  const std::string name = a.kind == ActivityKind::pass         ? fmt::format("pass {}", a.pass)
                           : a.kind == ActivityKind::draft      ? "draft"
                           : a.kind == ActivityKind::sample     ? fmt::format("sample {}", a.pass)
                           : a.kind == ActivityKind::wait_stage ? "wait: previous stage"
                                                                : "wait: collective";
  json out = event(cell, rank, name, is_wait ? "wait" : "work", a.start_ns, a.duration_ns);
  if (a.pass > 0) out["args"] = {{"pass", a.pass}};
  return out;
}

/// Of waits that no activity records; null for the other kinds.
const char* idle_name(PieceKind kind) {
  return kind == PieceKind::wait_outcome     ? "wait: other rank"
         : kind == PieceKind::wait_handover  ? "wait: wake-up"
         : kind == PieceKind::wait_scheduler ? "wait: scheduler"
                                             : nullptr;
}

}  // namespace

json chrome_trace(const RunResult& run, std::span<const size_t> cells) {
  json events = json::array();
  for (const size_t index : cells) {
    const CellResult& cell = run.cells[index];
    if (cell.repetitions.empty()) continue;
    const RankLanes& lanes = cell.repetitions.front().lanes;
    if (lanes.empty()) continue;
    events.push_back(named("process_name", cell.index, 0, cell.id));
    const auto pieces = lane_pieces(lanes);
    for (size_t rank = 0; rank < lanes.ranks.size(); ++rank) {
      const RankLane& lane = lanes.ranks[rank];
      events.push_back(named("thread_name", cell.index, rank,
                             fmt::format("rank {} (stage {}, shard {}, {}{})", rank, lane.stage, lane.shard,
                                         lane.device, lane.device == "cpu" ? "" : ", its host")));
      for (const LaneActivity& activity : lane.activities) events.push_back(activity_event(cell.index, rank, activity));
      for (const LanePiece& piece : pieces[rank]) {
        if (const char* const name = idle_name(piece.kind))
          events.push_back(event(cell.index, rank, name, "wait", piece.start_ns, piece.end_ns - piece.start_ns));
      }
    }
  }
  return {{"displayTimeUnit", "ms"},
          {"otherData", {{"run", run.info.id}, {"clock", "CLOCK_MONOTONIC, since each cell's window began"}}},
          {"traceEvents", std::move(events)}};
}

}  // namespace paceline
