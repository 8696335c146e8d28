#pragma once
// The one forward pass of all families: what a rank holds, and the Model made of all ranks.

#include <memory>
#include <span>
#include <vector>

#include "engine/transformer/model.h"
#include "engine/weights/shard_weights.h"

namespace paceline {

enum class RankSet : uint8_t {
  all,         // tp x pp as the team is laid out
  last_stage,  // tensor parallel over the last stage's ranks (draft model with the target's TP)
  deciding,    // the deciding rank alone (draft model with TP 1)
};

/// in_order: jobs of the deciding rank queue behind those of other models. at_once: they run when posted; only
/// for RankSet::deciding, and not where rows are deferred to another model's outcome.
enum class StreamOrder : uint8_t { in_order, at_once };

struct TransformerOptions {
  DType dtype = DType::bf16;  // weight storage
  DType kv_dtype = DType::f32;
  int num_blocks = 0;
  int num_host_blocks = 0;  // in host memory, for swap_kv
  int block_size = 16;
  int max_num_seqs = 1;         // SeqState slots
  int max_num_rows = 512;       // rows of one batch
  int max_num_logit_rows = 64;  // rows whose logits one batch may want
  int max_model_len = 1024;
  std::vector<int> taps;  // layers whose residual Model::taps() hands out, ascending; num_layers: what leaves the last
  RankSet ranks = RankSet::all;
  StreamOrder order = StreamOrder::in_order;
  WorkKind work = WorkKind::target;  // what its passes are counted as
};

/// Layers [begin, end) of each stage: the largest stage time is minimised, counting the head (as bytes per
/// token) on the last stage.
std::vector<std::pair<int, int>> split_layers(const ModelSpec& spec, int num_stages);

/// How `ranks` sees a rank of the team: its stage and shard, or nothing.
struct ModelRank {
  int stage = 0, num_stages = 1;
  int shard = 0, tp = 1;
};
std::optional<ModelRank> model_rank(RankSet ranks, const Placement& placement, int rank);

/// The shards of one checkpoint on the ranks of one team; const after load, so a self-draft shares them.
using SharedWeights =
    std::shared_ptr<const std::vector<std::unique_ptr<const ShardWeights>>>;  // [rank of the team], null where the rank
                                                                              // has none

SharedWeights load_weights(const TensorSource& source, const ModelSpec& spec, RankTeam& team, RankSet ranks,
                           DType dtype);

/// Allocates KV and workspace on every rank (touched when first used). The team outlives the model.
std::unique_ptr<Model> make_transformer(const ModelSpec& spec, SharedWeights weights, RankTeam& team,
                                        const TransformerOptions& options);

/// The part of the model that a rank at `place` holds.
ShardPlan shard_plan(const ModelSpec& spec, const ModelRank& place, DType dtype);

/// Bytes of one KV block on the rank at `place`.
size_t kv_block_bytes_on(const ModelSpec& spec, const ModelRank& place, int block_size, DType kv_dtype);

/// Vectors of hidden_size that a row's branches, or its position, leave before the residual takes them.
int delta_vectors(const ModelSpec& spec, int tp);

/// Of `taps`, ascending, those that the rank at `place` keeps: what it adds, and what it has of the stages before and
/// hands on. Those of the first shard alone: it feeds the deciding rank.
struct TapShare {
  int before = 0;  // of the stages before
  int count = 0;   // with its own
};
TapShare tap_share(const ModelSpec& spec, const ModelRank& place, std::span<const int> taps);

/// Bytes of activations, logits and taps of the rank at `place`.
size_t workspace_bytes(const ModelSpec& spec, const TransformerOptions& options, const ModelRank& place);

/// Values of the widest row that a product of a rank reads.
int64_t widest_row(const ModelSpec& spec, int tp);

/// Bytes that the rank at `place` puts into sums, gathers and messages in a pass over `rows` rows, of which
/// `logit_rows` want logits: what CommStats::bytes grows by, deferred rows aside.
size_t comm_bytes(const ModelSpec& spec, const ModelRank& place, int64_t rows, int64_t logit_rows,
                  std::span<const int> taps = {});

}  // namespace paceline
