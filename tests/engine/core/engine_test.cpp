// Ends of requests: stops, errors, cancels; and what the engine refuses.

#include <random>

#include "fake_rig.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::expect_error;
using test::FakeProposer;
using test::FakeRig;
using test::FakeRigOptions;
using test::greedy_params;
using test::some_prompt;

FakeRigOptions perfect_drafts(int draft_len) {
  FakeRigOptions options;
  options.draft_len = draft_len;
  options.proposer = FakeProposer::Options{.wrong_per_mille = 0, .silent_per_mille = 0};
  return options;
}

// The stop lies inside a window whose drafts are all right: what follows it is dropped.
TEST(EngineStops, InsideAWindow) {
  const auto prompt = some_prompt(6, 3);
  const auto text = FakeRig(perfect_drafts(8)).model.greedy_text(prompt, 30);
  for (int at = 0; at < 12; ++at) {
    const int32_t stop = text[size_t(at)];
    const int first = int(std::find(text.begin(), text.end(), stop) - text.begin());
    for (const bool as_eos : {false, true}) {
      FakeRigOptions options = perfect_drafts(8);
      SamplingParams params = greedy_params(30, !as_eos);
      if (as_eos)
        options.model.eos = {stop};
      else
        params.stop_token_ids = {22, stop};
      if (!as_eos && std::find(text.begin(), text.begin() + first, 22) != text.begin() + first) continue;
      FakeRig rig(options);
      const SeqId id = rig.submit(prompt, params);
      rig.run();
      EXPECT_EQ(rig.output[id], std::vector<int32_t>(text.begin(), text.begin() + first + 1));
      EXPECT_EQ(rig.finish[id], FinishReason::stop);
      EXPECT_EQ(rig.engine->counters().emitted, first + 1);
    }
  }
}

TEST(EngineStops, IgnoreEosKeepsStopTokens) {
  const auto prompt = some_prompt(6, 3);
  FakeRigOptions options = perfect_drafts(4);
  const auto text = FakeRig(options).model.greedy_text(prompt, 20);
  options.model.eos = {text[2]};
  FakeRig rig(options);
  SamplingParams params = greedy_params(20, true);
  const SeqId ignores = rig.submit(prompt, params);
  params.stop_token_ids = {text[2]};
  const SeqId stops = rig.submit(prompt, params);
  rig.run();
  EXPECT_EQ(rig.output[ignores].size(), 20u);
  EXPECT_EQ(rig.finish[ignores], FinishReason::length);
  EXPECT_LE(rig.output[stops].size(), 3u);
  EXPECT_EQ(rig.finish[stops], FinishReason::stop);
}

TEST(EngineStops, MaxTokensExactly) {
  for (const int draft_len : {0, 1, 5, 8}) {
    FakeRig rig(perfect_drafts(draft_len));
    std::vector<SeqId> ids;
    for (int max_tokens = 1; max_tokens <= 12; ++max_tokens)
      ids.push_back(rig.submit(some_prompt(5, max_tokens), greedy_params(max_tokens)));
    rig.run();
    rig.expect_all_texts();
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(rig.output[ids[i]].size(), i + 1);
      EXPECT_EQ(rig.finish[ids[i]], FinishReason::length);
    }
  }
}

TEST(EngineStops, MaxModelLenCutsMaxTokens) {
  for (const int draft_len : {0, 5}) {
    FakeRigOptions options = perfect_drafts(draft_len);
    options.max_model_len = 20;
    FakeRig rig(options);
    const SeqId id = rig.submit(some_prompt(13, 1), greedy_params(1000));
    const SeqId last = rig.submit(some_prompt(19, 2), greedy_params(1000));
    rig.run();
    rig.expect_all_texts();
    EXPECT_EQ(rig.output[id].size(), 7u);
    EXPECT_EQ(rig.output[last].size(), 1u);
    EXPECT_EQ(rig.finish[id], FinishReason::length);
  }
}

// Self-draft's rule: perfect drafts are all accepted, k + 1 tokens a step.
TEST(EngineCounters, PerfectDraftsAreAllAccepted) {
  FakeRig rig(perfect_drafts(4));
  rig.submit(some_prompt(6, 3), greedy_params(26));  // 1 + 5 steps of 5
  rig.run();
  rig.expect_all_texts();
  const EngineCounters& c = rig.engine->counters();
  EXPECT_EQ(c.verdicts, 6);
  EXPECT_EQ(c.drafts, 5);
  EXPECT_EQ(c.drafted, 20);
  EXPECT_EQ(c.accepted, 20);
  EXPECT_EQ(c.emitted, 26);
  EXPECT_EQ(c.prompt_tokens_computed, 6);
  EXPECT_EQ(c.accepted_at[3], 5);
  EXPECT_EQ(c.accepted_at[4], 0);
}

// NaN logits end the request that has them; the others do not notice.
TEST(EngineErrors, NumericalErrorEndsOneRequest) {
  for (const int draft_len : {0, 3}) {
    for (const int run_ahead : {0, 1}) {
      FakeRigOptions options;
      options.model.poison = 22;
      options.draft_len = draft_len;
      options.run_ahead = run_ahead;
      options.caching = PrefixCaching::on;
      if (draft_len > 0) options.proposer = FakeProposer::Options{};
      FakeRig rig(options);
      std::vector<int32_t> bad = some_prompt(9, 5, 22);
      bad[6] = 22;
      const SeqId sick = rig.engine->submit(bad, greedy_params(20));
      std::vector<SeqId> well;
      for (int i = 0; i < 5; ++i) well.push_back(rig.submit(some_prompt(7, i, 22), greedy_params(25)));
      rig.run();
      EXPECT_EQ(rig.finish[sick], FinishReason::numerical_error);
      EXPECT_TRUE(rig.output[sick].empty());
      for (const SeqId id : well) {
        // A healthy prompt may draw the poison itself: its text ends there, a window's worth earlier at most.
        const auto want = rig.expected[id];
        const auto& have = rig.output[id];
        const auto poison = std::find(want.begin(), want.end(), 22) - want.begin();
        if (poison >= 24) {
          EXPECT_EQ(have, want);
          continue;
        }
        EXPECT_EQ(rig.finish[id], FinishReason::numerical_error);
        EXPECT_TRUE(int(have.size()) <= poison + 1 && int(have.size()) >= poison + 1 - draft_len)
            << have.size() << " " << poison;
        EXPECT_TRUE(std::equal(have.begin(), have.end(), want.begin()));
      }
    }
  }
}

TEST(EngineErrors, SubmitSaysWhatIsWrong) {
  FakeRigOptions options;
  options.model.num_blocks = 10;
  options.max_model_len = 64;
  FakeRig rig(options);
  Engine& engine = *rig.engine;
  expect_error(ExitCode::usage, {"prompt", "0 tokens", "at least 1"}, [&] { engine.submit({}, greedy_params(5)); });
  expect_error(ExitCode::usage, {"prompt", "64 tokens", "max_model_len 64", "engine.scheduler.max_model_len"},
               [&] { engine.submit(some_prompt(64, 1), greedy_params(5)); });
  for (const int32_t bad : {-1, 23, std::numeric_limits<int32_t>::max()}) {
    expect_error(ExitCode::usage, {"prompt", fmt::format("token {}", bad), "position 2", "vocabulary of 23"}, [&] {
      engine.submit({1, 2, bad}, greedy_params(5));
    });
  }
  for (const int bad : {0, -7})
    expect_error(ExitCode::usage, {"max_tokens", fmt::format("found {}", bad), "at least 1"}, [&] {
      engine.submit({1, 2}, greedy_params(bad));
    });
  expect_error(ExitCode::usage,
               {"30 prompt + 11 output", "11 KV blocks", "pool has 10", "40 tokens", "memory_fraction", "max_tokens"},
               [&] { engine.submit(some_prompt(30, 1), greedy_params(11)); });
  EXPECT_TRUE(engine.idle());
  rig.submit(some_prompt(30, 1), greedy_params(10));  // fits to the last slot
  rig.run();
  rig.expect_all_texts();
}

TEST(EngineErrors, OptionsThatContradict) {
  FakeRigOptions options;
  options.run_ahead = 1;
  options.micro_batches = 2;
  EXPECT_THROW(FakeRig{options}, Error);
  options = {};
  options.max_model_len = options.model.max_model_len + 1;
  EXPECT_THROW(FakeRig{options}, Error);
}

class BadProposer : public Proposer {
 public:
  explicit BadProposer(Proposal proposal) : proposal_(std::move(proposal)) {}
  std::string_view name() const override { return "bad"; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = proposal_;
      out[i].committed += requests[i].seq->length();
      if (out[i].draft.size() == 2) {
        out[i].draft.token.resize(size_t(std::min(2, requests[i].max_drafts)));
        out[i].draft.parent.resize(out[i].draft.token.size());
      }
    }
  }
  void end(const Sequence&) override {}
  void preempt(SeqId) override {}

 private:
  Proposal proposal_;
};

std::string error_of(std::unique_ptr<Proposer> proposer) {
  FakeRigOptions options;
  test::FakeModel model(options.model);
  Engine engine({.scheduler = {.max_num_seqs = 2, .max_num_batched_tokens = 64, .max_model_len = 64},
                 .pool = {.num_blocks = 16, .block_size = 4},
                 .num_speculative_tokens = 2},
                model, std::move(proposer), std::make_unique<ChainVerifier>(VerifierOptions{}));
  engine.submit(some_prompt(5, 1), greedy_params(20));
  try {
    while (!engine.idle()) engine.step();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string error_of(const Proposal& proposal) { return error_of(std::make_unique<BadProposer>(proposal)); }

// A proposer may be wrong about the text, never about ids, lengths or the state it drafts for.
TEST(EngineErrors, ABrokenProposerIsFound) {
  EXPECT_EQ(error_of({.draft = DraftTree::chain({1, 2})}), "");
  EXPECT_EQ(error_of({.draft = DraftTree::chain({1, 23})}),
            "proposer bad: request 1: draft 1 is token 23, outside the vocabulary of 23");
  EXPECT_EQ(error_of({.draft = DraftTree::chain({-1})}),
            "proposer bad: request 1: draft 0 is token -1, outside the vocabulary of 23");
  EXPECT_EQ(error_of({.draft = DraftTree::chain({1, 2, 3})}), "proposer bad: request 1: 3 drafts, 2 were asked for");
  EXPECT_EQ(
      error_of({.draft = DraftTree::chain({1, 2}), .probs = {.kind = DraftProbKind::dense, .value = {}}}),
      "proposer bad: request 1: dense probabilities of 0 rows and 0 columns, for 2 drafts and a vocabulary of 23");
  EXPECT_EQ(error_of({.draft = {.token = {1}, .parent = {-1}, .score = {NAN}}}),
            "proposer bad: request 1: draft 0 has score nan");
  EXPECT_NE(error_of({.draft = {.token = {1, 1}, .parent = {-1, -1}}})
                .find("proposer bad: request 1: drafts 0 and 1 are both token 1 after the same parent"),
            std::string::npos);
  EXPECT_NE(error_of({.draft = {.token = {1, 2}, .parent = {-1, -1}}}).find("drafts branch, of a proposer of chains"),
            std::string::npos);
  EXPECT_EQ(error_of({.committed = -1, .draft = DraftTree::chain({1})}),
            "proposer bad: request 1: drafts made for 5 verified tokens, it has 6");
}

TEST(EngineErrors, AProposerThatThrowsIsNamed) {
  struct Throwing : BadProposer {
    using BadProposer::BadProposer;
    void propose(std::span<const DraftRequest>, std::span<Proposal>) override { throw std::out_of_range("vector::at"); }
  };
  EXPECT_EQ(error_of(std::make_unique<Throwing>(Proposal{})), "proposer bad: propose() threw: vector::at");
}

// A cancelled request says nothing more, leaves no block behind and does not touch the others.
TEST(EngineCancel, InEveryPhase) {
  for (const int run_ahead : {0, 1, 2}) {
    for (const int micro_batches : {1, 2}) {
      if (run_ahead > 0 && micro_batches > 1) continue;
      for (int which = 0; which < 28; ++which) {
        const int when = which / 2;
        const bool drafts = which % 2 == 0;
        FakeRigOptions options;
        options.draft_len = 3;
        options.run_ahead = run_ahead;
        options.micro_batches = micro_batches;
        options.budget = 8;  // prompts of 20 take three steps
        options.max_num_seqs = 3;
        options.caching = PrefixCaching::on;
        if (drafts) options.proposer = FakeProposer::Options{};
        FakeRig rig(options);
        std::vector<SeqId> ids;
        for (int i = 0; i < 6; ++i) ids.push_back(rig.submit(some_prompt(20, i % 2), greedy_params(15)));
        for (int step = 0; step < when; ++step) rig.step();
        const SeqId victim = ids[1], waiting = ids[5];
        const bool over = rig.finish.count(victim) > 0;
        const size_t said = rig.output[victim].size();
        rig.engine->cancel(victim);
        rig.engine->cancel(waiting);
        rig.engine->cancel(victim);  // again: nothing
        rig.engine->cancel(777);
        const SeqId late = rig.submit(some_prompt(11, 9), greedy_params(9));  // may get the victim's slot at once
        rig.run();
        EXPECT_EQ(rig.output[victim].size(), said);
        EXPECT_EQ(rig.finish.count(victim), over ? 1u : 0u);
        EXPECT_EQ(rig.output[waiting].size(), 0u);
        for (const SeqId id : {ids[0], ids[2], ids[3], ids[4], late})
          EXPECT_EQ(rig.output[id], rig.expected[id])
              << "request " << id << " when " << when << " run_ahead " << run_ahead << " drafts " << drafts;
      }
    }
  }
}

// Shared prefixes, preemption, cancels and resubmissions at random: the rest says what it says alone.
TEST(EngineCancel, RandomCancelsLeaveTheOthersAlone) {
  std::mt19937 random(11);
  int64_t preemptions = 0, swapped = 0, hits = 0, dead = 0;
  int num_cancelled = 0;
  for (int round = 0; round < 150; ++round) {
    FakeRigOptions options;
    options.model.num_blocks = 18;
    options.model.num_host_blocks = round % 3 * 9;  // none, few, enough
    options.model.eos = {4};
    options.draft_len = int(random() % 6);
    options.run_ahead = int(random() % 3);
    options.micro_batches = options.run_ahead ? 1 : 1 + int(random() % 3);
    options.budget = 6 + int(random() % 20);
    options.caching = round % 2 ? PrefixCaching::on : PrefixCaching::off;
    if (random() % 2) options.proposer = FakeProposer::Options{};
    FakeRig rig(options);
    std::vector<SeqId> live;
    int submitted = 0;
    while (submitted < 25 || !rig.engine->idle()) {
      if (submitted < 25 && random() % 2) {
        auto prompt = some_prompt(8, int(random() % 2));
        for (unsigned i = random() % 12; i > 0; --i) prompt.push_back(int32_t(random() % 23));
        const uint64_t group = random() % 3;
        if (group > 0) prompt = some_prompt(10, int(group));
        live.push_back(rig.submit(prompt, greedy_params(1 + int(random() % 20), false), 0, group));
        ++submitted;
      }
      if (!live.empty() && random() % 8 == 0) {
        const size_t at = random() % live.size();
        rig.engine->cancel(live[at]);
        if (!rig.finish.count(live[at])) {
          rig.expected.erase(live[at]);
          ++num_cancelled;
        }
        live.erase(live.begin() + std::ptrdiff_t(at));
      }
      rig.step();
    }
    rig.run();
    rig.expect_all_texts();
    preemptions += rig.engine->counters().preemptions;
    swapped += rig.engine->counters().swapped_blocks;
    dead += rig.engine->counters().dead_rows;
    hits += rig.engine->pool().prefix_hit_tokens();
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(num_cancelled, 200);
  EXPECT_GT(preemptions, 50);
  EXPECT_GT(swapped, 50);
  EXPECT_GT(hits, 500);
  EXPECT_GT(dead, 50);
}

// Dropped with steps in flight: the destructor collects them.
TEST(Engine, DestroyedInFlight) {
  FakeRigOptions options;
  options.run_ahead = 2;
  FakeRig rig(options);
  rig.submit(some_prompt(5, 1), greedy_params(50));
  for (int i = 0; i < 4; ++i) rig.step();
  EXPECT_FALSE(rig.model.pending().empty());
  rig.engine.reset();
  EXPECT_TRUE(rig.model.pending().empty());
}

TEST(Engine, TheProposerIsToldOfEndsPreemptionsAndVerdicts) {
  FakeRigOptions options = perfect_drafts(3);
  options.model.num_blocks = 12;
  FakeRig rig(options);
  std::vector<SeqId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(rig.submit(some_prompt(9, i), greedy_params(20), 70 + i));
  rig.engine->cancel(ids[3]);
  rig.run();
  std::sort(rig.proposer->ended.begin(), rig.proposer->ended.end());
  EXPECT_EQ(rig.proposer->ended, ids);
  EXPECT_EQ(int64_t(rig.proposer->preempted.size()), rig.engine->counters().preemptions);
  EXPECT_GT(rig.engine->counters().preemptions, 0);
  EXPECT_GT(rig.proposer->num_observed, 0);
  EXPECT_EQ(rig.proposer->num_observed, rig.engine->counters().drafted - rig.num_drafted_at_end)
      << "of all verdicts but those that end a sequence";
  EXPECT_EQ(rig.proposer->keys, (std::map<SeqId, int64_t>{{ids[0], 70}, {ids[1], 71}, {ids[2], 72}}));
}

/// What becomes of an engine's parts.
struct Ends {
  int num_collected = 0;
  bool verifier_lives = true;
  bool verifier_outlived = false;
};

class LoudVerifier final : public Verifier {
 public:
  explicit LoudVerifier(Ends& ends) : ends_(ends) {}
  ~LoudVerifier() override { ends_.verifier_lives = false; }
  std::string_view rule_name() const override { return "loud"; }
  Ticket launch(std::shared_ptr<const Batch> batch, Model& target, std::vector<VerifyRow> rows) override {
    return inner_.launch(std::move(batch), target, std::move(rows));
  }
  std::vector<Verdict> collect(Ticket ticket) override {
    inner_.collect(ticket);
    ++ends_.num_collected;
    fail(ExitCode::device, "collect {}", ends_.num_collected);
  }
  double seconds() const override { return 0.0; }

 private:
  Ends& ends_;
  ChainVerifier inner_{VerifierOptions{}};
};

class LastProposer final : public Proposer {
 public:
  explicit LastProposer(Ends& ends) : ends_(ends) {}
  ~LastProposer() override { ends_.verifier_outlived = ends_.verifier_lives; }
  std::string_view name() const override { return "last"; }
  void propose(std::span<const DraftRequest>, std::span<Proposal>) override {}
  void end(const Sequence&) override {}
  void preempt(SeqId) override {}

 private:
  Ends& ends_;
};

TEST(EngineErrors, TheEndCollectsEveryStepThoughEachThrowsAndKeepsTheVerifierToTheLast) {
  Ends ends;
  test::FakeModel model({});
  {
    EngineOptions options;
    options.scheduler = {.max_num_seqs = 3, .max_num_batched_tokens = 64, .max_model_len = 96, .num_micro_batches = 3};
    options.pool = {.num_blocks = 64, .block_size = 4};
    Engine engine(options, model, std::make_unique<LastProposer>(ends), std::make_unique<LoudVerifier>(ends));
    for (int i = 0; i < 3; ++i) engine.submit(some_prompt(5, i), greedy_params(8));
    expect_error(ExitCode::device, {"collect 1"}, [&] { engine.step(); });
  }
  EXPECT_EQ(ends.num_collected, 3);
  EXPECT_TRUE(model.pending().empty());
  EXPECT_TRUE(ends.verifier_outlived);
}

}  // namespace
}  // namespace paceline
