// The certificate of fast numerics over engines that run: a target whose logits depend on how many rows a pass has is
// planted over the CPU backend, which has strict numerics only.

#include <gtest/gtest.h>

#include "experiments/analysis/outputs/certificate.h"
#include "experiments/run/measure/target_logits.h"
#include "experiments/workload/request_sampling.h"
#include "speculative/selftest/engine_rig.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

/// Passes of kFewestFastRows and more move each logit by up to `amplitude`, as a function of token and position.
class RowNoiseModel final : public Model {
 public:
  RowNoiseModel(Model& inner, float amplitude) : inner_(inner), amplitude_(amplitude) {}

  const ModelSpec& spec() const override { return inner_.spec(); }
  int max_model_len() const override { return inner_.max_model_len(); }
  Ticket launch(std::shared_ptr<const Batch> batch) override {
    const Ticket ticket = inner_.launch(batch);
    if (batch->num_rows() < kFewestFastRows || batch->logit_row.empty()) return ticket;
    ++num_moved_;
    return inner_.post([this, batch](Rank&) {
      const Logits logits = inner_.logits();
      for (size_t row = 0; row < batch->logit_row.size(); ++row) {
        float* const values = logits.rows.f32_row(int32_t(row));
        const auto position = uint32_t(batch->position[size_t(batch->logit_row[row])]);
        for (uint32_t token = 0; token < uint32_t(logits.vocab_size); ++token)
          values[token] += amplitude_ * noise(token, position);
      }
    });
  }
  Ticket post(RankTeam::Job job) override { return inner_.post(std::move(job)); }
  void wait(Ticket ticket) override { inner_.wait(ticket); }
  CommStats comm_stats() override { return inner_.comm_stats(); }
  Logits logits() const override { return inner_.logits(); }
  SeqState& state() override { return inner_.state(); }
  void move_kv(std::span<const SlotMove> moves) override { inner_.move_kv(moves); }
  void swap_kv(std::span<const BlockSwap> swaps) override { inner_.swap_kv(swaps); }

  int num_moved() const { return num_moved_; }

 private:
  static float noise(uint32_t token, uint32_t position) {
    const uint32_t hash = (token * 2654435761u) ^ (position * 2246822519u);
    return float(int32_t(hash * 3266489917u)) * 0x1p-31f;
  }

  Model& inner_;
  const float amplitude_;
  int num_moved_ = 0;
};

constexpr int kRequests = 80, kOutput = 24;
constexpr float kAmplitude = 0.25f;

class FastEngine : public ::testing::Test {
 protected:
  FastEngine()
      : rig_({.target = test::builtin_model("target-7m"), .threads_per_rank = 2, .max_num_seqs = kRequests}),
        model_(rig_.target(), kAmplitude) {
    for (int i = 0; i < kRequests; ++i) {
      EncodedPrompt prompt{.id = fmt::format("r{}", i), .category = {}, .dataset_index = i, .tokens = {}};
      for (int k = 0; k < 4 + i % 5; ++k) prompt.tokens.push_back((i * 131 + k * 977 + 11) % rig_.spec().vocab_size);
      prompts_.push_back(std::move(prompt));
    }
  }

  ModelRoom room() const {
    const RigOptions& options = rig_.options();
    return {.block_size = options.block_size,
            .max_num_rows = options.max_num_rows,
            .max_num_logit_rows = options.max_num_seqs * (options.max_draft_len + 1)};
  }

  /// All requests through the planted target, up to `concurrency` at once.
  CellResult run(const std::string& id, RigProposer proposer, int concurrency) {
    auto engine = rig_.make_engine({.proposer = proposer,
                                    .rule = sampling_.temperature == 0 ? VerifyRule::greedy : VerifyRule::coupled,
                                    .num_speculative_tokens = proposer == RigProposer::none ? 0 : 3,
                                    .max_num_seqs = concurrency,
                                    .target = &model_});
    std::map<SeqId, size_t> index;
    RepetitionResult repetition;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      index[engine->submit(prompts_[i].tokens, sampling_of_request(sampling_params(sampling_), i))] = i;
      repetition.requests.push_back(
          {.id = prompts_[i].id, .dataset_index = prompts_[i].dataset_index, .category = {}, .output = {}});
    }
    while (!engine->idle())
      for (const Emitted& emitted : engine->step()) {
        std::vector<int32_t>& output = repetition.requests[index.at(emitted.seq)].output;
        output.insert(output.end(), emitted.token.begin(), emitted.token.end());
      }
    CellResult cell{.id = id, .effective = {{"numerics", "fast"}, {"rule", engine->verifier().rule_name()}}};
    cell.axes.proposer = proposer == RigProposer::none ? "none" : "ngram";
    cell.repetitions.push_back(std::move(repetition));
    return cell;
  }

  /// One request at a time, whose passes are small, and all at once with drafts.
  RunResult run_both() {
    RunResult result;
    result.cells.push_back(run("plain", RigProposer::none, 1));
    EXPECT_EQ(model_.num_moved(), 0);
    result.cells.push_back(run("ngram", RigProposer::ngram, kRequests));
    EXPECT_GT(model_.num_moved(), 0);
    return result;
  }

  CertificateResult certified(RunResult run, Model& model) {
    ModelLogits logits(model, room());
    for (CellResult& cell : run.cells)
      cell.logits =
          check_flips(cell, run.cells.front(), {.prompts = prompts_, .sampling = sampling_, .stop_now = {}}, logits);
    certify(run);
    EXPECT_EQ(run.cells[0].certificate.status, CertificateStatus::baseline);
    return run.cells[1].certificate;
  }

  EngineRig rig_;
  RowNoiseModel model_;
  std::vector<EncodedPrompt> prompts_;
  SamplingConfig sampling_{.max_tokens = kOutput, .ignore_eos = true, .stop_token_ids = {}};
};

TEST_F(FastEngine, FlipsOfManyRowsAreExplainedAndABugIsNot) {
  RunResult both = run_both();
  const CertificateResult found = certified(both, model_);
  EXPECT_EQ(found.status, CertificateStatus::pass) << found.detail;
  ASSERT_TRUE(found.flips);
  EXPECT_GT(found.flips->found, 0) << "the planted noise must flip something";
  EXPECT_EQ(found.flips->explained, found.flips->found);
  EXPECT_NEAR(*found.flips->noise, kAmplitude, 0.01);

  EXPECT_EQ(certified(both, rig_.target()).status, CertificateStatus::fail)
      << "a target without noise explains nothing";

  RequestRecord& request = both.cells[1].repetitions[0].requests[7];
  request.output.front() = (request.output.front() + 1000) % rig_.spec().vocab_size;
  const CertificateResult wrong = certified(both, model_);
  EXPECT_EQ(wrong.status, CertificateStatus::fail);
  EXPECT_EQ(wrong.mismatches, 1);
  EXPECT_NE(wrong.detail.find("request r7: output token 0"), std::string::npos) << wrong.detail;
}

TEST_F(FastEngine, FlipsOfSampledTextAreExplainedWithTheNoiseOfTheDraw) {
  sampling_.temperature = 1;
  sampling_.seed = 3;
  const RunResult both = run_both();
  const CertificateResult found = certified(both, model_);
  EXPECT_EQ(found.status, CertificateStatus::pass) << found.detail;
  EXPECT_GT(found.flips->found, 0);
  sampling_.seed += 1;  // the noise of other draws
  EXPECT_EQ(certified(both, model_).status, CertificateStatus::fail);
}

// In strict numerics both ways have the same bits, however long the prefix and whatever pads it.
TEST_F(FastEngine, BothWaysAgreeOnAStrictTarget) {
  ModelLogits logits(rig_.target(), room());
  std::vector<int32_t> text;
  for (int i = 0; i < 700; ++i) text.push_back((i * 7919 + i / 3) % rig_.spec().vocab_size);
  for (const size_t length : {1, 2, 63, 64, 65, 66, 129, 600}) {
    const TwoLogits both = logits.compute(std::span(text).first(length));
    ASSERT_EQ(both.few.size(), size_t(rig_.spec().vocab_size));
    EXPECT_EQ(noise_of(both), 0) << length;
    EXPECT_NE(both.few.front(), both.few.back()) << "something was computed";
  }
  ModelLogits moved(model_, room());
  EXPECT_EQ(moved.compute(std::span(text).first(600)).few, logits.compute(std::span(text).first(600)).few)
      << "few rows are never many";
  EXPECT_GT(noise_of(moved.compute(std::span(text).first(1))), 0.1) << "padding makes a pass of many rows";
}

}  // namespace
}  // namespace paceline
