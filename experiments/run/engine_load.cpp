#include "experiments/run/engine_load.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <spdlog/spdlog.h>

#include "engine/comm/nccl_comm.h"
#include "engine/model/rope.h"
#include "engine/util/bytes.h"
#include "engine/util/gguf.h"
#include "engine/util/machine.h"
#include "experiments/config/devices.h"
#include "experiments/config/file/builtin_root.h"
#include "kernels/cuda/cuda_backend.h"
#include "speculative/chain_verifier.h"
#include "speculative/eagle3_head.h"
#include "speculative/eagle3_inflate.h"
#include "speculative/proposer_entry.h"
#include "speculative/verify_rule.h"
#include "speculative/vocabulary_match.h"

namespace paceline {
namespace {

Placement placement_of(const ExperimentConfig& config) {
  return {.devices = rank_devices(config.engine), .tp = config.engine.parallel.tp, .pp = config.engine.parallel.pp};
}

/// As LoadLimits::memory_bytes.
std::vector<size_t> memory_now(const ExperimentConfig& config, const Placement& placement) {
  if (!on_cuda(config.engine)) return {memory_limit_bytes()};
  std::vector<size_t> free_bytes;
  for (const std::string& device : placement.devices) free_bytes.push_back(cuda_free_bytes(cuda_index(device)));
  return free_bytes;
}

/// What the ranks put into each GPU, or all of them into the host.
std::vector<PlannedDevice> devices_of(const ExperimentConfig& config, const std::vector<RankMemory>& ranks,
                                      const std::vector<size_t>& limits) {
  const std::vector<std::string> names = rank_devices(config.engine);
  const bool are_apart = on_cuda(config.engine);
  std::vector<PlannedDevice> devices(are_apart ? ranks.size() : 1);
  PACELINE_CHECK(limits.size() == devices.size(), "limits of {} memories, there are {}", limits.size(), devices.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    PlannedDevice& device = devices[are_apart ? rank : 0];
    device.name = are_apart ? fmt::format("rank {} ({})", rank, names[rank]) : "the host";
    device.limit_bytes = limits[are_apart ? rank : 0];
    device.weight_bytes += ranks[rank].weights;
    device.workspace_bytes += ranks[rank].workspace;
    device.target_block_bytes += ranks[rank].block_bytes;
    device.draft_block_bytes += ranks[rank].draft_block_bytes;
  }
  return devices;
}

/// REQUIRES: the proposer has a draft model.
RankSet draft_ranks(const ExperimentConfig& config) {
  const SecondModelConfig& draft = *config.speculation.draft_model();
  if (draft.self) return RankSet::all;  // shares the target's shards as they lie
  return draft.tp.value_or(config.engine.parallel.tp) > 1 ? RankSet::last_stage : RankSet::deciding;
}

int draft_tp(RankSet ranks, const Placement& placement) { return ranks == RankSet::deciding ? 1 : placement.tp; }

TransformerOptions transformer_options(const LoadPlan& plan, const ExperimentConfig& config, DType dtype, RankSet ranks,
                                       int max_model_len) {
  return {.dtype = dtype,
          .kv_dtype = plan.kv_dtype,
          .num_blocks = int(plan.memory.num_blocks),
          .num_host_blocks = int(plan.memory.num_host_blocks),
          .block_size = config.engine.kv_cache.block_size,
          .max_num_seqs = plan.max_num_seqs,
          .max_num_rows = plan.max_num_rows,
          .max_num_logit_rows = plan.max_num_logit_rows,
          .max_model_len = max_model_len,
          .ranks = ranks,
          .order = ranks == RankSet::deciding ? StreamOrder::at_once : StreamOrder::in_order};
}

/// The name of a checkpoint on a model hub is what is mostly meant by a folder that is not there.
void check_model_folder(const std::string& key, const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored)) return;
  const std::filesystem::path name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  fail(ExitCode::model_file,
       "{}: there is no {} {}: nothing is downloaded; expected a folder with config.json and *.safetensors, or a "
       ".gguf file, such as "
       "\"${{env:PACELINE_MODELS}}/{}\" (`runexp models` lists what is there)",
       key, is_gguf_path(folder) ? "file" : "folder", folder.string(), name.string());
}

/// The ranks that hold a part of a model, each with its place in it.
std::vector<std::pair<RankMemory*, ModelRank>> holders_of(std::vector<RankMemory>& memory, RankSet ranks,
                                                          const Placement& placement) {
  std::vector<std::pair<RankMemory*, ModelRank>> holders;
  for (size_t rank = 0; rank < memory.size(); ++rank)
    if (const auto place = model_rank(ranks, placement, int(rank))) holders.emplace_back(&memory[rank], *place);
  return holders;
}

/// What a GPU's backend and communicator take for a model beside kCudaWorkspaceBytes, but for its products' operands,
/// which all models of a rank share.
void add_gpu_buffers(const ModelSpec& spec, DType dtype, const LoadPlan& plan, const ModelRank& place,
                     RankMemory& rank) {
  if (dtype == DType::bf16) rank.widest_row = std::max(rank.widest_row, widest_row(spec, place.tp));
  rank.workspace += cuda_rope_bytes(plan.max_model_len, spec.rope.rotary_dim + spec.window_rope.rotary_dim);
  if (place.tp == 1) return;
  const int64_t summed = int64_t{plan.max_num_rows} * std::max(spec.hidden_size, spec.embed_cols());
  const int64_t gathered = int64_t{plan.max_num_logit_rows} * ((spec.vocab_size + place.tp - 1) / place.tp);
  rank.workspace += nccl_room_bytes(std::max(summed, gathered), place.tp);
}

size_t packed_bytes(const ModelSpec& spec, const ModelRank& place, DType dtype, Numerics numerics) {
  return weight_bytes(spec, shard_plan(spec, place, dtype), numerics);
}

TransformerOptions target_options(const LoadPlan& plan, const ExperimentConfig& config) {
  TransformerOptions options = transformer_options(plan, config, plan.dtype, RankSet::all, plan.max_model_len);
  options.taps = plan.taps;
  return options;
}

// Of a sequence, for a head behind other stages: an answer of usual length.
constexpr int kMostWaitingRows = 128;

Eagle3Options head_options(const LoadPlan& plan, const ExperimentConfig& config, const LoadLimits& limits,
                           const Eagle3Spec& head) {
  int width = 1, steps_in_flight = 1;
  bool may_wait = false;
  const auto make_room = [&](const ExperimentConfig& cell) {
    width = std::max(width, cell.speculation.form().width);
    may_wait |= cell.speculation.stages().size() > 1;
    const ParallelConfig& parallel = cell.engine.parallel;
    steps_in_flight = std::max(
        {steps_in_flight, parallel.pp_microbatches.value_or(parallel.pp), 1 + int(cell.engine.scheduler.run_ahead)});
  };
  make_room(config);
  for (const ExperimentConfig* const cell : limits.cells)
    if (cell->speculation.head()) make_room(*cell);
  return {.kv_dtype = plan.kv_dtype,
          .num_blocks = int(plan.memory.num_blocks),
          .num_host_blocks = int(plan.memory.num_host_blocks),
          .block_size = config.engine.kv_cache.block_size,
          .max_num_seqs = plan.max_num_seqs,
          .max_num_rows = plan.max_num_rows,
          .max_steps_in_flight = steps_in_flight,
          .max_width = width,
          .max_waiting = may_wait ? kMostWaitingRows : 0,
          .tap_index = tap_index(head, plan.taps)};
}

/// Equal for cells of a load that one loaded second model serves. REQUIRES: the proposer has one.
std::string second_model_key(const ExperimentConfig& config) {
  if (const SecondModelConfig* const head = config.speculation.head())
    return fmt::format("head|{}|{}", head->directory.string(), head->dtype);
  const SecondModelConfig& draft = *config.speculation.draft_model();
  return fmt::format("{}|{}|{}|{}|{}", draft.self, draft.directory.string(), draft.shape_file.string(), draft.dtype,
                     int(draft_ranks(config)));
}

ModelSource draft_source(const SecondModelConfig& draft) {
  return {.directory = draft.directory,
          .shape_file = draft.shape_file,
          .widened = widened_for(parse_dtype(draft.dtype, DType::bf16))};
}

struct PlannedSecondModel {
  ModelSpec spec;
  DType dtype = DType::bf16;
  RankSet ranks = RankSet::deciding;
  bool is_target = false;
};

/// REQUIRES: the proposer has a second model, and `plan` the target's sizes.
PlannedSecondModel plan_second_model(const ExperimentConfig& config, const LoadPlan& plan) {
  const SecondModelConfig& draft = *config.speculation.draft_model();
  const RankSet ranks = draft_ranks(config);
  if (draft.self) return {.spec = plan.target, .dtype = plan.dtype, .ranks = ranks, .is_target = true};
  if (draft.directory.empty()) fail_without_builtin_root(draft.path);
  check_model_folder(config.speculation.key_of_model("path"), draft.directory);
  PlannedSecondModel out{.spec = source_spec(draft_source(draft)), .ranks = ranks};
  out.dtype = parse_dtype(draft.dtype, out.spec.checkpoint_dtype);
  validate_parallel(out.spec, draft_tp(ranks, placement_of(config)), 1);
  return out;
}

/// REQUIRES: the proposer has a head, and `plan` the target.
Eagle3Files open_head(const ExperimentConfig& config, const LoadPlan& plan) {
  const SecondModelConfig& head = *config.speculation.head();
  if (head.directory.empty()) fail_without_builtin_root(head.path);
  check_model_folder(config.speculation.key_of_model("path"), head.directory);
  const TargetConfig& target = config.engine.target;
  if (target.shape_file.empty()) return open_eagle3_head(head.directory, plan.target);
  const ModelSpec parent = load_model_spec(target.directory);
  return open_eagle3_head(head.directory, plan.target, &parent);
}

/// Of the target; unknown where no file says it.
VocabularyId target_vocabulary(const ExperimentConfig& config) {
  try {
    return vocabulary_id(*load_tokenizer(config.engine.target));
  } catch (const Error&) {
    return {};
  }
}

/// Without pages and second model: for the proposer's memory. second: null where it has none.
ProposerSetup proposer_setup(const ExperimentConfig& config, const LoadPlan& plan, VerifyRule rule, int max_draft_len,
                             const ModelSpec* second) {
  bool reads_files = false;
  for (const auto& [entry, options] : config.speculation.stages())
    reads_files = reads_files || !entry->files_of(*options).empty();
  return {.options = &config.speculation.chosen().options,
          .rule = rule,
          .max_num_seqs = plan.max_num_seqs,
          .max_num_rows = plan.max_num_rows,
          .max_draft_len = max_draft_len,
          .target_vocab_size = plan.target.vocab_size,
          .second_vocab_size = second ? second->vocab_size : 0,
          .vocabulary = reads_files ? target_vocabulary(config) : VocabularyId{}};
}

}  // namespace

VerifyRule verify_rule(const ExperimentConfig& config, bool takes_any_sampling) {
  const bool is_greedy = !takes_any_sampling && DrawParams{.temperature = float(config.sampling.temperature)}.greedy();
  return is_greedy ? VerifyRule::greedy : parse_rule(config.speculation.rule, is_greedy);
}

ModelSource target_source(const ExperimentConfig& config) {
  const TargetConfig& target = config.engine.target;
  return {.directory = target.directory,
          .shape_file = target.shape_file,
          .random_weights = target.load_format == "dummy",
          .widened = widened_for(parse_dtype(target.dtype, DType::bf16))};
}

std::string target_name(const ExperimentConfig& config) {
  const TargetConfig& target = config.engine.target;
  std::string name = target.path;
  if (target.inflate) name += " as " + target.shape_file.stem().string();
  if (target.load_format == "dummy") name += " with random weights";
  return name;
}

DType parse_dtype(const std::string& name, DType automatic) {
  if (name == "auto") return automatic;
  if (name == "float32") return DType::f32;
  if (name == "bfloat16") return DType::bf16;
  if (name == "float16") return DType::f16;
  fail(ExitCode::usage, "dtype: found \"{}\", expected auto, float32, bfloat16 or float16", name);
}

LoadPlan plan_load(const ExperimentConfig& config, const LoadLimits& limits) {
  LoadPlan plan;
  const Placement placement = placement_of(config);
  const auto& scheduler = config.engine.scheduler;
  if (config.engine.target.directory.empty()) fail_without_builtin_root(config.engine.target.path);
  const ModelSource target = target_source(config);
  if (!target.random_weights || target.shape_file.empty()) check_model_folder("engine.target.path", target.directory);
  plan.target = source_spec(target);
  validate_parallel(plan.target, placement.tp, placement.pp);
  plan.dtype = parse_dtype(config.engine.target.dtype, plan.target.checkpoint_dtype);
  plan.kv_dtype = parse_dtype(config.engine.kv_cache.dtype, plan.dtype);
  plan.max_model_len = scheduler.max_model_len.value_or(int(longest_sequence(plan.target)));
  plan.max_model_len_from = scheduler.max_model_len ? LengthSource::written : LengthSource::model;
  if (plan.max_model_len > longest_sequence(plan.target)) {
    fail(ExitCode::usage,
         "engine.scheduler.max_model_len: found {0}, the model in {1} knows {2} positions: use {2} or fewer, or auto",
         plan.max_model_len, config.engine.target.directory.string(), longest_sequence(plan.target));
  }
  if (!config.engine.parallel.pad_vocab && plan.target.vocab_size % placement.tp != 0) {
    fail(ExitCode::usage,
         "engine.parallel.pad_vocab: the vocabulary of {} is not divisible by tp {}; set pad_vocab to true (it adds {} "
         "rows) or use another tp",
         plan.target.vocab_size, placement.tp, placement.tp - plan.target.vocab_size % placement.tp);
  }
  plan.max_num_seqs =
      scheduler.batching == BatchingMode::static_turns ? scheduler.static_batch_size : scheduler.max_num_seqs;
  plan.max_num_logit_rows = plan.max_num_seqs * (limits.max_draft_len + 1);
  plan.max_num_rows = std::max({scheduler.max_num_batched_tokens, plan.max_num_seqs * 8});
  plan.max_num_logit_rows = std::min(plan.max_num_logit_rows, plan.max_num_rows);

  std::vector<const ExperimentConfig*> cells{&config};
  cells.insert(cells.end(), limits.cells.begin(), limits.cells.end());
  std::map<std::string, std::pair<Eagle3Spec, DType>> heads;  // by key, those that can be read
  for (const ExperimentConfig* const cell : cells) {
    const SecondModelConfig* const head = cell->speculation.head();
    if (!head || heads.contains(second_model_key(*cell))) continue;
    try {
      const Eagle3Spec spec = open_head(*cell, plan).spec;
      heads.emplace(second_model_key(*cell), std::pair(spec, parse_dtype(head->dtype, spec.checkpoint_dtype)));
    } catch (const Error&) {
      if (cell == &config) throw;
    }
  }
  std::vector<Eagle3Spec> tapping;
  for (const auto& [key, head] : heads) tapping.push_back(head.first);
  plan.taps = taps_of(tapping);
  if (config.speculation.head()) std::tie(plan.head, plan.draft_dtype) = heads.at(second_model_key(config));

  const int block_size = config.engine.kv_cache.block_size;
  const Numerics numerics = config.engine.numerics;
  const bool is_on_gpus = on_cuda(config.engine);
  plan.ranks.resize(size_t(placement.num_ranks()));
  for (const auto& [rank, place] : holders_of(plan.ranks, RankSet::all, placement)) {
    rank->weights = packed_bytes(plan.target, place, plan.dtype, numerics);
    rank->block_bytes = kv_block_bytes_on(plan.target, place, block_size, plan.kv_dtype);
    rank->workspace = workspace_bytes(plan.target, target_options(plan, config), place);
    if (is_on_gpus) {
      rank->workspace += kCudaWorkspaceBytes;
      add_gpu_buffers(plan.target, plan.dtype, plan, place, *rank);
    }
    const auto taps = config.speculation.head() ? std::span<const int>(plan.taps) : std::span<const int>();
    rank->comm_bytes = comm_bytes(plan.target, place, 1, 1, taps);
  }
  RankMemory& deciding = plan.ranks[size_t(placement.deciding_rank())];
  for (const auto& [key, planned] : heads) {
    const auto& [head, dtype] = planned;
    const bool is_alone = placement.num_ranks() == 1 && dtype == plan.dtype;
    deciding.weights += eagle3_weight_bytes(head, dtype, is_alone, numerics);
    deciding.swapped_draft_block_bytes += eagle3_block_bytes(head, block_size, plan.kv_dtype);
    deciding.draft_block_bytes += eagle3_block_bytes(head, block_size, plan.kv_dtype);
    deciding.workspace += eagle3_workspace_bytes(head, head_options(plan, config, limits, head));
    if (!is_on_gpus) continue;
    if (dtype == DType::bf16) deciding.widest_row = std::max(deciding.widest_row, eagle3_widest_row(head));
    deciding.workspace += cuda_rope_bytes(plan.max_model_len, head.rope.rotary_dim);
  }
  std::map<std::string, std::optional<PlannedSecondModel>> second_models;  // by key; none: it cannot be read
  const auto second_model_of = [&](const ExperimentConfig& cell) -> const PlannedSecondModel* {
    const auto [found, is_new] = second_models.emplace(second_model_key(cell), std::nullopt);
    std::optional<PlannedSecondModel>& second = found->second;
    if (!is_new) return second ? &*second : nullptr;
    try {
      second = plan_second_model(cell, plan);
    } catch (const Error&) {
      if (&cell == &config) throw;
      return nullptr;
    }
    for (const auto& [rank, place] : holders_of(plan.ranks, second->ranks, placement)) {
      if (!second->is_target) rank->weights += packed_bytes(second->spec, place, second->dtype, numerics);
      rank->draft_block_bytes += kv_block_bytes_on(second->spec, place, block_size, plan.kv_dtype);
      rank->workspace += workspace_bytes(
          second->spec, transformer_options(plan, config, second->dtype, second->ranks, plan.max_model_len), place);
      if (is_on_gpus) add_gpu_buffers(second->spec, second->dtype, plan, place, *rank);
    }
    return &*second;
  };
  size_t proposer_bytes = 0;
  for (const ExperimentConfig* const cell : cells) {
    const bool has_second = cell->speculation.draft_model() != nullptr;
    const PlannedSecondModel* const second = has_second ? second_model_of(*cell) : nullptr;
    if (has_second && !second) continue;
    if (second && cell == &config) {
      plan.draft = second->spec;
      plan.draft_dtype = second->dtype;
      plan.draft_ranks = second->ranks;
    }
    ProposerSetup setup = proposer_setup(*cell, plan, verify_rule(*cell, limits.takes_any_sampling),
                                         limits.max_draft_len, second ? &second->spec : nullptr);
    size_t bytes = 0;
    for (const auto& [entry, options] : cell->speculation.stages()) {
      setup.options = options;
      if (entry->memory) bytes += entry->memory(setup).deciding_rank;
      if (entry->check && cell == &config) entry->check(setup);
    }
    proposer_bytes = std::max(proposer_bytes, bytes);
  }
  deciding.workspace += proposer_bytes;
  if (is_on_gpus)
    for (RankMemory& rank : plan.ranks) rank.workspace += cuda_operand_bytes(plan.max_num_rows, rank.widest_row);
  plan.devices =
      devices_of(config, plan.ranks, limits.memory_bytes.empty() ? memory_now(config, placement) : limits.memory_bytes);
  MemoryPlanInput memory{.devices = plan.devices,
                         .memory_fraction = config.engine.kv_cache.memory_fraction,
                         .block_size = block_size,
                         .max_num_seqs = plan.max_num_seqs,
                         .max_model_len = plan.max_model_len,
                         .swap_bytes = size_t(config.engine.kv_cache.swap_space_gib * kGiB)};
  for (const RankMemory& rank : plan.ranks)
    memory.swap_block_bytes = std::max(memory.swap_block_bytes, rank.block_bytes + rank.swapped_draft_block_bytes);
  if (config.engine.kv_cache.prefix_caching)
    memory.prefix_cache_tokens = int64_t(plan.max_num_seqs) * plan.max_model_len;
  if (is_on_gpus) memory.host_bytes = memory_limit_bytes();
  if (!scheduler.max_model_len) {  // auto: the model's, cut to what the KV cache holds
    memory.max_model_len = block_size;
    const int64_t tokens = plan_memory(memory).blocks_that_fit * block_size;
    if (tokens < plan.max_model_len) {
      plan.max_model_len = int(tokens);
      plan.max_model_len_from = LengthSource::kv_cache;
    }
    memory.max_model_len = plan.max_model_len;
  }
  plan.memory = plan_memory(memory);
  return plan;
}

LengthLimit length_limit(const ExperimentConfig& config, const LoadPlan& plan) {
  LengthLimit limit{.max_model_len = plan.max_model_len};
  const int64_t of_model = longest_sequence(plan.target);
  if (plan.max_model_len_from == LengthSource::kv_cache)
    limit.fix = fmt::format(
        "raise engine.kv_cache.memory_fraction (now {}): max_model_len is auto, and the KV cache "
        "holds {} tokens",
        config.engine.kv_cache.memory_fraction, plan.memory.blocks_that_fit * config.engine.kv_cache.block_size);
  else if (plan.max_model_len < of_model)
    limit.fix = fmt::format("raise engine.scheduler.max_model_len (the model knows {} positions)", of_model);
  return limit;
}

EngineLoad::EngineLoad(const ExperimentConfig& config, const LoadLimits& limits) : limits_(limits) {
  const auto start = std::chrono::steady_clock::now();
  check_gpu_code(rank_devices(config.engine));
  limits_.memory_bytes = memory_now(config, placement_of(config));  // drafts are planned against the same
  plan_ = plan_load(config, limits_);
  source_ = target_source(config);
  target_config_ = config.engine.target;
  team_ = std::make_unique<RankTeam>(TeamOptions{.placement = placement_of(config),
                                                 .threads_per_rank = limits.threads_per_rank,
                                                 .timeout_s = config.engine.parallel.timeout_s,
                                                 .numerics = config.engine.numerics,
                                                 .graphs = config.engine.cuda_graphs});
  weights_ = load_weights(*open_tensors(source_), plan_.target, *team_, RankSet::all, plan_.dtype);
  target_ = make_transformer(plan_.target, weights_, *team_, target_options(plan_, config));
  if (const std::string difference = rope_difference(plan_.target, plan_.max_model_len); !difference.empty())
    spdlog::warn("{}: {}", config.engine.target.directory.string(), difference);
  if (config.speculation.second_model()) draft_model(config);
  load_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

EngineLoad::DraftModel& EngineLoad::draft_model(const ExperimentConfig& cell) {
  const std::string key = second_model_key(cell);
  if (const auto it = drafts_.find(key); it != drafts_.end()) return it->second;
  DraftModel loaded;
  loaded.plan = plan_load(cell, limits_);
  if (cell.speculation.head()) {
    const std::unique_ptr<TensorSource> source = open_tensors(source_);
    loaded.head = make_eagle3_model(
        *open_head(cell, loaded.plan).tensors, *loaded.plan.head,
        {.source = *source, .spec = plan_.target, .held = (*weights_)[size_t(team_->deciding_rank())].get()},
        loaded.plan.draft_dtype, head_options(plan_, cell, limits_, *loaded.plan.head), *target_, *team_);
    return drafts_.emplace(key, std::move(loaded)).first->second;
  }
  const SecondModelConfig& draft = *cell.speculation.draft_model();
  const RankSet ranks = draft_ranks(cell);
  if (draft.self) {
    loaded.weights = weights_;
  } else {
    check_vocabularies(*tokenizer(), *load_tokenizer(draft),
                       fmt::format("speculation.{}", cell.speculation.modelled()->name));
    loaded.weights =
        load_weights(*open_tensors(draft_source(draft)), *loaded.plan.draft, *team_, ranks, loaded.plan.draft_dtype);
  }
  // The draft's pages follow the target's block count, so that a sequence that fits the one fits the other.
  LoadPlan sized = loaded.plan;
  sized.memory.num_blocks = plan_.memory.num_blocks;
  sized.memory.num_host_blocks = 0;  // it computes again
  const int max_len = int(std::min<int64_t>(longest_sequence(*loaded.plan.draft), plan_.max_model_len));
  TransformerOptions options = transformer_options(sized, cell, loaded.plan.draft_dtype, ranks, max_len);
  options.work = WorkKind::draft;
  loaded.model = make_transformer(*loaded.plan.draft, loaded.weights, *team_, options);
  return drafts_.emplace(key, std::move(loaded)).first->second;
}

const ShardWeights* EngineLoad::draft_weights(const ExperimentConfig& cell) {
  if (!cell.speculation.draft_model()) return nullptr;
  return (*draft_model(cell).weights)[size_t(team_->deciding_rank())].get();
}

std::shared_ptr<const Tokenizer> EngineLoad::tokenizer() {
  if (!tokenizer_) tokenizer_ = load_tokenizer(target_config_);
  return tokenizer_;
}

std::unique_ptr<Engine> EngineLoad::make_engine(const ExperimentConfig& cell, DraftRecord* record_drafts) {
  const auto& scheduler = cell.engine.scheduler;
  const bool is_static = scheduler.batching == BatchingMode::static_turns;
  const BlockPoolOptions pool{
      .num_blocks = int(plan_.memory.num_blocks),
      .block_size = cell.engine.kv_cache.block_size,
      .prefix_caching = cell.engine.kv_cache.prefix_caching ? PrefixCaching::on : PrefixCaching::off,
      .hash_key = 0x9ac3115e0b2d71f5ull};
  EngineOptions options;
  options.pool = pool;
  options.num_speculative_tokens = cell.speculation.num_speculative_tokens;
  options.scheduler = {.max_num_seqs = plan_.max_num_seqs,
                       .max_num_batched_tokens = scheduler.max_num_batched_tokens,
                       .max_model_len = plan_.max_model_len,
                       .batching = is_static ? Batching::static_padded : Batching::continuous,
                       .num_host_blocks = int(plan_.memory.num_host_blocks)};
  // A padded turn walks through the stages as one batch: that is what it is measured for.
  if (scheduler.run_ahead) {
    options.run_ahead = 1;
    options.scheduler.max_steps_per_seq = 2;
  }
  if (!is_static)
    options.scheduler.num_micro_batches = cell.engine.parallel.pp_microbatches.value_or(cell.engine.parallel.pp);

  const VerifyRule rule = verify_rule(cell, limits_.takes_any_sampling);
  DraftModel* const draft = cell.speculation.second_model() ? &draft_model(cell) : nullptr;
  ProposerSetup setup = proposer_setup(cell, plan_, rule, std::max(1, cell.speculation.num_speculative_tokens),
                                       draft && draft->plan.draft ? &*draft->plan.draft : nullptr);
  setup.pool = pool;
  const std::vector<ProposerStage> stages = cell.speculation.stages();
  setup.stages = stages;
  if (limits_.kept) setup.kept = &(*limits_.kept)[config_hash(config_identity(cell))];
  if (draft) setup.second_model = draft->model.get();
  if (cell.speculation.head()) setup.head = draft->head.get();
  if (!plan_.taps.empty()) target_->use_taps(cell.speculation.head() != nullptr);
  const auto make_proposer = cell.speculation.entry().make;
  std::unique_ptr<Proposer> proposer = make_proposer ? make_proposer(setup) : nullptr;
  if (proposer && record_drafts) proposer = std::make_unique<RecordsProposals>(std::move(proposer), *record_drafts);
  return std::make_unique<Engine>(options, *target_, std::move(proposer),
                                  std::make_unique<ChainVerifier>(VerifierOptions{rule}));
}

nlohmann::json EngineLoad::effective(const ExperimentConfig& cell, const Engine& engine) const {
  nlohmann::json ran = {
      {"backend", on_cuda(cell.engine) ? "cuda" : "cpu"},
      {"device", team_->rank(team_->deciding_rank()).backend->describe()},
      {"devices", team_->options().placement.devices},
      {"tp", team_->options().placement.tp},
      {"pp", team_->options().placement.pp},
      {"threads_per_rank", team_->options().threads_per_rank},
      {"oversubscribed", team_->oversubscribed()},
      {"load_format", source_.random_weights ? "dummy" : "safetensors"},
      {"shape", source_.shape_file.stem().string()},
      {"weights", describe_source(source_)},
      {"dtype", dtype_name(plan_.dtype)},
      {"kv_dtype", dtype_name(plan_.kv_dtype)},
      {"kv_blocks", plan_.memory.num_blocks},
      {"host_kv_blocks", plan_.memory.num_host_blocks},
      {"block_size", cell.engine.kv_cache.block_size},
      {"prefix_caching", cell.engine.kv_cache.prefix_caching},
      {"max_model_len", plan_.max_model_len},
      {"max_num_seqs", plan_.max_num_seqs},
      {"numerics", names_of(team_->options().numerics)[size_t(team_->options().numerics)]},
      {"proposer", engine.proposer_name()},
      {"num_speculative_tokens", engine.num_speculative_tokens()},
      {"rule", engine.verifier().rule_name()},
      {"run_ahead", cell.engine.scheduler.run_ahead},
  };
  if (cell.speculation.draft_model()) ran["draft_tp"] = draft_tp(draft_ranks(cell), team_->options().placement);
  return ran;
}

}  // namespace paceline
