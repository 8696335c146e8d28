#pragma once
// What the logits of a sequence's rows are edited by: its parameters and the text so far. Each row of a window or a
// tree has the text of its own path, so a draft is judged by what plain decoding would find in its place.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/draft_tree.h"
#include "engine/sampling.h"
#include "kernels/logit_edits.h"

namespace paceline {

class SamplingPlan;

/// The edits of some rows of a step, as EditArgs has them.
struct LogitEdits {
  std::vector<EditRow> rows;
  std::vector<TokenEdit> edits;
  std::vector<uint32_t> masks;
  int32_t words_of_mask = 0;
  const SamplingPlan* shared_by = nullptr;  // whose shared edits lie at the newest row's first_shared

  bool empty() const { return rows.empty(); }
  EditArgs args(const MatView& logits, int32_t vocab_size) const {
    return {.logits = logits,
            .vocab_size = vocab_size,
            .rows = rows,
            .edits = edits,
            .masks = masks,
            .words_of_mask = words_of_mask};
  }
};

/// Of one sequence, for as long as it lives. A function of its parameters and its verified tokens, which it only ever
/// reads: a sequence that loses its KV or its slot keeps both. Threads: the engine's; steps in flight, whose jobs read
/// it, see it unchanged, since a sequence with a plan has one step in flight at most.
class SamplingPlan {
 public:
  /// ends: the model's eos ids. REQUIRES params that RequestLimits has checked.
  SamplingPlan(const SamplingParams& params, int num_prompt, std::span<const int32_t> ends, int vocab_size);

  /// The verified text with its prompt, which begins with what was followed before.
  void follow(std::span<const int32_t> text);
  int length() const { return int(text_.size()); }

  /// Adds edits of the row of logits that stands behind the text and `drafts`. Of a plan, rows that are added one after
  /// another share what they have in common.
  void add_row(std::span<const int32_t> drafts, int32_t logits_row, LogitEdits& to) const;
  /// The rows of a window: first_row behind the text, first_row + 1 + i behind node i.
  void add_window(const DraftTree& drafts, int32_t first_row, LogitEdits& to) const;
  /// `drafts` without those that the constraint forbids and what grows from them: rows that could keep nothing. For
  /// drafts that were looked up (DraftProbKind::point_mass), under every rule. A forbidden token has no probability in
  /// the target's row; looked up, it takes none from the others: it is refused for certain, and what is left to draw
  /// from is the row itself, as if it had not been there. A DRAWN draft must not be cut: that it was drawn is what the
  /// rest is weighed by, and the law would change.
  DraftTree allowed(const DraftTree& drafts) const;

 private:
  struct Known {
    float bias = 0.0f;
    int count = 0;         // in the output
    bool in_text = false;  // in prompt or output
  };

  bool counts() const;
  TokenEdit edit_of(int32_t token, const Known& known) const;
  Known& known_of(int32_t token);
  void note(int32_t token, bool is_output);
  std::vector<TokenEdit> own_edits(std::span<const int32_t> drafts, bool must_end) const;
  std::span<const int32_t> output() const { return std::span(text_).subspan(size_t(num_prompt_)); }
  bool is_early(std::span<const int32_t> drafts) const {
    return int(output().size() + drafts.size()) < params_.min_tokens;
  }
  /// Whether the text and then `drafts` end with `tokens`.
  bool ends_with(std::span<const int32_t> drafts, std::span<const int32_t> tokens) const;

  const SamplingParams params_;
  const int num_prompt_;
  const int32_t words_of_mask_;
  std::vector<int32_t> early_ends_;  // that min_tokens forbids
  std::vector<int32_t> text_;
  // of tokens for which something is done whatever a row's path is
  std::vector<Known> known_;
  std::vector<TokenEdit> shared_;              // of each of `known_`
  std::unordered_map<int32_t, size_t> place_;  // in both
};

}  // namespace paceline
