#pragma once
// An engine over the fake model, and what its requests must say.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "speculative/chain_verifier.h"
#include "tests/support/fake_model.h"

namespace paceline::test {

struct FakeRigOptions {
  FakeModelOptions model;
  std::optional<FakeProposer::Options> proposer;                  // none: plain decoding
  std::function<std::unique_ptr<Proposer>()> make_proposer = {};  // in place of it
  VerifyRule rule = VerifyRule::greedy;
  int draft_len = 0;
  int run_ahead = 0;
  int micro_batches = 1;
  int max_num_seqs = 4;
  int budget = 64;
  int max_model_len = 96;
  Batching batching = Batching::continuous;
  PrefixCaching caching = PrefixCaching::off;
};

class FakeRig {
 public:
  explicit FakeRig(const FakeRigOptions& options) : model(options.model), options_(options) {
    EngineOptions engine_options;
    engine_options.scheduler = {.max_num_seqs = options.max_num_seqs,
                                .max_num_batched_tokens = options.budget,
                                .max_model_len = options.max_model_len,
                                .batching = options.batching,
                                .num_micro_batches = options.micro_batches,
                                .max_steps_per_seq = 1 + options.run_ahead,
                                .num_host_blocks = options.model.num_host_blocks};
    engine_options.pool = {.num_blocks = options.model.num_blocks,
                           .block_size = options.model.block_size,
                           .prefix_caching = options.caching};
    engine_options.num_speculative_tokens = options.draft_len;
    engine_options.run_ahead = options.run_ahead;
    std::unique_ptr<FakeProposer> made;
    if (options.proposer) made = std::make_unique<FakeProposer>(model, *options.proposer);
    proposer = made.get();
    engine = std::make_unique<Engine>(engine_options, model,
                                      options.make_proposer ? options.make_proposer() : std::move(made),
                                      std::make_unique<ChainVerifier>(VerifierOptions{.rule = options.rule}));
  }

  SeqId submit(const std::vector<int32_t>& prompt, const SamplingParams& params, int64_t key = 0,
               uint64_t prompt_group = 0) {
    return submit_expecting(expected_text(prompt, params), prompt, params, key, prompt_group);
  }
  SeqId submit_expecting(const std::vector<int32_t>& text, const std::vector<int32_t>& prompt,
                         const SamplingParams& params, int64_t key = 0, uint64_t prompt_group = 0) {
    const SeqId id = engine->submit(prompt, params, key, prompt_group);
    expected[id] = text;
    num_prompt_[id] = int(prompt.size());
    return id;
  }

  /// The model's greedy text cut at the first stop.
  std::vector<int32_t> expected_text(const std::vector<int32_t>& prompt, const SamplingParams& params) const {
    auto text = model.greedy_text(prompt, std::min(params.max_tokens, options_.max_model_len - int(prompt.size())));
    const auto is_in = [](const std::vector<int32_t>& ids, int32_t token) {
      return std::find(ids.begin(), ids.end(), token) != ids.end();
    };
    for (size_t i = 0; i < text.size(); ++i) {
      if ((!params.ignore_eos && is_in(options_.model.eos, text[i])) || is_in(params.stop_token_ids, text[i])) {
        text.resize(i + 1);
        break;
      }
    }
    return text;
  }

  /// One step; keeps what it emitted.
  std::vector<Emitted> step() {
    std::vector<Emitted> emitted = engine->step();
    engine->pool().check();
    for (const Emitted& one : emitted) {
      auto& text = output[one.seq];
      EXPECT_EQ(finish.count(one.seq), 0u) << "tokens after the end of request " << one.seq;
      text.insert(text.end(), one.token.begin(), one.token.end());
      if (one.finish != FinishReason::none) {
        finish[one.seq] = one.finish;
        num_drafted_at_end += one.num_drafted;
      } else if (num_prompt_.contains(one.seq)) {  // the KV of all verified tokens but the last is in the pool
        EXPECT_EQ(engine->pool().cached(one.seq), num_prompt_[one.seq] + int(text.size()) - 1) << "request " << one.seq;
      }
      num_accepted += one.num_accepted;
      num_truncated += one.finish == FinishReason::numerical_error ? 0 : one.num_accepted + 1 - int(one.token.size());
    }
    return emitted;
  }

  void run() {
    for (int steps = 0; !engine->idle(); ++steps) {
      ASSERT_LT(steps, 20'000) << "no end in sight";
      step();
    }
    EXPECT_EQ(engine->pool().num_free(), engine->pool().num_blocks());
    EXPECT_EQ(engine->swap_space().num_free(), engine->swap_space().num_blocks());
  }

  void expect_all_texts() const {
    for (const auto& [id, text] : expected) {
      const auto found = output.find(id);
      ASSERT_NE(found, output.end()) << "request " << id;
      EXPECT_EQ(found->second, text) << "request " << id;
      EXPECT_EQ(finish.count(id), 1u);
    }
  }

  FakeModel model;
  FakeProposer* proposer = nullptr;  // the engine's
  std::unique_ptr<Engine> engine;
  std::map<SeqId, std::vector<int32_t>> expected, output;
  std::map<SeqId, FinishReason> finish;
  int64_t num_accepted = 0;
  int64_t num_drafted_at_end = 0;  // drafts of the verdicts that ended a request
  int64_t num_truncated = 0;       // verified tokens dropped behind a stop

 private:
  FakeRigOptions options_;
  std::map<SeqId, int> num_prompt_;
};

inline std::vector<int32_t> some_prompt(int length, int seed, int vocab_size = 23) {
  std::vector<int32_t> prompt;
  for (int i = 0; i < length; ++i) prompt.push_back((seed * 31 + i * i * 7 + i * 3) % vocab_size);
  return prompt;
}

inline SamplingParams greedy_params(int max_tokens, bool ignore_eos = true) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  params.ignore_eos = ignore_eos;
  return params;
}

}  // namespace paceline::test
