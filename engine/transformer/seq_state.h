#pragma once
// What step n + 1 needs from step n, kept where the model runs, so that the host may launch ahead.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/batch.h"
#include "engine/draft_tree.h"

namespace paceline {

/// One sequence on one rank. Tokens are known for positions [0, length); their KV is valid for [0, cached).
/// The ring keeps the last tokens: a window, the token before it and the bonus token.
struct SeqSlot {
  static constexpr int kRing = 2 * kMaxDraftLen;
  uint64_t step = 0;   // last step whose outcome is in here
  uint64_t since = 0;  // steps behind this one are the sequence's
  int32_t length = 0;
  int32_t cached = 0;
  uint64_t paths = 0;                 // SeqCommit::paths
  std::array<int32_t, kRing> ring{};  // token of position p at p % kRing

  int32_t token_at(int position) const { return ring[size_t(position % kRing)]; }
  void put_token(int position, int32_t token) { ring[size_t(position % kRing)] = token; }
};

/// All sequences of one model on one rank; indexed by SeqRows::seq. Used on the rank's thread only.
class SeqState {
 public:
  /// cells: as in cells().
  explicit SeqState(int num_slots, int32_t* cells = nullptr) : slots_(size_t(num_slots)), cells_(cells) {}
  int num_slots() const { return int(slots_.size()); }
  /// A token a slot in the backend's memory. What a draw leaves there may stand in the ring as token_in_cell(slot), for
  /// the step behind it. Null where other ranks need the token, too.
  int32_t* cells() const { return cells_; }
  SeqSlot& operator[](int32_t slot) { return slots_[size_t(slot)]; }
  const SeqSlot& operator[](int32_t slot) const { return slots_[size_t(slot)]; }

  /// A sequence new to its slot.
  void reset(const SeqCommit& state, uint64_t step) {
    SeqSlot& mine = slots_[size_t(state.seq)];
    mine.step = mine.since = step;
    mine.length = state.length;
    mine.cached = state.cached;
    mine.paths = state.paths;
    mine.put_token(state.length - 1, state.last_token);
  }

  /// `num_rows` rows whose tokens were known have gone through the model.
  void advance(int32_t slot, int num_rows, uint64_t step) {
    slots_[size_t(slot)].cached += num_rows;
    slots_[size_t(slot)].step = step;
  }

  /// What was decided elsewhere; ignored when this rank has that step's outcome already.
  void apply(const SeqDecision& decision) {
    SeqSlot& mine = slots_[size_t(decision.seq)];
    if (decision.step <= mine.step) return;
    mine.step = decision.step;
    mine.cached += decision.kept_rows;
    mine.length += decision.num_emitted;
    mine.paths = mix_path(mine.paths, decision.path);
    mine.put_token(mine.length - 1, decision.next);
  }

  /// The host has learnt a token of `step` that lay in the slot's cell; ignored when the slot has gone to another
  /// sequence.
  void learn(int32_t slot, int32_t position, int32_t token, uint64_t step) {
    SeqSlot& mine = slots_[size_t(slot)];
    if (step > mine.since) mine.put_token(position, token);
  }

  /// A verdict of `step`: of its rows, `known_rows` held known tokens and the rest drafts; of these `num_accepted` are
  /// kept, with the tokens `drafts` in the order of the text, and `next` follows them. path: as in SeqDecision.
  void accept(int32_t slot, int known_rows, const int32_t* drafts, int num_accepted, int32_t next, uint64_t step,
              std::span<const int32_t> path = {}) {
    SeqSlot& mine = slots_[size_t(slot)];
    mine.step = step;
    mine.cached += known_rows + num_accepted;
    for (int i = 0; i < num_accepted; ++i) mine.put_token(mine.length + i, drafts[i]);
    mine.put_token(mine.length + num_accepted, next);
    mine.length += num_accepted + 1;
    mine.paths = mix_path(mine.paths, path);
  }

 private:
  std::vector<SeqSlot> slots_;
  int32_t* cells_;
};

}  // namespace paceline
