#pragma once
// The forward pass of an EAGLE-3 head on the deciding rank (Li et al. 2025, sections 3.1 and 3.2): from the target's
// taps to features, one layer over tokens and features, logits over its own vocabulary. Its KV is one more layer in the
// target's pages: position p lies in the slot that the target's position p has.

#include <functional>
#include <span>
#include <vector>

#include "engine/comm/rank_team.h"
#include "engine/sampling_plan.h"
#include "engine/transformer/model.h"
#include "kernels/backend.h"
#include "speculative/eagle3_pass.h"
#include "speculative/eagle3_weights.h"

namespace paceline {

/// Values of the widest row that one of its products reads.
int64_t eagle3_widest_row(const Eagle3Spec& spec);
/// Bytes of workspace, features and cells, and of a block of its KV.
size_t eagle3_workspace_bytes(const Eagle3Spec& spec, const Eagle3Options& options);
size_t eagle3_block_bytes(const Eagle3Spec& spec, int block_size, DType kv_dtype);

/// Threads: made and called on the deciding rank's thread.
class Eagle3Head {
 public:
  /// The target's taps are those of `target`, which outlives this.
  Eagle3Head(Eagle3Spec spec, Eagle3Weights weights, const Eagle3Options& options, Model& target, Rank& rank);
  ~Eagle3Head();
  Eagle3Head(const Eagle3Head&) = delete;
  Eagle3Head& operator=(const Eagle3Head&) = delete;

  const Eagle3Spec& spec() const { return spec_; }
  const Eagle3Options& options() const { return options_; }

  /// Behind the target's pass in its stream: features of all its rows, kept as `step` until so many steps later; and
  /// the pass over `rows`, whose features are rows of it.
  void take_features(uint64_t step, const Eagle3Rows& rows);

  /// Feature from[i] to where feature to[i] lies.
  void keep(std::span<const int32_t> from, std::span<const int32_t> to);

  /// The pass over `rows`. Row last_row[i] leaves what seq_slot[i] drafts from.
  void extend(const Eagle3Rows& rows, std::span<const int32_t> last_row, std::span<const int32_t> seq_slot);

  /// Drafts of sequences, longest first: of sequence i num_drafts[i] >= 1. Draft j of sequence i goes to
  /// token[j * seq_slot.size() + i], complete after Backend::await_draws(); -1: the logits were no numbers. rows[j -
  /// 1], j >= 1: the rows behind draft j - 1, of all sequences with more than j drafts, in order. plan: of each
  /// sequence or null, for logits as edited behind its drafts so far, which are waited for; or empty, where none has
  /// one.
  void draft(std::span<const int32_t> seq_slot, std::span<const int> num_drafts, std::span<const Eagle3Rows> rows,
             std::span<const SamplingPlan* const> plan, std::span<int32_t> token);
  void await_drafts();

  /// A level of trees. Without rows, what comes first behind the slots `from`. Else over `rows`, whose features are
  /// what rows from[i] of the level before have left. edits: of the logits of row i, by the target's tokens. token,
  /// prob: as TopKArgs, [from.size() * width]; complete at return.
  void draft_level(std::span<const int32_t> from, const Eagle3Rows& rows, const LogitEdits& edits, int width,
                   std::span<int32_t> token, std::span<float> prob);

  void swap_kv(std::span<const BlockSwap> swaps);

  /// Of the newest drafts: logits of the last pass, [rows, draft_vocab_size], for tests.
  const MatView& logits() const { return logits_; }

 private:
  struct Vectors {
    const float *input_norm = nullptr, *token_norm = nullptr, *feature_norm = nullptr, *mlp_norm = nullptr,
                *last_norm = nullptr, *q_norm = nullptr, *k_norm = nullptr, *qkv_bias = nullptr;
  };

  /// One layer over rows whose features are the first rows of feature_; returns what it leaves, in their place.
  MatView run_layer(const Eagle3Rows& rows);
  void run(int kind, const Eagle3Rows& rows, const std::function<void()>& body);
  void norm(const MatView& from, const float* weight, const MatView& to);
  /// Of logits_. edits: by the target's tokens.
  void edit(const LogitEdits& edits);

  const Eagle3Spec spec_;
  const Eagle3Weights weights_;
  const Eagle3Options options_;
  Model& target_;
  Rank& rank_;
  Backend& backend_;
  std::vector<void*> allocations_;
  Vectors vectors_;
  const int32_t* ids_ = nullptr;  // [draft_vocab_size]; null: not reduced
  int32_t* cells_ = nullptr;      // [max_num_seqs]: the draft of each slot that is newest
  KvView kv_;
  size_t half_block_bytes_ = 0;
  void *host_k_ = nullptr, *host_v_ = nullptr;
  std::vector<double> inv_freq_;
  std::vector<int32_t> every_row_;  // 0, 1, …

  MatView tapped_;       // [max_num_rows, n * t]
  MatView normed_taps_;  // the same, with norm_before_fc
  MatView features_;     // [num_features(), h]
  // [max_pass_rows(), ..]
  MatView feature_;   // h
  MatView embedded_;  // h
  MatView input_;     // 2 * h: a token's embedding, a feature
  MatView qkv_, attended_, mlp_, normed_;
  MatView kept_;                 // [max_num_seqs, h]: what each slot drafts from
  MatView all_logits_, logits_;  // [max_num_seqs * max_width, draft_vocab_size]
};

}  // namespace paceline
