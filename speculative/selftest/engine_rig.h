#pragma once
// A loaded target (and draft) on a team of ranks, and engines over them, from a few plain options.

#include <any>
#include <compare>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/rank_team.h"
#include "engine/engine.h"
#include "engine/transformer/transformer.h"
#include "speculative/draft_proposer.h"
#include "speculative/eagle3_inflate.h"
#include "speculative/eagle3_model.h"
#include "speculative/proposer_entry.h"

namespace paceline {

/// One of proposer_list(), maybe with the options that make it branch, or one with a second model for which the target
/// stands in. Known ones have names of their own.
struct RigProposer {
  std::string_view name = kNoProposer;
  bool self = false;
  bool branches = false;
  auto operator<=>(const RigProposer&) const = default;

  static const RigProposer none, ngram, draft, self_draft, eagle3;
};
inline constexpr RigProposer RigProposer::none{};
inline constexpr RigProposer RigProposer::ngram{.name = "ngram"};
inline constexpr RigProposer RigProposer::draft{.name = "draft"};
inline constexpr RigProposer RigProposer::eagle3{.name = "eagle3"};
inline constexpr RigProposer RigProposer::self_draft{.name = "draft", .self = true};

/// "draft"; "self-draft"; "draft-tree".
std::string rig_proposer_name(RigProposer proposer);
/// All that draft with their defaults, in the list's order; one that may branch as chains and as trees, and one with a
/// second model on its own and with the target.
std::vector<RigProposer> drafting_rig_proposers();

/// Where the ranks of rigs are that do not say it, by PACELINE_RIG_DEVICE: "cpu" (the default) or "cuda"; and how many
/// there may be.
std::string rig_device();
int most_rig_ranks();
/// BackendOptions::early_starts of rigs, by PACELINE_RIG_EARLY_STARTS: true unless it is "off".
bool rig_early_starts();

/// What all engines of a rig share: models, ranks, and upper bounds of what they may ask for.
struct RigOptions {
  std::filesystem::path target;
  std::filesystem::path draft;       // empty: no draft model (self_draft needs none)
  std::optional<DType> draft_dtype;  // else the checkpoint's
  std::filesystem::path head;        // of proposer eagle3; empty: none
  std::filesystem::path parent;      // of an inflated target, for which the head was made; empty: it is none
  std::optional<DType> dtype;        // of the target and its head; else the checkpoint's
  std::string device = {};           // "cpu" or "cuda"; empty: rig_device()
  int tp = 1;
  int pp = 1;
  int threads_per_rank = 1;
  int max_num_seqs = 16;
  int max_num_rows = 512;  // of one batch; at least every engine's max_num_batched_tokens
  int max_draft_len = 8;
  int max_model_len = 0;  // 0: the target's
  int block_size = 16;
  int num_blocks = 1024;  // KV pages of target and draft each, touched when first used
  int num_host_blocks = 256;
};

/// Where a draft model of its own lies under TP.
enum class DraftPlacement : uint8_t { deciding_rank, last_stage };

/// One engine. Hooks take the part the rig has made and return what the engine shall use: for decorators.
struct EngineSetup {
  RigProposer proposer = RigProposer::none;
  VerifyRule rule = VerifyRule::greedy;
  DraftPlacement draft_placement = DraftPlacement::deciding_rank;
  std::any proposer_options;  // the struct of the proposer's entry; no value: its defaults, or those of a tree
  int num_speculative_tokens = 0;
  int max_num_seqs = 1;
  int max_num_batched_tokens = 512;
  int num_blocks = 0;  // 0: the rig's
  int num_host_blocks = 0;
  PrefixCaching prefix_caching = PrefixCaching::off;
  int num_micro_batches = 0;  // 0: one a stage, 1 with run_ahead
  int run_ahead = 0;
  std::any* kept = nullptr;  // as ProposerSetup's, as is the next
  bool may_be_passed_over = false;
  Model* target = nullptr;      // null: the rig's
  Model* draft = nullptr;       // null: the rig's
  Eagle3Model* head = nullptr;  // null: the rig's
  std::function<std::unique_ptr<Proposer>(std::unique_ptr<Proposer>)> wrap_proposer;
  std::function<std::unique_ptr<Verifier>(std::unique_ptr<Verifier>)> wrap_verifier;
};

/// One engine at a time: engines share the models' KV pages. Engines and models must end before the rig.
class EngineRig {
 public:
  explicit EngineRig(const RigOptions& options);

  std::unique_ptr<Engine> make_engine(const EngineSetup& setup);

  /// A draft model with its own KV pages, over the shared weights: the rig's own, or another one for a test to wrap.
  Model& draft_model(RigProposer proposer, DraftPlacement placement);
  std::unique_ptr<Model> new_draft_model(RigProposer proposer, DraftPlacement placement);

  /// A head of RigOptions::head with its own KV pages; change: of its description and options, before it is made.
  std::unique_ptr<Eagle3Model> new_head(const std::function<void(Eagle3Spec&, Eagle3Options&)>& change = {});

  /// The options of the draft proposer that make_engine builds.
  DraftOptions draft_options(const EngineSetup& setup) const;

  /// Of the newest engine; null when its proposer is not a draft model.
  const DraftProposer* draft_proposer() const { return draft_proposer_; }

  const RigOptions& options() const { return options_; }
  /// Of RigOptions::head.
  Eagle3Model& head() const { return *head_; }

  const ModelSpec& spec() const { return spec_; }
  int max_model_len() const { return options_.max_model_len; }
  Model& target() { return *target_; }
  RankTeam& team() { return *team_; }

 private:
  Eagle3Files open_head() const;
  TransformerOptions transformer_options(DType dtype, RankSet ranks, int max_model_len) const;
  RankSet draft_ranks(RigProposer proposer, DraftPlacement placement) const;
  std::any proposer_options(const EngineSetup& setup) const;
  ProposerSetup proposer_setup(const EngineSetup& setup, const std::any& options) const;  // without model and stages

  RigOptions options_;
  ModelSpec spec_;
  std::optional<ModelSpec> draft_spec_;
  std::unique_ptr<RankTeam> team_;
  SharedWeights weights_;
  std::map<RankSet, SharedWeights> draft_weights_;
  std::unique_ptr<Model> target_;
  std::unique_ptr<Eagle3Model> head_;
  std::map<std::pair<RigProposer, RankSet>, std::unique_ptr<Model>> draft_models_;
  const DraftProposer* draft_proposer_ = nullptr;
};

}  // namespace paceline
