#pragma once
// A transformer spread over ranks. Target and draft are two of these.

#include <memory>
#include <span>

#include "engine/batch.h"
#include "engine/comm/rank_team.h"
#include "engine/model/model_spec.h"
#include "engine/transformer/seq_state.h"

namespace paceline {

/// Number of a job in the deciding rank's FIFO.
struct Ticket {
  uint64_t job = 0;
};

/// Next-token logits on the deciding rank, one row per Batch::logit_row.
struct Logits {
  MatView rows;        // [num_logit_rows, >= vocab_size] f32
  int vocab_size = 0;  // columns beyond are padding
};

/// The residual that enters the layers of TransformerOptions::taps, before any norm, for all rows of a batch. EAGLE-3
/// drafts from it (Li et al. 2025, section 3.1).
struct Taps {
  MatView rows;  // [number of taps * num_rows, hidden_size] f32, tap after tap; data null: none were asked for
  int32_t num_rows = 0;

  MatView tap(int index) const { return rows.row_range(index * num_rows, num_rows); }
};

/// Threads: launch from the engine's thread. logits(), taps() and state() belong to the deciding rank's stream: they
/// may be used only inside jobs posted to it, and logits() and taps() are valid from a launch's forward pass to the
/// next one.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelSpec& spec() const = 0;
  virtual int max_model_len() const = 0;

  /// Runs the batch on every rank, in stream order. The batch stays untouched and alive until then.
  virtual Ticket launch(std::shared_ptr<const Batch> batch) = 0;

  /// Appends a job to the deciding rank's stream.
  virtual Ticket post(RankTeam::Job job) = 0;

  /// Completes the deciding rank's stream up to the ticket.
  virtual void wait(Ticket ticket) = 0;

  /// Of the deciding rank, all its groups together. Only while its stream is drained.
  virtual CommStats comm_stats() = 0;

  virtual Logits logits() const = 0;
  virtual Taps taps() const { return {}; }
  /// From the next launch on: whether taps() are made. They are at first, where the model has any.
  virtual void use_taps(bool /*are_used*/) {}
  virtual SeqState& state() = 0;

  /// Copies KV between slots on every rank, in stream order (tree verification, compaction).
  virtual void move_kv(std::span<const SlotMove> moves) = 0;

  /// Copies KV blocks between every rank's pages and its host memory, in stream order.
  virtual void swap_kv(std::span<const BlockSwap> swaps) = 0;
};

}  // namespace paceline
