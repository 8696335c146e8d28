#include "experiments/workload/workload.h"

namespace paceline {

WorkloadPrompts read_workload(const WorkloadConfig& workload) {
  Dataset set = read_dataset(workload.file, {.format = workload.format,
                                             .bad_records = workload.skip_bad ? BadRecords::skip : BadRecords::refuse});
  WorkloadPrompts out;
  const auto num_read = int64_t(set.prompts.size());
  const std::vector<Prompt> prompts =
      filter_prompts(std::move(set.prompts), workload.categories, workload.max_prompt_chars);
  out.facts = {.format = std::string(name_of(set.format)),
               .prompts = int64_t(prompts.size()),
               .filtered = num_read - int64_t(prompts.size()),
               .bad_records = set.num_bad,
               .first_bad = set.first_bad};
  out.requests = select_prompts(prompts, workload.requests, uint64_t(workload.order_seed));
  return out;
}

}  // namespace paceline
