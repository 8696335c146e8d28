#pragma once
// Turns a scheduled step and its proposals into a Batch and the rows that want verdicts.

#include <memory>
#include <vector>

#include "engine/scheduler.h"
#include "engine/speculation.h"

namespace paceline {

struct BuiltBatch {
  std::shared_ptr<Batch> batch;
  std::vector<VerifyRow> verify;  // in batch order
};

/// proposals[i] belongs to step.rows[i]. Checks every draft id against `vocab_size` before it can reach a gather.
BuiltBatch build_batch(const ScheduledStep& step, std::vector<Proposal> proposals, const BlockPool& pool,
                       uint64_t step_number, int vocab_size);

}  // namespace paceline
