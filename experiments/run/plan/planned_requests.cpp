#include "experiments/run/plan/planned_requests.h"

#include <algorithm>

#include "experiments/config/file/builtin_root.h"
#include "experiments/run/model_tokenizer.h"

namespace paceline {

PlannedRequests::PlannedRequests(const WorkloadConfig& workload) {
  if (workload.file.empty()) fail_without_builtin_root(workload.dataset);
  std::error_code unknown;
  const uintmax_t bytes = std::filesystem::file_size(workload.file, unknown);
  were_read_ = unknown || bytes <= kMostDatasetBytes;
  if (were_read_) prompts_ = read_workload(workload).requests;
}

const std::vector<EncodedPrompt>& PlannedRequests::encoded_for(const ExperimentConfig& cell) {
  const PromptEncoding encoding = prompt_encoding(cell);
  if (const auto known = encoded_.find(encoding); known != encoded_.end()) return known->second;
  const auto tokenizer = load_tokenizer(cell.engine.target);
  return encoded_.emplace(encoding, encode_prompts(prompts_, *tokenizer, encoding.model, encoding.format))
      .first->second;
}

void PlannedRequests::check_fit(const ExperimentConfig& cell, const LengthLimit& limit) {
  constexpr int kLeastOutput = 1;
  if (!surely_fit(prompts_, kLeastOutput, limit.max_model_len)) check_prompts_fit(encoded_for(cell), limit);
}

double PlannedRequests::mean_output(const ExperimentConfig& cell, const LengthLimit& limit) {
  const int max_tokens = cell.sampling.max_tokens;
  if (prompts_.empty()) return std::min(max_tokens, limit.max_model_len - 1);
  double sum = 0;
  if (surely_fit(prompts_, max_tokens, limit.max_model_len)) {
    for (const Prompt& prompt : prompts_) sum += wanted_output(prompt.max_tokens, max_tokens);
  } else {
    for (const EncodedPrompt& prompt : encoded_for(cell)) sum += longest_output(prompt, max_tokens, limit);
  }
  return sum / double(prompts_.size());
}

std::string PlannedRequests::cut_outputs(const ExperimentConfig& cell, const LengthLimit& limit) {
  const int max_tokens = cell.sampling.max_tokens;
  return surely_fit(prompts_, max_tokens, limit.max_model_len) ? ""
                                                               : cut_outputs_text(encoded_for(cell), max_tokens, limit);
}

}  // namespace paceline
