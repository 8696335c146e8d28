#include "speculative/selftest/engine_rig.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "engine/weights/model_source.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/error.h"
#include "speculative/chain_verifier.h"

namespace paceline {

namespace {

/// The defaults, but for the option that says whether drafts branch: its last word, or 3.
std::any branching_options(const ProposerEntry& entry) {
  std::any options = entry.defaults;
  const std::string_view decides = entry.form_of(options).option;
  for (const ProposerOption& option : entry.options) {
    if (option.name != decides) continue;
    const OptionValue usual = option.get(options);
    if (!option.words.empty()) option.set(options, std::string(option.words.back()));
    if (std::holds_alternative<bool>(usual)) option.set(options, true);
    if (std::holds_alternative<int64_t>(usual)) option.set(options, int64_t{3});
  }
  PACELINE_CHECK(entry.form_of(options).branches(), "{}: no branches by option \"{}\"", entry.name, decides);
  return options;
}

}  // namespace

std::string rig_proposer_name(RigProposer proposer) {
  return (proposer.self ? "self-" : "") + std::string(proposer.name) + (proposer.branches ? "-tree" : "");
}

std::vector<RigProposer> drafting_rig_proposers() {
  std::vector<RigProposer> proposers;
  for (const ProposerEntry& entry : proposer_list()) {
    if (!entry.drafts() || (entry.find_conflict && entry.find_conflict(entry.defaults))) continue;  // wants a file
    const bool may_be_target = entry.second_model.kind == SecondModelKind::draft_model;
    for (const bool branches : {false, true}) {
      if (branches && !entry.form) continue;
      proposers.push_back({.name = entry.name, .branches = branches});
      if (may_be_target) proposers.push_back({.name = entry.name, .self = true, .branches = branches});
    }
  }
  return proposers;
}

std::string rig_device() {
  const char* const wanted = std::getenv("PACELINE_RIG_DEVICE");
  return wanted ? wanted : "cpu";
}

bool rig_early_starts() {
  const char* const wanted = std::getenv("PACELINE_RIG_EARLY_STARTS");
  return !wanted || std::string_view(wanted) != "off";
}

int most_rig_ranks() { return rig_device() == "cpu" ? std::numeric_limits<int>::max() : num_cuda_devices(); }

EngineRig::EngineRig(const RigOptions& options) : options_(options), spec_(load_model_spec(options.target)) {
  if (options_.max_model_len == 0) options_.max_model_len = spec_.max_position;
  options_.max_num_rows = std::max(options_.max_num_rows, options_.max_num_seqs * (options_.max_draft_len + 1));
  TeamOptions team;
  team.placement.tp = options.tp;
  team.placement.pp = options.pp;
  if (options_.device.empty()) options_.device = rig_device();
  if (options_.device != "cpu")
    for (int rank = 0; rank < options.tp * options.pp; ++rank)
      team.placement.devices.push_back(fmt::format("{}:{}", options_.device, rank));
  team.threads_per_rank = options.threads_per_rank;
  team.early_starts = rig_early_starts();
  team_ = std::make_unique<RankTeam>(team);
  if (options.dtype) spec_.checkpoint_dtype = *options.dtype;
  const auto source = open_tensors({.directory = options.target});
  weights_ = load_weights(*source, spec_, *team_, RankSet::all, spec_.checkpoint_dtype);
  TransformerOptions target = transformer_options(spec_.checkpoint_dtype, RankSet::all, options_.max_model_len);
  if (!options.head.empty()) {
    const Eagle3Spec head = open_head().spec;
    target.taps = taps_of(std::span(&head, 1));
  }
  target_ = make_transformer(spec_, weights_, *team_, target);
  if (!options.head.empty()) head_ = new_head();
  if (!options.draft.empty()) {
    draft_spec_ = load_model_spec(options.draft);
    if (options.draft_dtype) draft_spec_->checkpoint_dtype = *options.draft_dtype;
  }
}

Eagle3Files EngineRig::open_head() const {
  std::optional<ModelSpec> parent;
  if (!options_.parent.empty()) parent = load_model_spec(options_.parent);
  return open_eagle3_head(options_.head, spec_, parent ? &*parent : nullptr);
}

std::unique_ptr<Eagle3Model> EngineRig::new_head(const std::function<void(Eagle3Spec&, Eagle3Options&)>& change) {
  Eagle3Files files = open_head();
  const TransformerOptions target = transformer_options(spec_.checkpoint_dtype, RankSet::all, options_.max_model_len);
  Eagle3Options options{.kv_dtype = target.kv_dtype,
                        .num_blocks = target.num_blocks,
                        .num_host_blocks = target.num_host_blocks,
                        .block_size = target.block_size,
                        .max_num_seqs = target.max_num_seqs,
                        .max_num_rows = target.max_num_rows,
                        .max_steps_in_flight = options_.pp,
                        .max_width = 16,
                        .max_waiting = 24,
                        .tap_index = tap_index(files.spec, taps_of(std::span(&files.spec, 1)))};
  if (change) change(files.spec, options);
  const auto source = open_tensors({.directory = options_.target});
  return make_eagle3_model(*files.tensors, files.spec,
                           {*source, spec_, (*weights_)[size_t(team_->deciding_rank())].get()}, spec_.checkpoint_dtype,
                           options, *target_, *team_);
}

TransformerOptions EngineRig::transformer_options(DType dtype, RankSet ranks, int max_model_len) const {
  return {.dtype = dtype,
          .kv_dtype = spec_.checkpoint_dtype,
          .num_blocks = options_.num_blocks,
          .num_host_blocks = options_.num_host_blocks,
          .block_size = options_.block_size,
          .max_num_seqs = options_.max_num_seqs,
          .max_num_rows = options_.max_num_rows,
          .max_num_logit_rows = options_.max_num_seqs * (options_.max_draft_len + 1),
          .max_model_len = max_model_len,
          .ranks = ranks,
          .order = ranks == RankSet::deciding ? StreamOrder::at_once : StreamOrder::in_order};
}

RankSet EngineRig::draft_ranks(RigProposer proposer, DraftPlacement placement) const {
  if (proposer.self) return RankSet::all;  // shares the target's shards as they lie
  return placement == DraftPlacement::last_stage && options_.tp > 1 ? RankSet::last_stage : RankSet::deciding;
}

std::unique_ptr<Model> EngineRig::new_draft_model(RigProposer proposer, DraftPlacement placement) {
  const RankSet ranks = draft_ranks(proposer, placement);
  if (proposer.self) {
    const auto options = transformer_options(spec_.checkpoint_dtype, ranks, options_.max_model_len);
    return make_transformer(spec_, weights_, *team_, options);
  }
  PACELINE_CHECK(draft_spec_.has_value(), "the rig has no draft model");
  const DType dtype = draft_spec_->checkpoint_dtype;
  SharedWeights& weights = draft_weights_[ranks];
  if (!weights)
    weights = load_weights(*open_tensors({.directory = options_.draft}), *draft_spec_, *team_, ranks, dtype);
  const int max_len = std::min(draft_spec_->max_position, options_.max_model_len);
  return make_transformer(*draft_spec_, weights, *team_, transformer_options(dtype, ranks, max_len));
}

Model& EngineRig::draft_model(RigProposer proposer, DraftPlacement placement) {
  auto& model = draft_models_[{proposer, draft_ranks(proposer, placement)}];
  if (!model) model = new_draft_model(proposer, placement);
  return *model;
}

std::any EngineRig::proposer_options(const EngineSetup& setup) const {
  if (setup.proposer_options.has_value()) return setup.proposer_options;
  const ProposerEntry& entry = proposer_entry(setup.proposer.name);
  return setup.proposer.branches ? branching_options(entry) : entry.defaults;
}

ProposerSetup EngineRig::proposer_setup(const EngineSetup& setup, const std::any& options) const {
  const ProposerEntry& entry = proposer_entry(setup.proposer.name);
  const bool has_own_model = entry.second_model.kind == SecondModelKind::draft_model && !setup.proposer.self;
  return {.options = &options,
          .rule = setup.rule,
          .max_num_seqs = options_.max_num_seqs,
          .max_num_rows = options_.max_num_rows,
          .max_draft_len = options_.max_draft_len,
          .target_vocab_size = spec_.vocab_size,
          .pool = {.num_blocks = setup.num_blocks ? setup.num_blocks : options_.num_blocks,
                   .block_size = options_.block_size,
                   .prefix_caching = setup.prefix_caching,
                   .hash_key = 0x6a09e667f3bcc908ull},
          .second_vocab_size = has_own_model ? draft_spec_->vocab_size : spec_.vocab_size,
          .may_be_passed_over = setup.may_be_passed_over};
}

DraftOptions EngineRig::draft_options(const EngineSetup& setup) const {
  return paceline::draft_options(proposer_setup(setup, proposer_options(setup)));
}

std::unique_ptr<Engine> EngineRig::make_engine(const EngineSetup& setup) {
  PACELINE_CHECK(setup.num_blocks <= options_.num_blocks && setup.num_host_blocks <= options_.num_host_blocks &&
                     setup.max_num_seqs <= options_.max_num_seqs &&
                     setup.max_num_batched_tokens <= options_.max_num_rows &&
                     setup.num_speculative_tokens <= options_.max_draft_len,
                 "the engine asks for more than its rig has: {} blocks, {} sequences, {} rows, {} drafts",
                 setup.num_blocks, setup.max_num_seqs, setup.max_num_batched_tokens, setup.num_speculative_tokens);
  const ProposerEntry& entry = proposer_entry(setup.proposer.name);
  const std::any chosen = proposer_options(setup);
  ProposerSetup made_from = proposer_setup(setup, chosen);
  std::vector<ProposerStage> stages;
  std::vector<std::string_view> names{entry.name};
  if (entry.stages) names = entry.stages(chosen);
  bool has_head = false;
  for (const std::string_view name : names) {
    const ProposerEntry& stage = proposer_entry(name);
    stages.push_back({.entry = &stage, .options = &stage.defaults});
    has_head = has_head || stage.second_model.kind == SecondModelKind::eagle3_head;
    if (stage.second_model.kind == SecondModelKind::draft_model)
      made_from.second_model = setup.draft ? setup.draft : &draft_model(setup.proposer, setup.draft_placement);
  }
  made_from.stages = stages;
  made_from.kept = setup.kept;
  if (has_head) made_from.head = setup.head ? setup.head : head_.get();
  if (!options_.head.empty()) target_->use_taps(has_head);
  std::unique_ptr<Proposer> proposer = entry.drafts() ? entry.make(made_from) : nullptr;
  draft_proposer_ = dynamic_cast<const DraftProposer*>(proposer.get());
  if (proposer && setup.wrap_proposer) proposer = setup.wrap_proposer(std::move(proposer));
  std::unique_ptr<Verifier> verifier = std::make_unique<ChainVerifier>(VerifierOptions{.rule = setup.rule});
  if (setup.wrap_verifier) verifier = setup.wrap_verifier(std::move(verifier));

  EngineOptions options;
  options.scheduler = {.max_num_seqs = setup.max_num_seqs,
                       .max_num_batched_tokens = setup.max_num_batched_tokens,
                       .max_model_len = options_.max_model_len,
                       .num_host_blocks = setup.num_host_blocks};
  options.scheduler.num_micro_batches = setup.num_micro_batches ? setup.num_micro_batches
                                        : setup.run_ahead       ? 1
                                                                : options_.pp;
  options.scheduler.max_steps_per_seq = 1 + setup.run_ahead;
  options.pool = {.num_blocks = setup.num_blocks ? setup.num_blocks : options_.num_blocks,
                  .block_size = options_.block_size,
                  .prefix_caching = setup.prefix_caching,
                  .hash_key = 0x9ac3115e0b2d71f5ull};
  options.num_speculative_tokens = setup.num_speculative_tokens;
  options.run_ahead = setup.run_ahead;
  return std::make_unique<Engine>(options, setup.target ? *setup.target : *target_, std::move(proposer),
                                  std::move(verifier));
}

}  // namespace paceline
