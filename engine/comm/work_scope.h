#pragma once
// Ops of a rank, counted for what they are for.

#include "engine/comm/rank_team.h"

namespace paceline {

/// What a rank's groups of several ranks have spent together so far; one that it lacks counts as nothing.
CommStats comm_stats(const Rank& rank);

/// The ops of `rank` while this lives are a piece of work of `kind`, less what the host waits for other ranks in their
/// groups meanwhile. On the rank's thread; scopes do not nest. Rank::activity records it, with the waits in it, as of
/// the target's pass number `pass` (0: of none).
class WorkScope {
 public:
  WorkScope(Rank& rank, WorkKind kind, uint64_t pass = 0);
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  Rank& rank_;
  double waited_s_;
  Activity activity_;
};

}  // namespace paceline
