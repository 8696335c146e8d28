#include "engine/comm/work_scope.h"

namespace paceline {
namespace {

double waited_s(const Rank& rank) {
  const CommStats stats = comm_stats(rank);
  return stats.collective_wait_s + stats.receive_wait_s;
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

WorkScope::WorkScope(Rank& rank, WorkKind kind) : rank_(rank), waited_s_(waited_s(rank)) {
  rank_.backend->begin_work(kind);
}

WorkScope::~WorkScope() {
  try {
    rank_.backend->end_work(waited_s(rank_) - waited_s_);
  } catch (const Error&) {  // the device has failed: whatever used it says so
  }
}

}  // namespace paceline
