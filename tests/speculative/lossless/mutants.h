#pragma once
// Planted off-by-ones, as decorators of the engine's seams: what the losslessness checks must catch.

#include <memory>
#include <unordered_map>

#include "engine/speculation.h"

namespace paceline::test {

/// Passes everything on; launch() may change a copy of the batch.
class ModelDecorator : public Model {
 public:
  explicit ModelDecorator(Model& inner) : inner_(inner) {}
  const ModelSpec& spec() const override { return inner_.spec(); }
  int max_model_len() const override { return inner_.max_model_len(); }
  Ticket launch(std::shared_ptr<const Batch> batch) override {
    auto changed = std::make_shared<Batch>(*batch);
    change(*changed);
    return inner_.launch(std::move(changed));
  }
  Ticket post(RankTeam::Job job) override { return inner_.post(std::move(job)); }
  void wait(Ticket ticket) override { inner_.wait(ticket); }
  CommStats comm_stats() override { return inner_.comm_stats(); }
  Logits logits() const override { return inner_.logits(); }
  SeqState& state() override { return inner_.state(); }
  void move_kv(std::span<const SlotMove> moves) override { inner_.move_kv(moves); }
  void swap_kv(std::span<const BlockSwap> swaps) override { inner_.swap_kv(swaps); }

  int64_t num_changes() const { return num_changes_; }

 protected:
  virtual void change(Batch& batch) = 0;
  int64_t num_changes_ = 0;

 private:
  Model& inner_;
};

/// Changes nothing: a mutant test that fails on it proves nothing.
class UnchangedModel final : public ModelDecorator {
 public:
  using ModelDecorator::ModelDecorator;

 protected:
  void change(Batch&) override { ++num_changes_; }
};

/// Rollback: the KV row of the first rejected draft stays where the corrected token's belongs.
class KeepsRejectedRow final : public ModelDecorator {
 public:
  using ModelDecorator::ModelDecorator;

 protected:
  void change(Batch& batch) override {
    for (const SeqRows& seq : batch.seqs) {
      if (seq.seq < 0) continue;
      for (int row = seq.first_row; row < seq.first_row + seq.num_rows; ++row) {
        const bool draft = row >= seq.first_row + seq.num_rows - seq.num_drafts;
        int32_t& slot = batch.slot[size_t(row)];
        const auto written = drafted_.find(slot);
        if (!draft && seq.num_rows - seq.num_drafts == 1 && written != drafted_.end() &&
            written->second != batch.token[size_t(row)]) {
          drafted_.erase(written);
          slot = -1;
          ++num_changes_;
        } else if (draft) {
          drafted_[slot] = batch.token[size_t(row)];
        } else {
          drafted_.erase(slot);
        }
      }
    }
  }

 private:
  std::unordered_map<int32_t, int32_t> drafted_;  // KV slot -> draft token whose row lies there
};

/// Bonus position: after the last draft, the logits of the row before it are taken.
class BonusFromPreviousRow final : public ModelDecorator {
 public:
  using ModelDecorator::ModelDecorator;

 protected:
  void change(Batch& batch) override {
    for (const SeqRows& seq : batch.seqs) {
      if (seq.num_drafts == 0) continue;
      const int last_row = seq.first_row + seq.num_rows - 1;
      for (int32_t& row : batch.logit_row) {
        if (row == last_row) --row, ++num_changes_;
      }
    }
  }
};

/// Block boundary: the first draft row of a new page goes one slot too far.
class WrongSlotAfterBoundary final : public ModelDecorator {
 public:
  WrongSlotAfterBoundary(Model& inner, int block_size) : ModelDecorator(inner), block_size_(block_size) {}

 protected:
  void change(Batch& batch) override {
    for (const SeqRows& seq : batch.seqs) {
      for (int row = seq.first_row + seq.num_rows - seq.num_drafts; row < seq.first_row + seq.num_rows; ++row) {
        if (batch.position[size_t(row)] % block_size_ == 0) ++batch.slot[size_t(row)], ++num_changes_;
      }
    }
  }

 private:
  const int block_size_;
};

/// Draft-cache refill: after a full acceptance the draft's next pass has two rows; the first is not stored.
class LosesRefillRow final : public ModelDecorator {
 public:
  using ModelDecorator::ModelDecorator;

 protected:
  void change(Batch& batch) override {
    for (const SeqRows& seq : batch.seqs) {
      if (!seq.deferred && seq.num_rows == 2) batch.slot[size_t(seq.first_row)] = -1, ++num_changes_;
    }
  }
};

/// Rollback in the books: a rejected row is counted as kept.
class CommitsRejectedRow final : public Verifier {
 public:
  explicit CommitsRejectedRow(std::unique_ptr<Verifier> inner) : inner_(std::move(inner)) {}
  bool lossless() const override { return inner_->lossless(); }
  std::string_view rule_name() const override { return inner_->rule_name(); }
  Ticket launch(std::shared_ptr<const Batch> batch, Model& target, std::vector<VerifyRow> rows) override {
    return inner_->launch(std::move(batch), target, std::move(rows));
  }
  std::vector<Verdict> collect(Ticket ticket) override {
    auto verdicts = inner_->collect(ticket);
    for (Verdict& verdict : verdicts) {
      if (int(verdict.path.size()) < verdict.num_drafts) verdict.path.push_back(int32_t(verdict.path.size()));
    }
    return verdicts;
  }
  double seconds() const override { return inner_->seconds(); }

 private:
  std::unique_ptr<Verifier> inner_;
};

}  // namespace paceline::test
