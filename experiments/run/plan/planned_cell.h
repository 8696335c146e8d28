#pragma once
// What is known of a planned cell before it runs, and whether the engine then ran what was asked.

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/results/results.h"
#include "experiments/run/plan/sweep.h"
#include "experiments/workload/requests.h"

namespace paceline {

/// The result of `cells[index]` before it ran: done without repetitions, or skipped with the reason.
CellResult planned_result(const Cell& cell, int index, const std::vector<Cell>& cells);

/// Values that the engine echoes and the cell asked for, where they differ: "tp: asked 2, got 1". Empty: none.
std::vector<std::string> effective_differences(const Cell& cell, const nlohmann::json& effective);

/// The requests of a plan: read as a run reads them, and encoded only where their bytes leave open whether they fit, as
/// large tokenizers take longer to load than a plan may.
class PlannedRequests {
 public:
  /// Larger data sets are not read.
  static constexpr uintmax_t kMostDatasetBytes = uintmax_t{4} << 20;

  /// Throws what a run would throw of the file.
  explicit PlannedRequests(const WorkloadConfig& workload);

  bool were_read() const { return were_read_; }
  /// Empty where they were not read.
  const std::vector<Prompt>& prompts() const { return prompts_; }

  /// Throws what a run of the cell would throw of its prompts: one that is too long for `limit`, a missing template.
  void check_fit(const ExperimentConfig& cell, const LengthLimit& limit);

  /// Tokens of output that a request of the cell has at most, on average.
  double mean_output(const ExperimentConfig& cell, const LengthLimit& limit);

  /// cut_outputs_text() of the cell.
  std::string cut_outputs(const ExperimentConfig& cell, const LengthLimit& limit);

 private:
  const std::vector<EncodedPrompt>& encoded_for(const ExperimentConfig& cell);

  std::vector<Prompt> prompts_;
  bool were_read_ = false;
  std::map<PromptEncoding, std::vector<EncodedPrompt>> encoded_;
};

/// Throws usage where all cells are skipped, with the first reason: that is a mistake, not a result.
void check_not_all_skipped(const std::vector<Cell>& cells);

}  // namespace paceline
