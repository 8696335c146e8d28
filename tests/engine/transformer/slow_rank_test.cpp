// A forward pass that takes long is no dead rank: each layer makes a mark.

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "engine/batch_rows.h"
#include "engine/transformer/transformer.h"
#include "engine/weights/made/dummy_checkpoint.h"
#include "tests/support/recording_backend.h"
#include "tests/support/shape_file.h"

namespace paceline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTimeout_s = 0.4;
constexpr int kSlowLayers = 13;

/// Computes nothing, and takes its time for attention; stops for good in the pass over `stop_in` layers.
class SlowBackend final : public test::RecordingBackend {
 public:
  explicit SlowBackend(std::shared_ptr<const std::atomic<bool>> ends, int stop_in = -1)
      : ends_(std::move(ends)), stop_in_(stop_in) {}
  void attention(const AttentionArgs&) override {
    if (num_layers_++ == stop_in_)
      while (!*ends_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::duration<double>(kTimeout_s / 4));
  }

 private:
  const std::shared_ptr<const std::atomic<bool>> ends_;
  const int stop_in_;
  int num_layers_ = 0;
};

/// One step through two stages, the first of them slow. Returns the seconds. A stage that stops goes on once `ends`.
double run_step(int stop_in, std::shared_ptr<const std::atomic<bool>> ends) {
  // One layer on the last stage, which has the head beside it.
  const ModelSpec spec = test::shape_of({{"num_hidden_layers", kSlowLayers + 1},
                                         {"hidden_size", 64},
                                         {"intermediate_size", 64},
                                         {"num_attention_heads", 2},
                                         {"num_key_value_heads", 2},
                                         {"vocab_size", 40000}})
                             .spec;
  EXPECT_EQ(split_layers(spec, 2)[0], std::pair(0, kSlowLayers));
  RankTeam team({.placement = {.devices = {}, .tp = 1, .pp = 2}, .timeout_s = kTimeout_s});
  team.rank(0).backend = std::make_unique<SlowBackend>(ends, stop_in);
  team.rank(1).backend = std::make_unique<test::RecordingBackend>();
  const SharedWeights weights = load_weights(DummyCheckpoint(spec, "dummy"), spec, team, RankSet::all, DType::bf16);
  const auto model = make_transformer(spec, weights, team, {.num_blocks = 2, .max_num_rows = 16});
  auto batch = std::make_shared<Batch>();
  batch->step = 1;
  const std::vector<int32_t> tokens{3, 4, 5}, pages{0};
  add_rows(*batch, {.state = {.seq = 0, .cached = 0, .length = 3, .last_token = 5, .request = 1},
                    .tokens = tokens,
                    .pages = pages,
                    .end = 3,
                    .reset = true});
  batch->digest = digest_of(batch->expected);
  const auto start = Clock::now();
  model->launch(batch);
  model->wait(model->post([](Rank&) {}));
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(SlowRank, LayersThatTakeThreeTimesTheTimeoutInAllFinish) {
  EXPECT_GE(run_step(-1, std::make_shared<std::atomic<bool>>(false)), 3 * kTimeout_s);
}

// It stops for good: weights, model and ranks go without it, and it keeps what the rest of its pass uses.
TEST(SlowRank, OneThatStopsIsNamedWithStepAndLayerAndHoldsUpNobody) {
  const auto ends = std::make_shared<std::atomic<bool>>(false);
  const auto start = Clock::now();
  try {
    run_step(2, ends);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::comm);
    for (const char* piece : {"rank 1: recv 1", "rank 0 has made no mark for 0.4 s", "step 1, layer 2"})
      EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << error.what();
  }
  EXPECT_LT(Clock::now() - start, std::chrono::duration<double>(kTimeout_s + 5));
  EXPECT_GT(ends.use_count(), 1) << "the backend is still there";
  *ends = true;
  for (int i = 0; i < 1000 && ends.use_count() > 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(ends.use_count(), 1);
}

}  // namespace
}  // namespace paceline
