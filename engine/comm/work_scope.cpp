#include "engine/comm/work_scope.h"

namespace paceline {
namespace {

double waited_s(const Rank& rank) {
  const CommStats stats = comm_stats(rank);
  return stats.collective_wait_s + stats.receive_wait_s;
}

ActivityKind activity_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::target: return ActivityKind::pass;
    case WorkKind::draft: return ActivityKind::draft;
    case WorkKind::decide: return ActivityKind::sample;
  }
  return ActivityKind::pass;
}

}  // namespace

CommStats comm_stats(const Rank& rank) {
  CommStats total;
  for (const Communicator* group : {rank.world.get(), rank.shards.get()}) {
    if (!group) continue;
    const CommStats stats = group->stats();
    total.collectives += stats.collectives;
    total.bytes += stats.bytes;
    total.collective_wait_s += stats.collective_wait_s;
    total.receive_wait_s += stats.receive_wait_s;
  }
  return total;
}

WorkScope::WorkScope(Rank& rank, WorkKind kind, uint64_t pass) : rank_(rank), waited_s_(waited_s(rank)) {
  if (rank.activity.is_on())
    activity_ = {.start = Clock::now(), .end = {}, .pass = uint32_t(pass), .kind = activity_of(kind)};
  rank_.backend->begin_work(kind);
}

WorkScope::~WorkScope() {
  try {
    rank_.backend->end_work(waited_s(rank_) - waited_s_);
  } catch (const Error&) {  // the device has failed: whatever used it says so
  }
  if (!rank_.activity.is_on()) return;
  activity_.end = Clock::now();
  rank_.activity.add(activity_);
}

}  // namespace paceline
