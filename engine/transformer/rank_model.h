#pragma once
// One rank's part of a model: weights (shared), KV pages, workspace, SeqState, and the forward pass over them.

#include <optional>
#include <vector>

#include "engine/transformer/key_paths.h"
#include "engine/transformer/transformer.h"

namespace paceline {

class RankModel {
 public:
  /// Called on the rank's thread. `weights` outlive this.
  RankModel(const ModelSpec& spec, const ShardWeights& weights, const ModelRank& place,
            const TransformerOptions& options, Rank& rank);
  ~RankModel();
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  void forward(const Batch& batch);
  void move_kv(std::span<const SlotMove> moves);
  void swap_kv(std::span<const BlockSwap> swaps);

  Logits logits() const { return logits_; }
  Taps taps() const { return taps_; }
  void use_taps(bool are_used) {
    tap_share_ = are_used ? tap_share(spec_, place_, options_.taps) : TapShare{};
    uses_taps_ = are_used;
  }
  SeqState& state() { return state_; }

 private:
  /// Passes of more rows come in too many shapes, and take so long that their launches do not count.
  static constexpr int kMostRememberedRows = 64;
  /// The batch's per-row inputs with the deferred ones filled in.
  struct Rows {
    std::span<const int32_t> token, position, slot, kv_len;
    std::span<const int32_t> position_row;  // of the table of learned positions; empty without
    std::vector<SeqSpan> seqs;
    KeyPaths paths;
  };

  /// Norms and biases in the backend's memory; null where the model has none.
  struct Norm {
    const float *weight = nullptr, *bias = nullptr;
  };
  struct LayerVectors {
    Norm attn_norm, mlp_norm, attn_out_norm, mlp_out_norm;
    const float *q_norm = nullptr, *k_norm = nullptr;
    const float *qkv_bias = nullptr, *o_bias = nullptr, *gate_up_bias = nullptr, *down_bias = nullptr;
  };

  void upload_vectors();
  int32_t* make_cells();
  /// The rank has got as far as this layer of the model.
  void mark(const Batch& batch, int layer) const {
    rank_.mark({.step = batch.step, .layer = layer, .is_draft = options_.work == WorkKind::draft});
  }
  void update_state(const Batch& batch);
  /// Of Backend::run: the same model, sequences, rows and logits.
  uint64_t pass_key(const Batch& batch) const;
  void check_digest(const Batch& batch) const;
  void share_deferred_state(const Batch& batch);
  Rows make_rows(const Batch& batch);
  /// What the next norm adds to the residual: the sum of the shards' parts, or this shard's part of `sum`.
  struct Pending {
    MatView delta{};
    const float* bias = nullptr;
    const PeerSum* sum = nullptr;
  };
  /// The residual between two ops, and what is to be added to it. With norms after the sums, the residual moves between
  /// two buffers.
  struct Stream {
    MatView residual;
    Pending pending{};
  };
  /// What a branch reads: x, which norm_gemm makes with a norm before the branch, or which lies there.
  struct BranchInput {
    std::optional<NormArgs> norm;
    MatView x;
  };

  /// Adds what is pending, unless the branch's norm does.
  BranchInput branch_input(const LayerSpec& spec, Stream& stream, const Norm& norm);
  void multiply(const BranchInput& input, GemmArgs gemm);
  /// q, k, v of the input's rows; K and V are stored. Returns what attention gives, [rows, heads * head_dim].
  /// `reader`: as in AttentionArgs.
  MatView attention_block(const BranchInput& input, size_t layer, const Rows& rows, const Batch& batch,
                          const PackedWeight* reader);
  /// Activations of the MLP, [rows, intermediate]. reader: as in GemmArgs, for a gated one.
  MatView mlp_block(const BranchInput& input, size_t layer, const PackedWeight* reader);
  /// The branch's last product: what it gives is added to the residual, now or with the next norm.
  /// norm: of the layer's norm after the sum, or around the branch.
  void add_branch(const LayerSpec& spec, Stream& stream, MatView x, const PackedWeight& w, const float* bias,
                  const Norm& norm);
  /// Norms of query and key heads.
  void norm_heads(const AttentionSpec& spec, const LayerVectors& vectors, MatView qkv);
  /// Both branches' last products, added in their order; the shards' parts travel in one message.
  void add_parallel_branches(Stream& stream, MatView attended, MatView hidden, size_t layer);
  /// Drops rows whose logits nobody wants: of the residual, and of what attention gave for them.
  void keep_logit_rows(const Batch& batch, Stream& stream);
  MatView keep_logit_rows(const Batch& batch, MatView attended);
  /// The residual that enters this layer goes where taps() has it, if it is wanted.
  void tap(int layer, const MatView& residual);
  bool taps_last_residual() const {
    return uses_taps_ && !options_.taps.empty() && options_.taps.back() == spec_.num_layers;
  }
  /// The first `count` taps of a batch of `rows` rows.
  MatView kept_taps(int32_t rows, int count) const { return tapped_.row_range(0, rows * count); }
  /// Rows of delta_'s first or second part, without holes: messages of GPUs have none.
  MatView delta_part(int index, int32_t rows) const {
    const int64_t offset = int64_t{index} * delta_.rows * spec_.hidden_size;
    return f32_view(static_cast<float*>(delta_.data) + offset, rows, spec_.hidden_size);
  }
  NormArgs norm_args(const Stream& stream, const Norm& norm) const;
  void add_pending(Stream& stream);
  /// residual += x · Wᵀ + bias, now or with the next norm.
  Pending add_product(MatView x, const PackedWeight& w, const float* bias, MatView residual);
  MatView other_buffer(const MatView& residual) const;
  /// The embedding's rows, [rows, embed_cols]; under TP this shard's part of their sum.
  void embed(const Rows& rows, MatView out);
  /// Projects embeddings, and adds positions.
  void finish_embedding(const Rows& rows, MatView embedded, MatView residual);
  /// This stage's layers, and on the last stage the product that gives its logits.
  Stream run_layers(const Batch& batch, const Rows& rows, MatView residual);
  void multiply_head(const Batch& batch, const Stream& stream);
  void gather_logits(int32_t count);

  int num_stages() const { return place_.num_stages; }
  bool first_stage() const { return place_.stage == 0; }
  bool last_stage() const { return place_.stage == place_.num_stages - 1; }
  Communicator& shards() const { return options_.ranks == RankSet::deciding ? *rank_.alone : *rank_.shards; }
  Communicator& everyone() const;

  const ModelSpec& spec_;
  const ShardWeights& weights_;
  const ModelRank place_;
  const TransformerOptions options_;
  Rank& rank_;
  Backend& backend_;
  std::vector<void*> allocations_;
  SeqState state_;
  std::vector<LayerVectors> layer_vectors_;  // per local layer
  Norm final_norm_;
  std::vector<double> inv_freq_, window_inv_freq_;
  std::vector<KvView> kv_;       // per local layer
  std::vector<void*> host_kv_;   // of each layer's K, then V; empty without host blocks
  size_t half_block_bytes_ = 0;  // a block's K, or V, of one layer

  // workspace, [max_num_rows, …] f32
  MatView residual_, normed_, qkv_, attended_, mlp_;
  MatView delta_;                      // [max_num_rows, delta_vectors * hidden]
  MatView embedded_;                   // [max_num_rows, embed_cols]; of projected embeddings
  MatView compact_residual_;           // [max_num_logit_rows, hidden]
  MatView projected_;                  // [max_num_logit_rows, embed_cols]; of projected embeddings
  MatView local_logits_, all_logits_;  // [max_num_logit_rows, shard vocab], [max_num_logit_rows, tp * shard vocab]
  Logits logits_;
  TapShare tap_share_;
  bool uses_taps_ = true;
  MatView tapped_;                  // [tap_share_.count * max_num_rows, hidden]; as Taps::rows
  std::vector<int32_t> every_row_;  // 0, 1, …
  Taps taps_;
  std::vector<int32_t> token_, position_, slot_, kv_len_;  // deferred rows filled in
  std::vector<int32_t> position_row_;
  KeyPathTable paths_;
};

}  // namespace paceline
