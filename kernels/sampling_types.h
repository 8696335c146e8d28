#pragma once
// Arguments of the two ops that turn logits into tokens. Formulas: kernels/math/{distribution,accept}.h.

#include <cstdint>
#include <span>

#include "kernels/mat_view.h"

namespace paceline {

/// What a request asks of its distribution. temperature <= 1e-5 means greedy (argmax, lowest id on ties).
struct DrawParams {
  float temperature = 0.0f;
  int32_t top_k = 0;   // 0: off
  float top_p = 1.0f;  // (0, 1]
  float min_p = 0.0f;  // [0, 1)
  uint64_t seed = 0;   // Philox key: request seed (sample index mixed in)
  constexpr bool greedy() const { return temperature <= 1e-5f; }
};

/// Purposes keep the noise of different decisions apart (docs/numerics.md). Values are part of the contract.
enum class NoisePurpose : uint32_t { target = 0, draft = 1, accept = 2, recover = 3, bonus = 4 };

/// One draw per row. Plain sampling is argmax(log prob + Gumbel); the noise of token t of a row is counter
/// (origin, offset, purpose, t / 4), lane t % 4.
struct SampleRow {
  int32_t logits_row = 0;
  DrawParams params;
  NoisePurpose purpose = NoisePurpose::target;
  int32_t origin = 0;
  int32_t offset = 0;
  int32_t probs_row = -1;   // of SampleArgs::probs; -1: as many as this row has before it
  int32_t token_cell = -1;  // of SampleArgs::token_cells, where the token goes too
};

struct SampleArgs {
  MatView logits;          // [rows, vocab] f32, not changed
  int32_t vocab_size = 0;  // columns at and beyond it are padding and never drawn
  std::span<const SampleRow> rows;
  std::span<int32_t> token;        // [rows.size()] out; -1: the row holds a NaN, a +Inf or nothing above -Inf
  int32_t* token_cells = nullptr;  // from alloc(); set: tokens go there, too
  const int32_t* ids = nullptr;  // [vocab_size] in the backend's memory: the token that a column stands for (a reduced
                                 // vocabulary); null: its number. Noise and `probs` go by columns
  bool later = false;            // `token` is complete after Backend::await_draws() and the caller's until then
  MatView probs;  // [.., vocab_size] f32 out, a row for each of `rows`: the very distribution drawn from (one-hot when
                  // greedy; unspecified where token is -1); data null: not wanted

  /// Of the distribution of rows[index].
  int32_t probs_row(size_t index) const { return rows[index].probs_row < 0 ? int32_t(index) : rows[index].probs_row; }
};

/// The most likely tokens of each row of logits under the softmax over the whole row, the first first; equal logits by
/// column. Complete when the call returns.
struct TopKArgs {
  MatView logits;                 // [m, vocab] f32, not changed
  int32_t vocab_size = 0;         // as in SampleArgs
  int32_t k = 1;                  // >= 1
  const int32_t* ids = nullptr;   // as in SampleArgs
  std::span<int32_t> token = {};  // [m * k] out; -1: no more logits above -Inf, or the row holds a NaN or a +Inf
  std::span<float> prob = {};     // [m * k] out; 0 for -1
};

enum class VerifyRule : uint8_t { greedy, rejection, coupled, block };

constexpr bool takes_only_chains(VerifyRule rule) { return rule == VerifyRule::block; }

/// How a proposer's tokens were drawn. dense: draft_prob holds one distribution per draft token.
enum class DraftProbKind : uint8_t { point_mass, shared_noise, dense };

/// One sequence's window: logits rows [logits_row, logits_row + draft_len] (draft_len + 1 of them). Row 0 is the
/// target's distribution for absolute position first_position, row j + 1 the one behind draft j: for the position
/// behind its own. Of a chain that is first_position + j + 1. With draft_len == 0 every rule is plain sampling: the
/// token that SampleRow{logits_row, params, NoisePurpose::target, first_position, 0} draws.
struct AcceptRow {
  int32_t logits_row = 0;
  int32_t draft_len = 0;
  const int32_t* draft = nullptr;   // [draft_len]; ids outside [0, vocab_size) are never kept
  const int32_t* parent = nullptr;  // [draft_len <= 64]: the draft before each, an index below its own, or -1;
                                    // siblings differ. Null: a chain. Not with takes_only_chains() rules
  DraftProbKind kind = DraftProbKind::point_mass;
  MatView draft_prob;          // dense: [rows, cols] f32, the very rows that `probs` of the sample op gave: one for the
                               // verified text and one for each draft with drafts behind it, in order (of a chain: one
                               // a draft). Drafts with one row were drawn one after another, each from what those
                               // before had left. Ids at and beyond cols (a smaller vocabulary) have probability 0
  int32_t first_position = 0;  // absolute position of the first draft of this step
  DrawParams params;
  VerifyRule rule = VerifyRule::greedy;  // rejection and block with greedy params behave as greedy
  int32_t token_cell = -1;               // of AcceptArgs::token_cells, where `next` goes too; only with draft_len 0
};

struct AcceptResult {
  int32_t num_accepted = 0;      // drafts kept: a prefix, of a tree a path from the root on
  int32_t next = 0;              // corrected (a draft was refused) or bonus token
  bool numerical_error = false;  // a NaN or +Inf logit, or all -Inf, in row num_accepted: `next` is -1. Rows behind
                                 // it were not looked at
  int32_t last = -1;             // the last draft kept; -1: none. Those before it are its parents
};

struct AcceptArgs {
  MatView logits;  // [rows, vocab] f32, not changed
  int32_t vocab_size = 0;
  std::span<const AcceptRow> rows;
  std::span<AcceptResult> result;  // [rows.size()] out
  int32_t* token_cells = nullptr;  // from alloc(); set: for rows that name one
  bool later = false;              // `result` is complete after Backend::await_draws(); all spans stay until then
};

inline uint64_t logit_bytes(uint64_t rows, int32_t vocab_size) { return rows * uint64_t(vocab_size) * sizeof(float); }
/// Bytes of the logits that a call cannot do without, each row once.
inline uint64_t logit_bytes(const SampleArgs& args) { return logit_bytes(args.rows.size(), args.vocab_size); }
/// Of accept, once the results stand: up to the row that decides; a block is looked at as a whole.
inline uint64_t logit_bytes(const TopKArgs& args) { return logit_bytes(uint64_t(args.logits.rows), args.vocab_size); }
inline uint64_t logit_bytes(const AcceptArgs& args) {
  uint64_t rows = 0;
  for (size_t i = 0; i < args.rows.size(); ++i) {
    const bool whole = args.rows[i].rule == VerifyRule::block && !args.rows[i].params.greedy();
    rows += uint64_t(whole ? args.rows[i].draft_len : args.result[i].num_accepted) + 1;
  }
  return logit_bytes(rows, args.vocab_size);
}

}  // namespace paceline
