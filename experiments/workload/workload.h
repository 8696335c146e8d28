#pragma once
// The requests of a run, from the workload section of its configuration.

#include <vector>

#include "experiments/config/config.h"
#include "experiments/workload/dataset.h"
#include "experiments/workload/workload_facts.h"

namespace paceline {

struct WorkloadPrompts {
  std::vector<Prompt> requests;  // workload.requests of them, in the order in which they are sent
  WorkloadFacts facts;
};

/// Reads, filters, orders and repeats the data set. Throws Error(model_file).
WorkloadPrompts read_workload(const WorkloadConfig& workload);

}  // namespace paceline
