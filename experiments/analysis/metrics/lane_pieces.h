#pragma once
// A rank's lane without gaps: what it works on, and for each wait what it waits for.

#include <array>
#include <vector>

#include "experiments/results/device_work.h"

namespace paceline {

enum class PieceKind : uint8_t {
  pass,            // as ActivityKind, less the waits within
  draft,           // likewise
  sample,          // likewise
  wait_stage,      // for a message of the stage before
  wait_peers,      // in a collective, for the other ranks
  wait_outcome,    // nothing to run, while another rank works: the next batch needs what that makes
  wait_handover,   // another rank has begun the same pass: this one's thread is still to wake up, or to get a core
  wait_scheduler,  // nothing to run, and no rank works: the engine schedules, builds a batch or commits. On the
                   // sampling rank, whose thread does that, all time without work
};
inline constexpr size_t kNumPieceKinds = 8;

constexpr bool is_wait(PieceKind kind) { return kind >= PieceKind::wait_stage; }

struct LanePiece {
  PieceKind kind = PieceKind::pass;
  int64_t start_ns = 0, end_ns = 0;  // [start, end) of the window
  int64_t pass = 0;                  // as Activity::pass
};

/// [rank] pieces by start; those of a rank cover [0, window_ns) and do not overlap.
std::vector<std::vector<LanePiece>> lane_pieces(const RankLanes& lanes);

/// By PieceKind, of the window; they sum to 1.
using LaneShares = std::array<double, kNumPieceKinds>;
LaneShares lane_shares(const std::vector<LanePiece>& pieces, int64_t window_ns);

/// All waits together.
double waiting_share(const LaneShares& shares);

}  // namespace paceline
