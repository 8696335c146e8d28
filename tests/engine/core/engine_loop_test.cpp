// The engine's own thread: what callers on others ask arrives, each request ends once, a failure reaches everybody.

#include "engine/engine_loop.h"

#include <ctime>
#include <pthread.h>
#include <random>
#include <set>

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

/// What the sink was given; any thread may wait for it.
class Inbox {
 public:
  EngineLoop::Sink sink() {
    return [this](std::span<LoopEvent> events) {
      const std::lock_guard lock(mutex_);
      batches_.push_back(int(events.size()));
      for (LoopEvent& event : events) {
        EXPECT_EQ(finish_.count(event.request), 0u) << "an event after the end of request " << event.request;
        auto& text = text_[event.request];
        text.insert(text.end(), event.emitted.token.begin(), event.emitted.token.end());
        if (event.emitted.finish != FinishReason::none) finish_[event.request] = event.emitted.finish;
      }
      arrived_.notify_all();
    };
  }

  FinishReason wait_for_end(RequestId request) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, kPatience, [&] { return finish_.contains(request); });
    return finish_.contains(request) ? finish_.at(request) : FinishReason::none;
  }
  void wait_for_tokens(RequestId request, size_t count) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, kPatience, [&] { return text_[request].size() >= count || finish_.contains(request); });
  }
  std::vector<int32_t> text(RequestId request) {
    const std::lock_guard lock(mutex_);
    return text_[request];
  }
  std::map<RequestId, FinishReason> finish() {
    const std::lock_guard lock(mutex_);
    return finish_;
  }
  std::vector<int> batches() {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  static constexpr std::chrono::seconds kPatience{20};  // what never comes fails the test

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<RequestId, std::vector<int32_t>> text_;
  std::map<RequestId, FinishReason> finish_;
  std::vector<int> batches_;  // events of each call
};

/// The engine of a fake rig, which the pointer owns.
EngineLoop::MakeEngine make_fake(const FakeRigOptions& options) {
  return [options] {
    auto rig = std::make_shared<FakeRig>(options);
    return std::shared_ptr<Engine>(rig, rig->engine.get());
  };
}

/// Does `work` on the loop's thread and waits for it.
void run_between_steps(EngineLoop& loop, const EngineLoop::Work& work) {
  std::promise<void> done;
  loop.post([&](Engine& engine) {
    work(engine);
    done.set_value();
  });
  done.get_future().wait();
}

FakeRigOptions drafting(int draft_len = 3) {
  FakeRigOptions options;
  options.draft_len = draft_len;
  options.proposer = FakeProposer::Options{};
  return options;
}

TEST(EngineLoop, RequestsOfManyThreadsSayWhatTheySayAlone) {
  const FakeRigOptions options = drafting();
  FakeRig alone(options);
  Inbox inbox;
  EngineLoop loop(make_fake(options), inbox.sink());
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 25; ++i) {
        const auto prompt = some_prompt(3 + i % 7, caller * 100 + i);
        const SamplingParams params = greedy_params(1 + i % 20);
        const RequestId request = loop.submit(prompt, params);
        if (i % 5 == 0) inbox.wait_for_end(request);  // the loop falls asleep now and then
        EXPECT_EQ(inbox.wait_for_end(request), FinishReason::length);
        EXPECT_EQ(inbox.text(request), alone.expected_text(prompt, params)) << "caller " << caller << " request " << i;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(inbox.finish().size(), 100u);
  run_between_steps(loop, [](Engine& engine) {
    EXPECT_TRUE(engine.idle());
    EXPECT_EQ(engine.pool().num_free(), engine.pool().num_blocks());
  });
  EXPECT_EQ(loop.num_open(), 0);
}

// All that a step makes final comes in one call, and a call holds nothing twice.
TEST(EngineLoop, EventsComeOnceAStep) {
  Inbox inbox;
  EngineLoop loop(make_fake({}), inbox.sink());
  std::vector<RequestId> requests;
  run_between_steps(loop, [&](Engine&) {  // holds the loop until all four are in the mailbox
    for (int i = 0; i < 4; ++i) requests.push_back(loop.submit(some_prompt(5, i), greedy_params(10)));
  });
  for (const RequestId request : requests) inbox.wait_for_end(request);
  EXPECT_EQ(inbox.batches(), std::vector<int>(10, 4));
}

TEST(EngineLoop, ACancelEndsWithAnEvent) {
  Inbox inbox;
  FakeRigOptions options;
  options.max_num_seqs = 1;
  EngineLoop* loop_of_sink = nullptr;
  RequestId running = 0, waiting = 0, unread = 0;
  EngineLoop loop(make_fake(options), [&, to_inbox = inbox.sink()](std::span<LoopEvent> events) {
    for (const LoopEvent& event : events)  // with its first token: read before the next step
      if (event.request == running && event.emitted.finish == FinishReason::none) loop_of_sink->cancel(running);
    to_inbox(events);
  });
  loop_of_sink = &loop;
  run_between_steps(loop, [&](Engine&) {
    running = loop.submit(some_prompt(5, 1), greedy_params(90));
    waiting = loop.submit(some_prompt(5, 2), greedy_params(90));
    unread = loop.submit(some_prompt(5, 3), greedy_params(90));
    loop.cancel(unread);  // in the mailbox still
    loop.cancel(unread);
    loop.cancel(777);
  });
  EXPECT_EQ(inbox.wait_for_end(unread), FinishReason::cancelled);
  EXPECT_EQ(inbox.wait_for_end(running), FinishReason::cancelled);
  EXPECT_EQ(inbox.text(running).size(), 1u);
  EXPECT_TRUE(inbox.text(unread).empty());
  EXPECT_EQ(inbox.wait_for_end(waiting), FinishReason::length);
  loop.cancel(waiting);  // has ended
  run_between_steps(loop, [](Engine& engine) {
    while (!engine.idle()) engine.step();
    EXPECT_EQ(engine.pool().num_free(), engine.pool().num_blocks());
  });
  EXPECT_EQ(inbox.finish().size(), 3u);
}

// Submitted, cancelled at random from two threads: each request ends once, and what was not cancelled is whole.
TEST(EngineLoop, RandomCancelsLeaveTheOthersAlone) {
  FakeRigOptions options = drafting();
  options.model.num_blocks = 18;
  options.model.num_host_blocks = 9;
  options.micro_batches = 2;
  options.caching = PrefixCaching::on;
  FakeRig alone(options);
  Inbox inbox;
  std::set<RequestId> asked;
  std::map<RequestId, std::vector<int32_t>> expected;
  {
    EngineLoop loop(make_fake(options), inbox.sink());
    std::atomic<RequestId> newest{0};
    std::atomic<bool> over{false};
    std::thread canceller([&] {  // of every third request, whenever it likes
      std::mt19937 random(5);
      while (!over) {
        if (const RequestId at = newest; at > 0) loop.cancel((1 + random() % at) / 3 * 3);
        std::this_thread::yield();
      }
    });
    std::mt19937 random(7);
    for (int i = 0; i < 600; ++i) {
      auto prompt = some_prompt(8, int(random() % 2));
      for (unsigned more = random() % 12; more > 0; --more) prompt.push_back(int32_t(random() % 23));
      const SamplingParams params = greedy_params(1 + int(random() % 20));
      const RequestId request = loop.submit(prompt, params);
      expected[request] = alone.expected_text(prompt, params);
      if (request % 3 == 0) asked.insert(request);
      if (request % 3 == 0 && random() % 2) loop.cancel(request);
      newest = request;
      if (i % 20 == 0) inbox.wait_for_end(request);
    }
    for (const auto& [request, text] : expected) inbox.wait_for_end(request);
    over = true;
    canceller.join();
    run_between_steps(loop, [](Engine& engine) {
      while (!engine.idle()) engine.step();
      engine.pool().check();
      EXPECT_EQ(engine.pool().num_free(), engine.pool().num_blocks());
      EXPECT_EQ(engine.swap_space().num_free(), engine.swap_space().num_blocks());
    });
  }
  int num_cancelled = 0;
  for (const auto& [request, text] : expected) {
    const std::vector<int32_t> said = inbox.text(request);
    if (inbox.finish()[request] == FinishReason::cancelled) {
      ++num_cancelled;
      EXPECT_TRUE(asked.contains(request));
      EXPECT_TRUE(said.size() <= text.size() && std::equal(said.begin(), said.end(), text.begin()));
    } else {
      EXPECT_EQ(said, text) << "request " << request;
    }
  }
  EXPECT_GT(num_cancelled, 50);
}

TEST(EngineLoop, ABadRequestFailsWhereItIsMade) {
  Inbox inbox;
  EngineLoop loop(make_fake({}), inbox.sink());
  expect_error(ExitCode::usage, {"prompt", "0 tokens"}, [&] { loop.submit({}, greedy_params(5)); });
  expect_error(ExitCode::usage, {"token 23", "position 1"}, [&] { loop.submit({1, 23}, greedy_params(5)); });
  expect_error(ExitCode::usage, {"max_tokens", "0"}, [&] { loop.submit({1}, greedy_params(0)); });
  EXPECT_EQ(loop.num_open(), 0);
  const RequestId good = loop.submit({1, 2}, greedy_params(5));
  EXPECT_EQ(inbox.wait_for_end(good), FinishReason::length);
  EXPECT_EQ(inbox.finish().size(), 1u);
}

TEST(EngineLoop, AnEngineThatCannotBeMadeIsTheCallersError) {
  Inbox inbox;
  const EngineLoop::MakeEngine make = []() -> std::shared_ptr<Engine> { fail(ExitCode::model_file, "no model"); };
  expect_error(ExitCode::model_file, {"no model"}, [&] { EngineLoop(make, inbox.sink()); });
}

// The step that fails ends all requests; so do those that come later; counters can still be read.
TEST(EngineLoop, AFailureReachesEverybody) {
  Inbox inbox;
  EngineLoop loop(make_fake({}), inbox.sink());
  const RequestId first = loop.submit(some_prompt(5, 1), greedy_params(90));
  std::promise<void> release;
  loop.post([&, wait = release.get_future().share()](Engine&) {
    wait.wait();
    fail(ExitCode::comm, "rank 1 is gone");
  });
  const RequestId behind = loop.submit(some_prompt(5, 2), greedy_params(90));  // in the mailbox with it
  EXPECT_FALSE(loop.failure().has_value());
  release.set_value();
  EXPECT_NE(inbox.wait_for_end(first), FinishReason::none);
  EXPECT_EQ(inbox.wait_for_end(behind), FinishReason::failed);
  ASSERT_TRUE(loop.failure().has_value());
  EXPECT_EQ(loop.failure()->code(), ExitCode::comm);
  EXPECT_STREQ(loop.failure()->what(), "rank 1 is gone");
  const RequestId late = loop.submit(some_prompt(5, 3), greedy_params(5));
  EXPECT_EQ(inbox.wait_for_end(late), FinishReason::failed);
  EXPECT_TRUE(inbox.text(late).empty());
  int64_t steps = 0;
  run_between_steps(loop, [&](Engine& engine) { steps = engine.counters().steps; });
  run_between_steps(loop,
                    [&](Engine& engine) { EXPECT_EQ(engine.counters().steps, steps) << "steps after a failure"; });
  EXPECT_EQ(inbox.finish().size(), 3u);
}

TEST(EngineLoop, TheEndCancelsWhatIsOpen) {
  Inbox inbox;
  RequestId running = 0, waiting = 0;
  bool was_run = false;
  {
    FakeRigOptions options;
    options.max_num_seqs = 1;
    EngineLoop loop(make_fake(options), inbox.sink());
    run_between_steps(loop, [&](Engine&) {
      running = loop.submit(some_prompt(5, 1), greedy_params(90));
      waiting = loop.submit(some_prompt(5, 2), greedy_params(90));
      loop.post([&](Engine&) {
        was_run = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // meanwhile the end begins
      });
    });
  }
  EXPECT_TRUE(was_run);
  EXPECT_EQ(inbox.finish().size(), 2u);
  EXPECT_EQ(inbox.finish()[waiting], FinishReason::cancelled);
}

TEST(EngineLoop, SleepsWithoutRequests) {
  Inbox inbox;
  EngineLoop loop(make_fake({}), inbox.sink());
  clockid_t clock{};
  run_between_steps(loop, [&](Engine&) { ASSERT_EQ(pthread_getcpuclockid(pthread_self(), &clock), 0); });
  const auto cpu_ms = [&] {
    timespec now{};
    clock_gettime(clock, &now);
    return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
  };
  const double before = cpu_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(cpu_ms() - before, 20.0);
}

}  // namespace
}  // namespace paceline
