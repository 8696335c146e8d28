#pragma once
// The best ranked cell under one load by one measure, with those that are not shown to be worse; and the cells that no
// other one beats in both of two measures.

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

class VerdictView;
struct LoadGroup;
enum class Among : uint8_t { all, plain, speculative };

enum class PickKind : uint8_t {
  throughput,  // output tokens per second; not of open loops, whose rate is what was sent
  latency,     // median E2E of an open loop that keeps up, of others median TPOT: ms
  per_device,  // output tokens per second per device; not of open loops
  goodput,     // requests per second that meet report.slo, where it is given; of equal ones the lower median E2E
};
const char* to_string(PickKind kind);  // "best_throughput", …

struct Pick {
  PickKind kind = PickKind::throughput;
  const LoadGroup* group = nullptr;
  std::vector<const CellSummary*> cells;  // the best one, then those that are not shown to be worse, the better first
  double value = 0;                       // of the best one
  int num_untested = 0;                   // others without an interval

  const CellSummary& best() const { return *cells.front(); }
};

/// Null where the group has none that the measure holds for.
const CellSummary* best_of(const VerdictView& view, const LoadGroup& group, PickKind kind, Among among = Among::all);

/// Whether a speculative cell is not shown to be worse than the best one, which is plain.
bool may_be_beaten_by_drafts(const VerdictView& view, const Pick& pick);

/// The best cell speculates, and neither it nor another of its load that does is shown to be faster than what it is
/// judged against: first of all cells by noise. REQUIRES the claims of the view.
bool leads_by_chance(const VerdictView& view, const Pick& pick);

/// By kind, in the order of the groups. The others are compared with the best one, all as one family (policy.h), but
/// for those that a claim sets it against; one without an interval is not named. REQUIRES the claims of the view.
std::vector<Pick> make_picks(const VerdictView& view);

/// Which of two cells a chart shows first, as of one proposer with several k: ranked ones, then of open loops those
/// that keep up and the lower median E2E, else the more tokens per second.
bool ranks_before(const CellSummary& a, const CellSummary& b);

/// Of closed and offline loops: tokens per second of a user (1000 / median TPOT in ms) and per device. Of open ones:
/// median E2E in ms, the less the better, and per second per device the requests that meet report.slo, else those that
/// were sent where the engine keeps up, and that were finished where not.
struct ParetoPoint {
  double user = 0, device = 0;
};
std::optional<ParetoPoint> pareto_point(const CellResult& cell, const CellSummary& s);

/// Cells that no other one beats in both: what one user sees, and what a device gives.
struct Frontier {
  bool is_open = false;                   // of open loops
  std::vector<const CellSummary*> cells;  // ranked and not saturated, by rising `user`
};

/// Of closed and of open loops, as far as the run has them.
std::vector<Frontier> make_frontiers(const VerdictView& view);

}  // namespace paceline
