#include "speculative/chain_verifier.h"

#include <gtest/gtest.h>

#include "engine/batch_rows.h"
#include "engine/engine.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_model.h"

namespace paceline {
namespace {

using test::FakeModel;
using test::FakeModelOptions;
using test::FakeProposer;

const std::vector<int32_t> kPrompt{3, 1, 4, 1, 5};

/// A model that has seen the prompt, with one step over its last token and drafts in the making.
struct Window {
  FakeModel model{FakeModelOptions{}};
  ChainVerifier verifier;
  std::vector<int32_t> text;

  explicit Window(const VerifierOptions& options = {}) : verifier(options), text(model.greedy_text(kPrompt, 12)) {}

  /// Prompt and drafts in one step: the drafts continue the prompt.
  Ticket launch(const std::vector<int32_t>& drafts, int committed = int(kPrompt.size()),
                const DrawParams& sampler = {}) {
    auto batch = std::make_shared<Batch>();
    batch->step = ++step;
    const std::vector<int32_t> pages{0, 1, 2, 3, 4, 5};
    std::vector<int32_t> tokens = kPrompt;
    tokens.insert(tokens.end(), drafts.begin(), drafts.end());
    const SeqCommit state{
        .seq = 2, .cached = 0, .length = int32_t(kPrompt.size()), .last_token = kPrompt.back(), .request = 8};
    add_rows(
        *batch,
        {.state = state, .tokens = tokens, .pages = pages, .block_size = 4, .end = int(tokens.size()), .reset = true});
    batch->seqs[0].num_drafts = int32_t(drafts.size());
    batch->logit_row.clear();
    for (size_t row = kPrompt.size() - 1; row < tokens.size(); ++row) batch->logit_row.push_back(int32_t(row));
    batch->digest = digest_of(batch->expected);
    model.launch(batch);
    VerifyRow row{.batch_seq = 0,
                  .first_logit = 0,
                  .known_rows = int(kPrompt.size()),
                  .request = 8,
                  .sampler = sampler,
                  .proposal = {}};
    row.proposal = {.committed = committed, .draft = DraftTree::chain(drafts), .probs = {}};
    return verifier.launch(batch, model, {row});
  }
  Verdict verdict(const std::vector<int32_t>& drafts) { return verifier.collect(launch(drafts)).at(0); }

  uint64_t step = 0;
};

TEST(ChainVerifier, GreedyKeepsTheRightPrefix) {
  Window window;
  for (int right = 0; right <= 5; ++right) {
    std::vector<int32_t> drafts(window.text.begin(), window.text.begin() + 5);
    if (right < 5) drafts[size_t(right)] = (drafts[size_t(right)] + 1) % 23;
    const Verdict verdict = window.verdict(drafts);
    EXPECT_EQ(verdict.num_drafts, 5);
    EXPECT_EQ(int(verdict.path.size()), right);
    for (int i = 0; i < right; ++i) EXPECT_EQ(verdict.path[size_t(i)], i);
    EXPECT_EQ(verdict.token, std::vector<int32_t>(window.text.begin(), window.text.begin() + right + 1));
    EXPECT_FALSE(verdict.numerical_error);
    // and the deciding rank's state follows
    const SeqSlot& slot = window.model.state()[2];
    EXPECT_EQ(slot.cached, int(kPrompt.size()) + right);
    EXPECT_EQ(slot.length, slot.cached + 1);
    EXPECT_EQ(slot.token_at(slot.length - 1), window.text[size_t(right)]);
    EXPECT_EQ(slot.step, window.step);
  }
  const Verdict plain = window.verdict({});
  EXPECT_EQ(plain.token, std::vector<int32_t>{window.text[0]});
  EXPECT_EQ(plain.num_drafts, 0);
  EXPECT_GT(window.verifier.seconds(), 0.0);
}

TEST(ChainVerifier, AStaleProposalThrows) {
  for (const int committed : {4, 6, 0}) {
    Window window;
    const Ticket ticket = window.launch({window.text[0]}, committed);
    test::expect_error(ExitCode::internal,
                       {"request 8", fmt::format("drafts made for {} verified tokens, it has 5", committed)},
                       [&] { window.verifier.collect(ticket); });
  }
  Window window;
  EXPECT_NO_THROW(window.verifier.collect(window.launch({}, 0)));  // nothing was proposed: nothing is stale
}

TEST(ChainVerifier, CollectsInOrder) {
  Window window;
  const Ticket first = window.launch({});
  const Ticket second = window.launch({});
  EXPECT_THROW(window.verifier.collect(second), Error);
  window.verifier.collect(first);
  window.verifier.collect(second);
  EXPECT_THROW(window.verifier.collect(second), Error);
}

TEST(ChainVerifier, NamesItsRule) {
  const std::pair<VerifyRule, const char*> rules[] = {{VerifyRule::greedy, "greedy"},
                                                      {VerifyRule::rejection, "rejection"},
                                                      {VerifyRule::coupled, "coupled"},
                                                      {VerifyRule::block, "block"}};
  for (const auto& [rule, name] : rules) {
    const ChainVerifier verifier(VerifierOptions{.rule = rule});
    EXPECT_EQ(verifier.rule_name(), name);
  }
}

/// Tokens of one engine run, and its counters.
struct Outcome {
  std::vector<std::vector<int32_t>> text;
  EngineCounters counters;
};

Outcome run_engine(const VerifierOptions& options, int draft_len, const FakeProposer::Options& drafts,
                   const DrawParams& sampler, int num_requests, int max_tokens) {
  FakeModel model({.max_model_len = 2000, .num_blocks = 600});
  Engine engine({.scheduler = {.max_num_seqs = 3, .max_num_batched_tokens = 64, .max_model_len = 2000},
                 .pool = {.num_blocks = 600, .block_size = 4},
                 .num_speculative_tokens = draft_len},
                model, std::make_unique<FakeProposer>(model, drafts), std::make_unique<ChainVerifier>(options));
  Outcome run;
  run.text.resize(size_t(num_requests));
  for (int i = 0; i < num_requests; ++i) {
    SamplingParams params;
    params.sampler = sampler;
    params.sampler.seed += uint64_t(i);
    params.max_tokens = max_tokens;
    engine.submit({int32_t(i), 2, 3}, params);
  }
  while (!engine.idle()) {
    for (const Emitted& one : engine.step())
      run.text[size_t(one.seq - 1)].insert(run.text[size_t(one.seq - 1)].end(), one.token.begin(), one.token.end());
  }
  run.counters = engine.counters();
  return run;
}

TEST(ChainVerifier, BlocksRefuseDraftsThatBranch) {
  const FakeProposer::Options trees{.trees = true};
  test::expect_error(ExitCode::usage, {"speculation.verifier.rule", "block", "proposer fake", "branch"},
                     [&] { run_engine({.rule = VerifyRule::block}, 4, trees, {}, 1, 8); });
  run_engine({.rule = VerifyRule::rejection}, 4, trees, {.temperature = 1.0f}, 2, 8);
}

// The shared noise: sampled text does not depend on the drafts, nor on their number.
TEST(ChainVerifier, CoupledSamplingSaysTheSameWithoutDrafts) {
  const DrawParams sampler{.temperature = 0.7f, .top_k = 8, .top_p = 0.9f, .seed = 77};
  const VerifierOptions rule{.rule = VerifyRule::coupled};
  const Outcome plain = run_engine(rule, 0, {}, sampler, 6, 120);
  for (const int draft_len : {1, 3, 6}) {
    for (const int wrong : {0, 300, 1000}) {
      const Outcome drafted = run_engine(rule, draft_len, {.wrong_per_mille = wrong}, sampler, 6, 120);
      EXPECT_EQ(drafted.text, plain.text);
      EXPECT_GT(drafted.counters.accepted, 0);
      EXPECT_LT(drafted.counters.accepted, drafted.counters.drafted);
    }
  }
  EXPECT_NE(run_engine(rule, 3, {}, {.temperature = 0.7f, .top_k = 8, .top_p = 0.9f, .seed = 78}, 6, 120).text,
            plain.text);
}

// Rejection and coupled rules treat a greedy request as greedy.
TEST(ChainVerifier, GreedyRequestsUnderEveryRule) {
  const Outcome greedy = run_engine({}, 4, {}, {}, 4, 60);
  for (const VerifyRule rule : {VerifyRule::rejection, VerifyRule::coupled})
    EXPECT_EQ(run_engine({.rule = rule}, 4, {}, {}, 4, 60).text, greedy.text);
}

}  // namespace
}  // namespace paceline
