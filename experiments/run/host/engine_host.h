#pragma once
// Cells at work on ranks of this process.

#include <memory>
#include <span>
#include <vector>

#include "experiments/run/engine_load.h"
#include "experiments/run/host/cell_host.h"
#include "experiments/run/measure/repetition.h"
#include "experiments/run/run_load.h"

namespace paceline {

class EngineHost final : public CellHost {
 public:
  /// sweep outlives it.
  EngineHost(SweepUnderWay& sweep, std::vector<size_t> planned);

  bool is_open() const override { return load_ != nullptr; }
  void open() override;
  double ready_s() const override { return ready_s_; }
  void warm_up(size_t index, const Visit& visit) override;
  RepetitionResult run(size_t index, int repetition) override;
  Damage damage_of(size_t index, ExitCode code) override;
  void check_flips(size_t index) override;
  std::shared_ptr<const Tokenizer> tokenizer() override { return load_->tokenizer(); }

 private:
  RepetitionOptions options_for(const ExperimentConfig& config, int repetition = 0);
  RepetitionResult run_pass(const ExperimentConfig& config, std::span<const EncodedPrompt> prompts,
                            const RepetitionOptions& options);
  void warm_up_pass(const Cell& cell);
  void record_drafts(const Cell& cell, const CellResult& result);
  DeviceCeilings ceilings_for(const ExperimentConfig& config);

  SweepUnderWay& sweep_;
  std::vector<size_t> planned_;
  LoadLimits limits_;
  std::unique_ptr<EngineLoad> load_;
  std::vector<EncodedPrompt> prompts_;
  double ready_s_ = 0;
};

}  // namespace paceline
