#pragma once
// From a configuration to a running engine: one load of target (and draft) serves all cells that share it.

#include <any>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/cache/memory_plan.h"
#include "engine/comm/rank_team.h"
#include "engine/engine.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/transformer/transformer.h"
#include "engine/weights/model_source.h"
#include "experiments/config/config.h"
#include "experiments/workload/requests.h"
#include "speculative/draft_record.h"
#include "speculative/eagle3_model.h"

namespace paceline {

/// What the cells of one load have in common at most: sizes of state and workspace.
struct LoadLimits {
  int threads_per_rank = 1;
  int max_draft_len = 0;                  // largest num_speculative_tokens
  bool takes_any_sampling = false;        // requests say how they are sampled, as a server's do; else the configuration
  std::vector<size_t> memory_bytes = {};  // of each rank's GPU, or of the host alone; empty: what they have now
  /// Of the load's cells, which outlive it: each second model stays loaded once a cell has asked for it, and proposers
  /// come one at a time. One whose second model cannot be read counts for nothing: its own cell says so.
  std::vector<const ExperimentConfig*> cells = {};
  /// What the proposers of a cell leave for its later repetitions, by the cell's config_hash; outlives the load. Null:
  /// nothing is kept.
  std::map<std::string, std::any>* kept = nullptr;
};

/// Bytes that a rank holds, target and draft models together but for the KV cache.
struct RankMemory {
  size_t weights = 0;
  size_t workspace = 0;                  // activations, logits, and what the proposer that holds most has of its own
  size_t block_bytes = 0;                // of one block of the target's KV
  size_t draft_block_bytes = 0;          // of the draft models' and heads'
  size_t swapped_draft_block_bytes = 0;  // of these, what goes to host memory with the target's: heads'
  int64_t widest_row = 0;                // values that a bfloat16 product of its models reads; on GPUs
  size_t comm_bytes = 0;                 // that it puts into sums and messages in a pass of the target over one row

  size_t kv(int64_t num_blocks) const { return size_t(num_blocks) * block_bytes; }
  size_t draft_kv(int64_t num_blocks) const { return size_t(num_blocks) * draft_block_bytes; }
  size_t total(int64_t num_blocks) const { return weights + workspace + kv(num_blocks) + draft_kv(num_blocks); }
};

/// What decided LoadPlan::max_model_len.
enum class LengthSource : uint8_t {
  written,   // engine.scheduler.max_model_len
  model,     // auto: the model knows no more positions
  kv_cache,  // auto: the KV cache holds no more tokens
};

/// Sizes of a load before anything is read but config.json: for `plan` and for the load itself.
struct LoadPlan {
  ModelSpec target;
  std::optional<ModelSpec> draft;  // of the configuration that is planned, as draft_dtype and draft_ranks
  std::optional<Eagle3Spec> head;  // likewise
  std::vector<int> taps;           // of the target, for all heads
  DType dtype = DType::bf16;
  DType draft_dtype = DType::bf16;
  DType kv_dtype = DType::f32;
  int max_model_len = 0;
  LengthSource max_model_len_from = LengthSource::model;
  int max_num_seqs = 0;
  int max_num_rows = 0;
  int max_num_logit_rows = 0;
  RankSet draft_ranks = RankSet::deciding;
  std::vector<RankMemory> ranks;       // [tp * pp]
  std::vector<PlannedDevice> devices;  // of each rank on GPUs; on CPUs the host, which all ranks share
  MemoryPlan memory;
};

/// The rule by which the drafts of a cell are judged: greedy where all requests are, else as the cell says.
/// takes_any_sampling: LoadLimits.
VerifyRule verify_rule(const ExperimentConfig& config, bool takes_any_sampling);

/// What the target is loaded from.
ModelSource target_source(const ExperimentConfig& config);

/// The tokenizer of a target or a second model, as its config says. Throws what Tokenizer::load() throws.
std::shared_ptr<const Tokenizer> load_tokenizer(const auto& model) {
  return Tokenizer::load(model.directory, {.pre = model.pre.value_or("")});
}

/// The target for a reader: its path, and "as SHAPE" or "with random weights" where that is so.
std::string target_name(const ExperimentConfig& config);

/// Of `config` with all that limits.cells need. Throws Error(usage | model_file | device) when the configuration cannot
/// run here.
LoadPlan plan_load(const ExperimentConfig& config, const LoadLimits& limits);

/// LoadPlan::max_model_len with what raises it: the key that holds it down.
LengthLimit length_limit(const ExperimentConfig& config, const LoadPlan& plan);

class EngineLoad {
 public:
  /// Loads the target and, when config.speculation asks for one, the draft model.
  EngineLoad(const ExperimentConfig& config, const LoadLimits& limits);

  /// A fresh engine (empty KV pool and prefix cache) for a cell of this load; one at a time.
  /// record_drafts: where its drafts are noted, if anywhere; outlives the engine.
  std::unique_ptr<Engine> make_engine(const ExperimentConfig& cell, DraftRecord* record_drafts = nullptr);

  /// The target's, loaded when first asked for: token ids alone need none.
  std::shared_ptr<const Tokenizer> tokenizer();
  RankTeam& team() { return *team_; }
  Model& target() { return *target_; }
  const SharedWeights& weights() const { return weights_; }
  /// The sampling rank's part of the draft model of `cell`, the target's where it drafts for itself; null without one.
  const ShardWeights* draft_weights(const ExperimentConfig& cell);
  const LoadPlan& plan() const { return plan_; }
  double load_seconds() const { return load_s_; }

  /// What the engine of `cell` really runs, for the record: compared with what was asked.
  nlohmann::json effective(const ExperimentConfig& cell, const Engine& engine) const;

 private:
  struct DraftModel {
    LoadPlan plan;
    SharedWeights weights;
    std::unique_ptr<Model> model;
    std::unique_ptr<Eagle3Model> head;
  };
  DraftModel& draft_model(const ExperimentConfig& cell);

  LoadLimits limits_;
  ModelSource source_;  // of the target
  TargetConfig target_config_;
  LoadPlan plan_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<RankTeam> team_;
  SharedWeights weights_;
  std::unique_ptr<Model> target_;
  std::map<std::string, DraftModel> drafts_;  // by second_model_key()
  double load_s_ = 0.0;
};

/// float32, bfloat16, float16 or auto (the checkpoint's).
DType parse_dtype(const std::string& name, DType automatic);

}  // namespace paceline
