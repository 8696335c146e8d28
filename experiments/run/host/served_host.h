#pragma once
// Cells at work on servers, which take turns: those that the run started are stopped (SIGSTOP) while another is
// measured, and ended with the host.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/run/host/cell_host.h"
#include "experiments/run/host/served_repetition.h"
#include "experiments/run/host/server_process.h"
#include "experiments/run/run_load.h"

namespace paceline {

class ServedHost final : public CellHost {
 public:
  /// sweep outlives it.
  ServedHost(SweepUnderWay& sweep, std::vector<size_t> planned);

  /// Servers start with the first cell that asks for one, so that one that does not start takes its own cells only.
  bool is_open() const override { return true; }
  void open() override {}
  double ready_s() const override { return ready_s_; }
  void warm_up(size_t index, const Visit& visit) override;
  RepetitionResult run(size_t index, int repetition) override;
  Damage damage_of(size_t index, ExitCode code) override;
  void check_flips(size_t index) override;
  std::shared_ptr<const Tokenizer> tokenizer() override;

 private:
  /// By Cell::load_key.
  struct Server {
    std::unique_ptr<ServerProcess> process;  // null: it was there before
    ServerUrl url;
    std::string model, name, version;  // name: as its Server field says
    double start_s = 0;
  };

  Server& turn_of(size_t index);
  Server start(const Cell& cell);
  std::vector<std::string> own_command(const Cell& cell);
  ServedPass pass_for(const Cell& cell, const Server& server);
  std::string forget_prefixes(const ExperimentConfig& config, const Server& server);

  SweepUnderWay& sweep_;
  std::vector<size_t> planned_;
  std::map<std::string, Server> servers_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  double ready_s_ = 0;
};

/// What `runexp serve` is given for a cell: its model, ranks, speculation and sampling, and `threads_per_rank` where
/// the cell says auto. Loadable as an experiment file.
ConfigJson served_config(const ExperimentConfig& cell, int auto_threads_per_rank);

}  // namespace paceline
