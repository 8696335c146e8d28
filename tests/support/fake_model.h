#pragma once
// A Model without arithmetic: the logits of a row are pseudo-random in the row's whole token history, read back from
// the KV slots that the batch names. So every text is known beforehand, and a wrong page, position or stale state
// shows.

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "engine/speculation.h"
#include "engine/transformer/model.h"

namespace paceline::test {

/// lazy: a job runs when somebody waits for it or for a later one, as late as a device could. eager: at once.
enum class Completion : uint8_t { lazy, eager };

struct FakeModelOptions {
  int vocab_size = 23;
  int max_model_len = 128;
  int max_num_seqs = 16;
  int num_blocks = 64;
  int num_host_blocks = 0;
  int block_size = 4;
  uint64_t seed = 1;
  std::vector<int32_t> eos;
  int32_t poison = -1;  // a history with this token gives NaN logits
  Completion completion = Completion::lazy;
};

class FakeModel final : public Model {
 public:
  explicit FakeModel(const FakeModelOptions& options);

  const ModelSpec& spec() const override { return spec_; }
  int max_model_len() const override { return options_.max_model_len; }
  Ticket launch(std::shared_ptr<const Batch> batch) override;
  Ticket post(RankTeam::Job job) override;
  void wait(Ticket ticket) override;
  CommStats comm_stats() override { return {}; }
  Logits logits() const override { return logits_; }
  SeqState& state() override { return state_; }
  void move_kv(std::span<const SlotMove> moves) override;
  void swap_kv(std::span<const BlockSwap> swaps) override;

  /// The greedy text that follows `tokens`, without regard to any stop.
  std::vector<int32_t> greedy_text(std::vector<int32_t> tokens, int count) const;
  /// [vocab_size]: of the row behind `tokens`.
  std::vector<float> logits_behind(std::span<const int32_t> tokens) const;

  /// Every batch launched, and how many forward passes were waiting at most.
  const std::vector<std::shared_ptr<const Batch>>& batches() const { return batches_; }
  int max_pending() const { return max_pending_; }
  int64_t num_moves = 0;  // slots
  /// Batches launched and not yet run, oldest first.
  const std::deque<std::shared_ptr<const Batch>>& pending() const { return pending_; }

 private:
  struct Cell {
    int32_t position = -1;
    int32_t token = -1;
  };

  uint64_t extend(uint64_t history, int32_t token) const;
  float logit(uint64_t history, int32_t token) const;
  void forward(const Batch& batch);
  void check_state(const Batch& batch) const;

  const FakeModelOptions options_;
  ModelSpec spec_;
  SeqState state_;
  Rank rank_;
  std::vector<Cell> kv_;       // [slots]
  std::vector<Cell> host_kv_;  // likewise
  std::vector<float> logit_data_;
  Logits logits_;
  std::deque<RankTeam::Job> jobs_;
  uint64_t num_posted_ = 0;
  uint64_t num_done_ = 0;
  std::vector<std::shared_ptr<const Batch>> batches_;
  std::deque<std::shared_ptr<const Batch>> pending_;
  int max_pending_ = 0;
};

/// Proposes the model's own greedy text with some tokens made wrong: acceptance of every length occurs.
class FakeProposer final : public Proposer {
 public:
  struct Options {
    int wrong_per_mille = 250;
    int silent_per_mille = 100;  // proposals cut to nothing
    bool trees = false;          // with wrong siblings beside the text
  };
  FakeProposer(FakeModel& model, const Options& options) : model_(model), options_(options) {}
  std::string_view name() const override { return "fake"; }
  bool branches() const override { return options_.trees; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void end(const Sequence& seq) override { ended.push_back(seq.id); }
  void preempt(SeqId seq) override { preempted.push_back(seq); }
  void observe(const Sequence& seq, const Verdict& verdict) override {
    num_observed += verdict.num_drafts;
    PACELINE_CHECK(seq.tokens.back() == verdict.token.back(), "sequence {} has another end than its verdict", seq.id);
  }

  std::vector<SeqId> ended, preempted;
  std::map<SeqId, int64_t> keys;  // of requests that drafts were asked for
  int64_t num_observed = 0;       // drafts with a verdict
  int longest_asked = 0;

 private:
  std::vector<int32_t> drafts(SeqId seq, std::vector<int32_t> tokens, int max_len) const;
  DraftTree tree(SeqId seq, std::vector<int32_t> tokens, int max_nodes, int max_depth) const;

  FakeModel& model_;
  const Options options_;
};

}  // namespace paceline::test
