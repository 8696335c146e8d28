#include "speculative/selftest/sabotage.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

namespace paceline {
namespace {

/// Passes everything on; launch() may change a copy of the batch.
class ModelDecorator : public Model {
 public:
  ModelDecorator(Model& inner, int64_t& strikes) : inner_(inner), strikes_(strikes) {}
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
  Taps taps() const override { return inner_.taps(); }
  void use_taps(bool are_used) override { inner_.use_taps(are_used); }
  SeqState& state() override { return inner_.state(); }
  void move_kv(std::span<const SlotMove> moves) override { inner_.move_kv(moves); }
  void swap_kv(std::span<const BlockSwap> swaps) override { inner_.swap_kv(swaps); }

 protected:
  virtual void change(Batch&) {}
  Model& inner() const { return inner_; }
  void strike() { ++strikes_; }

 private:
  Model& inner_;
  int64_t& strikes_;
};

/// Passes everything on; verdicts may be changed, by the drafts that they are about.
class VerifierDecorator : public Verifier {
 public:
  VerifierDecorator(std::unique_ptr<Verifier> inner, int64_t& strikes) : inner_(std::move(inner)), strikes_(strikes) {}
  std::string_view rule_name() const override { return inner_->rule_name(); }
  bool takes_branches() const override { return inner_->takes_branches(); }
  Ticket launch(std::shared_ptr<const Batch> batch, Model& target, std::vector<VerifyRow> rows) override {
    std::vector<DraftTree> drafts;
    for (VerifyRow& row : rows) {
      change(row);
      drafts.push_back(row.proposal.draft);
    }
    under_way_.push_back(std::move(drafts));
    return inner_->launch(std::move(batch), target, std::move(rows));
  }
  std::vector<Verdict> collect(Ticket ticket) override {
    std::vector<Verdict> verdicts = inner_->collect(ticket);
    for (size_t i = 0; i < verdicts.size(); ++i) change(verdicts[i], under_way_.front()[i]);
    under_way_.pop_front();
    return verdicts;
  }
  double seconds() const override { return inner_->seconds(); }

 protected:
  virtual void change(VerifyRow&) {}
  virtual void change(Verdict&, const DraftTree&) {}
  void strike() { ++strikes_; }

 private:
  std::unique_ptr<Verifier> inner_;
  int64_t& strikes_;
  std::deque<std::vector<DraftTree>> under_way_;
};

/// Passes everything on; rows of verdicts may be changed.
class HeadDecorator : public Eagle3Model {
 public:
  HeadDecorator(Eagle3Model& inner, int64_t& strikes) : inner_(inner), strikes_(strikes) {}
  const Eagle3Options& options() const override { return inner_.options(); }
  int max_position() const override { return inner_.max_position(); }
  void take_features(uint64_t step, std::shared_ptr<const Eagle3Rows> rows) override {
    inner_.take_features(step, std::move(rows));
  }
  void keep(std::span<const int32_t> from, std::span<const int32_t> to) override { inner_.keep(from, to); }
  void extend(const Eagle3Rows& rows, std::span<const int32_t> last_row, std::span<const int32_t> seq_slot) override {
    Eagle3Rows changed = rows;
    std::vector<int32_t> last(last_row.begin(), last_row.end());
    change(changed, last);
    inner_.extend(changed, last, seq_slot);
  }
  void draft(std::span<const int32_t> seq_slot, std::span<const int> num_drafts, std::span<const Eagle3Rows> rows,
             std::span<const SamplingPlan* const> plan, std::span<int32_t> token) override {
    inner_.draft(seq_slot, num_drafts, rows, plan, token);
  }
  void await_drafts() override { inner_.await_drafts(); }
  void draft_level(std::span<const int32_t> from, const Eagle3Rows& rows, const LogitEdits& edits, int width,
                   std::span<int32_t> token, std::span<float> prob) override {
    inner_.draft_level(from, rows, edits, width, token, prob);
  }
  void swap_kv(std::span<const BlockSwap> swaps) override { inner_.swap_kv(swaps); }
  std::vector<float> newest_logits() override { return inner_.newest_logits(); }

 protected:
  virtual void change(Eagle3Rows&, std::vector<int32_t>& /*last_row*/) = 0;
  void strike() { ++strikes_; }

 private:
  Eagle3Model& inner_;
  int64_t& strikes_;
};

int first_draft(const SeqRows& seq) { return seq.first_row + seq.num_rows - seq.num_drafts; }
int end_of(const SeqRows& seq) { return seq.first_row + seq.num_rows; }

// --- seen in the text ------------------------------------------------------------------------------------------------

class UnverifiedFirst final : public VerifierDecorator {
  using VerifierDecorator::VerifierDecorator;
  void change(Verdict& verdict, const DraftTree& drafts) override {
    if (drafts.empty() || !verdict.path.empty()) return;
    verdict.token.front() = drafts.token.front();
    strike();
  }
};

class BonusOffByOne final : public ModelDecorator {
  using ModelDecorator::ModelDecorator;
  void change(Batch& batch) override {
    for (const SeqRows& seq : batch.seqs) {
      if (seq.num_drafts == 0) continue;
      for (int32_t& row : batch.logit_row) {
        if (row != end_of(seq) - 1) continue;
        --row;
        strike();
      }
    }
  }
};

class SiblingLeak final : public ModelDecorator {
  using ModelDecorator::ModelDecorator;
  void change(Batch& batch) override {
    if (batch.parent.empty()) return;
    for (const SeqRows& seq : batch.seqs) {
      for (int row = first_draft(seq); row < end_of(seq); ++row) {
        int32_t& parent = batch.parent[size_t(row)];
        if (parent < first_draft(seq)) continue;
        for (int other = parent - 1; other >= first_draft(seq); --other) {
          if (batch.parent[size_t(other)] != batch.parent[size_t(parent)]) continue;
          parent = other;
          strike();
          break;
        }
      }
    }
  }
};

class WrongPathCommit final : public VerifierDecorator {
  using VerifierDecorator::VerifierDecorator;
  void change(Verdict& verdict, const DraftTree& drafts) override {
    if (verdict.path.empty()) return;
    const std::vector<int32_t> depth = drafts.depths();
    int32_t& last = verdict.path.back();
    for (int32_t node = 0; node < drafts.size(); ++node) {
      if (node == last || depth[size_t(node)] != depth[size_t(last)]) continue;
      last = node;
      strike();
      return;
    }
  }
};

class SkippedMove final : public ModelDecorator {
  using ModelDecorator::ModelDecorator;
  void move_kv(std::span<const SlotMove>) override { strike(); }
};

class MoveAfterSwap final : public ModelDecorator {
 public:
  using ModelDecorator::ModelDecorator;
  void move_kv(std::span<const SlotMove> moves) override { late_.insert(late_.end(), moves.begin(), moves.end()); }
  void swap_kv(std::span<const BlockSwap> swaps) override {
    for (const SlotMove& move : late_) {
      const bool too_late = std::any_of(swaps.begin(), swaps.end(), [&](const BlockSwap& swap) {
        return swap.to_host && move.to / kBlockSize == swap.block;
      });
      if (too_late) strike();
    }
    inner().swap_kv(swaps);
    flush();
  }

 private:
  void change(Batch&) override { flush(); }
  void flush() {
    if (!late_.empty()) inner().move_kv(late_);
    late_.clear();
  }

  static constexpr int kBlockSize = 16;  // EngineRig
  std::vector<SlotMove> late_;
};

class PoisonedPrefixBlock final : public ModelDecorator {
  using ModelDecorator::ModelDecorator;
  void change(Batch& batch) override {
    for (const SeqRows& seq : batch.seqs) {
      if (seq.seq < 0 || seq.deferred) continue;
      for (int row = seq.first_row; row < first_draft(seq); ++row) {
        if (batch.position[size_t(row)] % 16 != 5 || seq.num_rows < 16) continue;
        batch.token[size_t(row)] ^= 1;
        strike();
      }
    }
  }
};

class RollbackByOne final : public ModelDecorator {
  using ModelDecorator::ModelDecorator;
  void change(Batch& batch) override {
    for (const SeqRows& seq : batch.seqs) {
      if (seq.seq < 0) continue;
      for (int row = seq.first_row; row < end_of(seq); ++row) {
        int32_t& slot = batch.slot[size_t(row)];
        const auto written = drafted_.find(slot);
        const bool is_draft = row >= first_draft(seq);
        if (!is_draft && seq.num_rows - seq.num_drafts == 1 && written != drafted_.end() &&
            written->second != batch.token[size_t(row)]) {
          drafted_.erase(written);
          slot = -1;
          strike();
        } else if (is_draft) {
          drafted_[slot] = batch.token[size_t(row)];
        } else {
          drafted_.erase(slot);
        }
      }
    }
  }

  std::unordered_map<int32_t, int32_t> drafted_;  // KV slot -> draft token whose row lies there
};

class SlotBehindABoundary final : public ModelDecorator {
  using ModelDecorator::ModelDecorator;
  void change(Batch& batch) override {
    for (const SeqRows& seq : batch.seqs) {
      for (int row = first_draft(seq); row < end_of(seq); ++row) {
        if (batch.position[size_t(row)] % 16 != 0) continue;
        ++batch.slot[size_t(row)];
        strike();
      }
    }
  }
};

class ShiftedNoise final : public VerifierDecorator {
  using VerifierDecorator::VerifierDecorator;
  void change(VerifyRow& row) override {
    if (row.proposal.draft.empty()) return;
    ++row.sampler.seed;
    strike();
  }
};

// --- seen in drafts alone --------------------------------------------------------------------------------------------

class StaleDraftKv final : public ModelDecorator {
  using ModelDecorator::ModelDecorator;
  void change(Batch& batch) override {
    for (const SeqRows& seq : batch.seqs) {
      if (seq.deferred || seq.num_rows != 2 || seq.num_drafts > 0) continue;
      batch.slot[size_t(seq.first_row)] = -1;
      strike();
    }
  }
};

class FeatureOffByOne final : public HeadDecorator {
  using HeadDecorator::HeadDecorator;
  void change(Eagle3Rows& rows, std::vector<int32_t>&) override {
    for (int32_t& feature : rows.feature) {
      if (feature == 0) continue;
      --feature;
      strike();
    }
  }
};

class RowsNotRedone final : public HeadDecorator {
  using HeadDecorator::HeadDecorator;
  void change(Eagle3Rows& rows, std::vector<int32_t>& last_row) override {
    Eagle3Rows last;
    for (const SeqSpan& seq : rows.seqs) {
      const size_t end = &seq == &rows.seqs.back() ? rows.block.size() : size_t((&seq + 1)->block_begin);
      last.begin_sequence(std::span(rows.block).subspan(size_t(seq.block_begin), end - size_t(seq.block_begin)));
      const size_t row = size_t(seq.first_row + seq.num_rows - 1);
      last.add(rows.token[row], rows.position[row], rows.slot[row], rows.feature[row]);
      if (seq.num_rows > 1) strike();
    }
    rows = std::move(last);
    for (size_t i = 0; i < last_row.size(); ++i) last_row[i] = int32_t(i);
  }
};

template <class Fault>
void wrap_target(Plant& plant) {
  plant.setup.target = &plant.put<Fault>(plant.rig.target(), plant.num_strikes);
}

template <class Fault>
void wrap_draft(Plant& plant) {
  const auto model =
      std::shared_ptr<Model>(plant.rig.new_draft_model(plant.setup.proposer, DraftPlacement::deciding_rank));
  plant.parts.push_back(model);
  plant.setup.draft = &plant.put<Fault>(*model, plant.num_strikes);
}

template <class Fault>
void wrap_verifier(Plant& plant) {
  plant.setup.wrap_verifier = [&plant](std::unique_ptr<Verifier> inner) {
    return std::make_unique<Fault>(std::move(inner), plant.num_strikes);
  };
}

template <class Fault>
void wrap_head(Plant& plant) {
  plant.setup.head = &plant.put<Fault>(plant.rig.head(), plant.num_strikes);
}

void put_head(Plant& plant, const std::function<void(Eagle3Spec&, Eagle3Options&)>& change) {
  const auto head = std::shared_ptr<Eagle3Model>(plant.rig.new_head(change));
  plant.parts.push_back(head);
  plant.setup.head = head.get();
  ++plant.num_strikes;
}

void plant_wrong_tap(Plant& plant) {
  put_head(plant, [](Eagle3Spec&, Eagle3Options& options) {
    std::rotate(options.tap_index.begin(), options.tap_index.begin() + 1, options.tap_index.end());
  });
}

void plant_shifted_ids(Plant& plant) {
  put_head(plant, [](Eagle3Spec& spec, Eagle3Options&) {
    if (spec.ids.empty())
      for (int32_t id = 0; id < spec.draft_vocab_size; ++id) spec.ids.push_back(id);
    std::rotate(spec.ids.begin(), spec.ids.begin() + 1, spec.ids.end());
  });
}

}  // namespace

const std::vector<Sabotage>& sabotages() {
  using enum SelfTestSetting;
  using enum SeenBy;
  static const std::vector<Sabotage> kAll = {
      {"unverified-first",
       "the first draft is emitted, refused or not",
       text,
       draft_chain,
       {},
       wrap_verifier<UnverifiedFirst>},
      {"bonus-off-by-one",
       "behind the last draft the logits of the row before are taken",
       text,
       draft_chain,
       {},
       wrap_target<BonusOffByOne>},
      {"rollback-by-one",
       "the KV row of a refused draft stays where the corrected token's belongs",
       text,
       draft_chain,
       {},
       wrap_target<RollbackByOne>},
      {"slot-behind-boundary",
       "the first draft of a page lies one slot too far",
       text,
       draft_chain,
       {},
       wrap_target<SlotBehindABoundary>},
      {"shifted-noise", "a step with drafts is judged with another request's noise", text, draft_chain,
       "greedy decoding draws no noise", wrap_verifier<ShiftedNoise>},
      {"sibling-leak", "a draft sees its parent's sibling", text, head_tree, {}, wrap_target<SiblingLeak>},
      {"wrong-path-commit",
       "another node of the last kept level is committed",
       text,
       head_tree,
       {},
       wrap_verifier<WrongPathCommit>},
      {"skipped-move", "kept nodes stay where the tree had them", text, head_tree, {}, wrap_target<SkippedMove>},
      {"move-after-swap",
       "kept nodes move after their page was copied to the host",
       text,
       head_tree_swapping,
       {},
       wrap_target<MoveAfterSwap>},
      {"poisoned-prefix",
       "a row of a shared block has another token's KV",
       text,
       shared_prefixes,
       {},
       wrap_target<PoisonedPrefixBlock>},
      {"stale-draft-kv",
       "the draft model lacks the row of the last kept draft",
       drafts,
       draft_chain,
       {},
       wrap_draft<StaleDraftKv>},
      {"skipped-draft-move",
       "kept nodes of the draft model's tree stay where they were",
       drafts,
       draft_tree,
       {},
       wrap_draft<SkippedMove>},
      {"feature-off-by-one",
       "the head reads the features of the row before",
       drafts,
       head_chain,
       {},
       wrap_head<FeatureOffByOne>},
      {"rows-not-redone",
       "kept drafts keep the head's own guess in place of the target's states",
       drafts,
       head_chain,
       {},
       wrap_head<RowsNotRedone>},
      {"wrong-tap", "the head's taps change places", drafts, head_chain, {}, plant_wrong_tap},
      {"shifted-d2t",
       "each id of the head's vocabulary stands for its neighbour",
       drafts,
       head_chain,
       {},
       plant_shifted_ids},
  };
  return kAll;
}

Eagle3DraftOptions head_options_of(SelfTestSetting setting) {
  return setting == SelfTestSetting::head_chain ? Eagle3DraftOptions{} : Eagle3DraftOptions{.width = 3, .depth = 4};
}

EngineSetup setup_of(SelfTestSetting setting, VerifyRule rule, int blocks, const EngineRig& rig) {
  EngineSetup setup{.rule = rule, .max_num_seqs = 4, .max_num_batched_tokens = 128};
  switch (setting) {
    case SelfTestSetting::draft_chain:
    case SelfTestSetting::draft_tree:
      setup.proposer = RigProposer::draft;
      setup.num_speculative_tokens = setting == SelfTestSetting::draft_tree ? 8 : 4;
      if (setting == SelfTestSetting::draft_tree) setup.proposer_options = DraftModelOptions{.width = 3, .depth = 4};
      break;
    case SelfTestSetting::head_chain:
    case SelfTestSetting::head_tree:
    case SelfTestSetting::head_tree_swapping:
      setup.proposer = RigProposer::eagle3;
      setup.proposer_options = head_options_of(setting);
      setup.num_speculative_tokens = setting == SelfTestSetting::head_chain ? 4 : 8;
      break;
    case SelfTestSetting::shared_prefixes:
      setup.proposer = RigProposer::ngram;
      setup.num_speculative_tokens = 4;
      setup.prefix_caching = PrefixCaching::on;
      break;
  }
  if (setting == SelfTestSetting::head_tree_swapping) {
    setup.max_num_seqs = 8;
    setup.num_blocks = std::min(blocks, rig.options().num_blocks);
    setup.num_host_blocks = rig.options().num_host_blocks;
  }
  return setup;
}

}  // namespace paceline
