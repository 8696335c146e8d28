#include "speculative/eagle3_model.h"

#include <algorithm>

#include "speculative/eagle3_head.h"

namespace paceline {
namespace {

class HeadOnDecidingRank final : public Eagle3Model {
 public:
  HeadOnDecidingRank(std::shared_ptr<Eagle3Head> head, RankTeam& team) : head_(std::move(head)), team_(team) {}

  const Eagle3Options& options() const override { return head_->options(); }
  int max_position() const override { return head_->spec().max_position; }

  void take_features(uint64_t step, std::shared_ptr<const Eagle3Rows> rows) override {
    team_.post(team_.deciding_rank(),
               [head = head_, step, rows = std::move(rows)](Rank&) { head->take_features(step, *rows); });
  }
  void keep(std::span<const int32_t> from, std::span<const int32_t> to) override {
    team_.run_inline([&](Rank&) { head_->keep(from, to); });
  }
  void extend(const Eagle3Rows& rows, std::span<const int32_t> last_row, std::span<const int32_t> seq_slot) override {
    team_.run_inline([&](Rank&) { head_->extend(rows, last_row, seq_slot); });
  }
  void draft(std::span<const int32_t> seq_slot, std::span<const int> num_drafts, std::span<const Eagle3Rows> rows,
             std::span<const SamplingPlan* const> plan, std::span<int32_t> token) override {
    team_.run_inline([&](Rank&) { head_->draft(seq_slot, num_drafts, rows, plan, token); });
  }
  void await_drafts() override {
    team_.run_inline([&](Rank&) { head_->await_drafts(); });
  }
  void draft_level(std::span<const int32_t> from, const Eagle3Rows& rows, const LogitEdits& edits, int width,
                   std::span<int32_t> token, std::span<float> prob) override {
    team_.run_inline([&](Rank&) { head_->draft_level(from, rows, edits, width, token, prob); });
  }
  void swap_kv(std::span<const BlockSwap> swaps) override {
    team_.run_inline([&](Rank&) { head_->swap_kv(swaps); });
  }
  std::vector<float> newest_logits() override {
    std::vector<float> logits;
    team_.run_inline([&](Rank& rank) {
      const MatView& rows = head_->logits();
      logits = download_rows(*rank.backend, rows, rows.cols);
    });
    return logits;
  }

 private:
  const std::shared_ptr<Eagle3Head> head_;  // jobs in flight hold a share
  RankTeam& team_;
};

}  // namespace

std::unique_ptr<Eagle3Model> make_eagle3_model(const TensorSource& source, const Eagle3Spec& spec,
                                               const Eagle3Target& from, DType dtype, const Eagle3Options& options,
                                               Model& target, RankTeam& team) {
  std::shared_ptr<Eagle3Head> head;
  team.run_on_all([&](Rank& rank) {
    if (rank.index != team.deciding_rank()) return;
    head = std::make_shared<Eagle3Head>(spec, load_eagle3_weights(source, spec, from, dtype, *rank.backend), options,
                                        target, rank);
  });
  return std::make_unique<HeadOnDecidingRank>(std::move(head), team);
}

std::vector<int> taps_of(std::span<const Eagle3Spec> heads) {
  std::vector<int> taps;
  for (const Eagle3Spec& head : heads) taps.insert(taps.end(), head.taps.begin(), head.taps.end());
  std::sort(taps.begin(), taps.end());
  taps.erase(std::unique(taps.begin(), taps.end()), taps.end());
  return taps;
}

std::vector<int> tap_index(const Eagle3Spec& head, std::span<const int> taps) {
  std::vector<int> index;
  for (const int tap : head.taps) index.push_back(int(std::lower_bound(taps.begin(), taps.end(), tap) - taps.begin()));
  return index;
}

}  // namespace paceline
