// Requests that are cancelled at any moment leave no trace: the others' tokens, the pools, the draft's cache.

#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "engine/engine_loop.h"
#include "tests/speculative/lossless/workload.h"

namespace paceline::test {
namespace {

struct CancelCase {
  RigProposer proposer;
  int tp, pp;
};

class CancelTest : public ::testing::TestWithParam<CancelCase> {
 protected:
  /// Few pages, shared prefixes, host memory for none, few or all of what is preempted.
  static EngineSetup setup(RigProposer proposer, uint64_t seed, const std::vector<CheckedRequest>& requests,
                           const EngineRig& rig) {
    EngineSetup setup{.proposer = proposer,
                      .rule = rule(seed),
                      .num_speculative_tokens = 1 + int(seed % 6),
                      .max_num_seqs = 8,
                      .max_num_batched_tokens = 64,
                      .prefix_caching = PrefixCaching::on};
    setup.num_blocks = blocks_for(requests, setup.max_num_seqs, rig.options().block_size, 0.6);
    setup.num_host_blocks = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 3 : 100;
    return setup;
  }
  static VerifyRule rule(uint64_t seed) { return seed % 2 ? VerifyRule::coupled : VerifyRule::greedy; }
};

/// Asked before each step: whether the blocks of sequences that have ended come back within `most_steps`.
class BlocksComeBack {
 public:
  explicit BlocksComeBack(int most_steps) : most_steps_(most_steps) {}

  void check(const Engine& engine, const BlockPool& pool, std::span<const SeqId> ids) {
    std::set<SeqId> owners;
    std::set<int32_t> used;
    for (const SeqId id : ids) {
      if (!pool.knows(id)) continue;
      owners.insert(id);
      used.insert(pool.pages(id).begin(), pool.pages(id).end());
    }
    const bool any_ended = !std::includes(owners.begin(), owners.end(), owners_.begin(), owners_.end());
    if (any_ended) last_end_ = engine.counters().steps;
    owners_ = std::move(owners);
    if (engine.counters().steps - last_end_ < most_steps_) return;
    ++num_checked;
    EXPECT_EQ(pool.num_free() + int(used.size()), pool.num_blocks()) << "at step " << engine.counters().steps;
  }

  int num_checked = 0;

 private:
  const int most_steps_;
  std::set<SeqId> owners_;
  int64_t last_end_ = 0;
};

TEST_P(CancelTest, OthersAreUnchangedAndAllBlocksComeBack) {
  const CancelCase& test = GetParam();
  if (test.tp * test.pp > most_rig_ranks()) GTEST_SKIP() << "more ranks than GPUs";
  Workload workload = Workload::golden("llama-gqa-tied", 6, 56);  // few prompts: most requests share a prefix
  EngineRig rig(workload.rig_options(test.tp, test.pp));
  int64_t num_cancelled = 0, num_checked = 0, hits = 0, preemptions = 0, swapped = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const auto requests = workload.requests({.rule = rule(seed), .seed = seed, .min_requests = 40});
    auto engine = rig.make_engine(setup(test.proposer, seed, requests, rig));
    std::mt19937_64 random(seed);
    std::set<SeqId> cancelled;
    BlocksComeBack blocks(std::max(2, test.pp));
    const auto cancel_some = [&](Engine& running, int, std::span<const SeqId> ids) {
      blocks.check(running, running.pool(), ids);
      for (uint64_t i = random() % 8; i < 2; ++i) {
        const SeqId victim = ids[random() % ids.size()];  // waiting, running, ended or cancelled before
        running.cancel(victim);
        cancelled.insert(victim);
      }
      running.cancel(999'999);  // unknown: ignored
    };
    const RunReport report = run_checked(
        *engine, requests, {.before_step = cancel_some, .draft = rig.draft_proposer(), .cancelled = &cancelled});
    EXPECT_TRUE(report.clean()) << report.describe();
    num_checked += blocks.num_checked;
    num_cancelled += int64_t(cancelled.size());
    hits += report.prefix_hit_tokens;
    preemptions += report.counters.preemptions;
    swapped += report.counters.swapped_blocks;
  }
  EXPECT_GT(num_cancelled, 30);
  EXPECT_GT(num_checked, 30);
  EXPECT_GT(hits, 0);
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(swapped, 0);
}

/// What a loop has said of each of its requests; RequestIds count from 1.
struct Answers {
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<std::vector<int32_t>> token;
  std::vector<FinishReason> finish;
  size_t num_ended = 0;

  explicit Answers(size_t count) : token(count), finish(count, FinishReason::none) {}

  void take(std::span<const LoopEvent> events) {
    const std::lock_guard lock(mutex);
    for (const LoopEvent& event : events) {
      const size_t at = event.request - 1;
      EXPECT_EQ(finish[at], FinishReason::none) << "an event after the end of request " << at;
      token[at].insert(token[at].end(), event.emitted.token.begin(), event.emitted.token.end());
      finish[at] = event.emitted.finish;
      num_ended += finish[at] != FinishReason::none;
    }
    arrived.notify_all();
  }
};

// The engine on a thread of its own: requests come and are cancelled from others while it steps.
TEST_P(CancelTest, FromOtherThreads) {
  const CancelCase& test = GetParam();
  if (test.tp * test.pp > most_rig_ranks()) GTEST_SKIP() << "more ranks than GPUs";
  Workload workload = Workload::golden("llama-gqa-tied", 6, 56);
  EngineRig rig(workload.rig_options(test.tp, test.pp));
  int64_t num_cancelled = 0, preemptions = 0, hits = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const auto requests = workload.requests({.rule = rule(seed), .seed = seed, .min_requests = 80});
    Answers answers(requests.size());
    std::vector<bool> is_asked(requests.size());
    {
      EngineLoop loop(
          [&] { return std::shared_ptr<Engine>(rig.make_engine(setup(test.proposer, seed, requests, rig))); },
          [&](std::span<LoopEvent> events) { answers.take(events); });
      std::atomic<size_t> num_submitted{0};
      std::thread client([&] {
        std::map<uint64_t, RequestId> first_of;  // each prompt group
        for (size_t i = 0; i < requests.size(); ++i) {
          RequestId like = 0;
          if (const uint64_t group = requests[i].prompt_group; group != 0)
            like = first_of.emplace(group, i + 1).first->second;
          EXPECT_EQ(loop.submit(requests[i].prompt, requests[i].params, int64_t(i) + 1, like), i + 1);
          num_submitted = i + 1;
          std::unique_lock lock(answers.mutex);  // twice as many as run at once
          answers.arrived.wait(lock, [&] { return i + 1 < answers.num_ended + 16; });
        }
      });
      std::mt19937_64 random(seed);
      for (size_t ended = 0; ended < requests.size();) {
        if (const size_t count = num_submitted; count > 0 && random() % 4 == 0) {
          const size_t victim = count - 1 - random() % std::min<size_t>(count, 20);  // waiting, running or ended
          is_asked[victim] = true;
          loop.cancel(victim + 1);
        }
        std::unique_lock lock(answers.mutex);
        answers.arrived.wait_for(lock, std::chrono::milliseconds(1));
        ended = answers.num_ended;
      }
      client.join();
      std::promise<void> done;
      loop.post([&](Engine& engine) {
        while (!engine.idle()) engine.step();  // dead rows
        EXPECT_EQ(engine.pool().num_free(), engine.pool().num_blocks());
        EXPECT_EQ(engine.swap_space().num_free(), engine.swap_space().num_blocks());
        preemptions += engine.counters().preemptions;
        hits += engine.pool().prefix_hit_tokens();
        done.set_value();
      });
      done.get_future().wait();
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      const std::vector<int32_t>&said = answers.token[i], &expected = requests[i].expected;
      if (answers.finish[i] == FinishReason::cancelled) {
        EXPECT_TRUE(is_asked[i]);
        EXPECT_TRUE(said.size() <= expected.size() && std::equal(said.begin(), said.end(), expected.begin()));
        ++num_cancelled;
      } else {
        EXPECT_EQ(said, expected);
        EXPECT_EQ(answers.finish[i], requests[i].expected_finish);
      }
    }
  }
  EXPECT_GT(num_cancelled, 80);
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(hits, 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, CancelTest,
                         ::testing::Values(CancelCase{RigProposer::none, 1, 1}, CancelCase{RigProposer::ngram, 1, 1},
                                           CancelCase{RigProposer::draft, 1, 1}, CancelCase{RigProposer::ngram, 2, 2},
                                           CancelCase{RigProposer::self_draft, 1, 2},
                                           CancelCase{RigProposer::eagle3, 2, 1},
                                           CancelCase{{.name = "draft", .branches = true}, 1, 1}),
                         [](const auto& param) {
                           std::string name = rig_proposer_name(param.param.proposer);
                           std::erase(name, '-');
                           return name + "_tp" + std::to_string(param.param.tp) + "_pp" +
                                  std::to_string(param.param.pp);
                         });

}  // namespace
}  // namespace paceline::test
