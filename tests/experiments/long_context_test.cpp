// A text of tens of thousands of tokens: positions beyond any small checkpoint's, on random weights.

#include <gtest/gtest.h>

#include "experiments/run/engine_load.h"
#include "experiments/run/measure/repetition.h"
#include "experiments/workload/request_sampling.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/shape_file.h"

namespace paceline {
namespace {

constexpr int kLongest = 131072, kPromptTokens = 23910, kRowsOfStep = 2048;

class LongContext : public testing::Test {
 protected:
  LongContext() {
    test::write_file(dir_ / "long.json", test::shape_json({{"parent", "draft-600k"},
                                                           {"num_hidden_layers", 2},
                                                           {"hidden_size", 64},
                                                           {"intermediate_size", 64},
                                                           {"num_attention_heads", 2},
                                                           {"num_key_value_heads", 1},
                                                           {"head_dim", 16},
                                                           {"max_position_embeddings", kLongest}})
                                             .dump());
    config_.builtin_root = source_dir() / "configs";
    config_.engine.backend = "cpu";
    config_.engine.target.path = "builtin:draft-600k";
    config_.engine.target.inflate = (dir_ / "long.json").string();
    config_.engine.target.load_format = "dummy";
    config_.engine.scheduler.max_model_len = kLongest;
    config_.engine.scheduler.max_num_batched_tokens = kRowsOfStep;
    config_.engine.scheduler.max_num_seqs = 2;
    config_.speculation.num_speculative_tokens = 5;
  }

  RepetitionResult run(EngineLoad& load, const std::string& proposer) {
    ExperimentConfig cell = config_;
    cell.speculation.proposer = proposer;
    derive_paths(cell);
    EncodedPrompt prompt{.id = "long"};
    for (int i = 0; i < kPromptTokens; ++i) prompt.tokens.push_back(i % 499);  // suffixes that occurred before
    SamplingConfig sampling;
    sampling.max_tokens = 32;
    sampling.ignore_eos = true;
    return run_repetition(load, cell, std::span(&prompt, 1),
                          {.sampling = sampling_params(sampling), .concurrency = 1, .on_progress = {}, .stop_now = {}});
  }

  const test::TempDir dir_;
  ExperimentConfig config_;
};

TEST_F(LongContext, PromptIsReadInChunksAndSpeculatedOn) {
  derive_paths(config_);
  EngineLoad load(config_, {.threads_per_rank = 2, .max_draft_len = 5});
  ASSERT_EQ(load.plan().max_model_len, kLongest);
  const RepetitionResult plain = run(load, "none"), ngram = run(load, "ngram");
  constexpr int kChunks = (kPromptTokens + kRowsOfStep - 1) / kRowsOfStep;
  EXPECT_EQ(plain.counters.target_forwards, kChunks + 31);  // the last chunk gives the first token
  EXPECT_GT(ngram.counters.drafts, 0);
  ASSERT_EQ(plain.requests.at(0).output.size(), 32u);
  EXPECT_EQ(ngram.requests.at(0).output, plain.requests.at(0).output);
}

TEST_F(LongContext, TooLittleRoomForOneTextIsSaidWithNumbers) {
  config_.engine.kv_cache.memory_fraction = 0.5;
  derive_paths(config_);
  test::expect_error(ExitCode::device,
                     {"max seq len (131072)", "KV cache (", "GiB", "decreasing max_model_len to at most "},
                     [&] { plan_load(config_, {.memory_bytes = {size_t{20} << 20}}); });
}

}  // namespace
}  // namespace paceline
