#pragma once
// An EAGLE-3 head as its proposer sees it: passes over rows, wherever they run.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/comm/rank_team.h"
#include "engine/sampling_plan.h"
#include "engine/transformer/model.h"
#include "speculative/eagle3_pass.h"
#include "speculative/eagle3_weights.h"

namespace paceline {

/// Threads: the engine's. Each call gives out work to the deciding rank, behind what was given out before.
class Eagle3Model {
 public:
  virtual ~Eagle3Model() = default;
  virtual const Eagle3Options& options() const = 0;
  /// Positions that the head knows.
  virtual int max_position() const = 0;

  /// Behind the pass that the target was given last: see Eagle3Head::take_features.
  virtual void take_features(uint64_t step, std::shared_ptr<const Eagle3Rows> rows) = 0;
  /// See Eagle3Head. At once, ahead of passes of the target that wait.
  virtual void keep(std::span<const int32_t> from, std::span<const int32_t> to) = 0;
  virtual void extend(const Eagle3Rows& rows, std::span<const int32_t> last_row, std::span<const int32_t> seq_slot) = 0;
  virtual void draft(std::span<const int32_t> seq_slot, std::span<const int> num_drafts,
                     std::span<const Eagle3Rows> rows, std::span<const SamplingPlan* const> plan,
                     std::span<int32_t> token) = 0;
  virtual void await_drafts() = 0;
  virtual void draft_level(std::span<const int32_t> from, const Eagle3Rows& rows, const LogitEdits& edits, int width,
                           std::span<int32_t> token, std::span<float> prob) = 0;
  virtual void swap_kv(std::span<const BlockSwap> swaps) = 0;

  /// Of the newest drafts: logits of the last pass, [rows, draft_vocab_size], for tests.
  virtual std::vector<float> newest_logits() = 0;
};

/// Loads `source`, which `spec` describes, onto the deciding rank of `team`. `target`: the model whose taps
/// options.tap_index names. Both outlive the head. Throws as load_eagle3_weights does.
std::unique_ptr<Eagle3Model> make_eagle3_model(const TensorSource& source, const Eagle3Spec& spec,
                                               const Eagle3Target& from, DType dtype, const Eagle3Options& options,
                                               Model& target, RankTeam& team);

/// The layers that `target` must tap for all of `heads`; and the places of one head's taps among them.
std::vector<int> taps_of(std::span<const Eagle3Spec> heads);
std::vector<int> tap_index(const Eagle3Spec& head, std::span<const int> taps);

}  // namespace paceline
