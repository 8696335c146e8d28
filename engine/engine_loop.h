#pragma once
// An engine on a thread of its own, for callers on other threads: the front end of a server, a client in the same
// process. Whoever measures steps one engine by itself steps it without a loop.
//
//   callers:   submit, cancel, post ──▶ mailbox          sink ──▶ callers
//                                          │ emptied between steps  ▲ once a step
//   loop:      make ─▶ [ letters ─▶ step ──┴────────────────────────┘ ]* ─▶ end

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "engine/util/failpoints.h"
#include "kernels/error.h"

namespace paceline {

/// A request's name at its loop; never used twice.
using RequestId = uint64_t;

/// What a step has made final for one request. The last event of a request, and no other, has a finish: its own end,
/// cancelled, or failed where the engine failed (EngineLoop::failure says why). Each request has exactly one.
struct LoopEvent {
  RequestId request = 0;
  Emitted emitted;  // seq: the engine's own name
};

class EngineLoop {
 public:
  /// Runs on the loop's thread: an engine together with all that it runs on, which the pointer owns.
  using MakeEngine = std::function<std::shared_ptr<Engine>()>;

  /// Runs on the loop's thread, at most once a step, with all that the step has made final, in the order in which it
  /// was made. The next step waits for it: it hands the events over and returns. May move from them. Must not throw.
  using Sink = std::function<void(std::span<LoopEvent>)>;

  /// What a caller asks of the engine between two steps.
  using Work = std::function<void(Engine&)>;

  /// Returns once the engine is made; throws what `make` throws. failpoints: of tests; step.
  EngineLoop(MakeEngine make, Sink sink, std::shared_ptr<Failpoints> failpoints = nullptr);

  /// Does what was posted before, ends every open request with an event, and destroys the engine on its thread.
  /// The sink is not called afterwards.
  ~EngineLoop();

  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // All below: from any thread, the sink's too. None of them waits for a step.

  const RequestLimits& limits() const { return limits_; }

  /// Throws Error(usage) as RequestLimits::output_room; the engine never sees such a request. key: Sequence::key.
  /// like: a request of the same prompt, with which this one shares the work on it; 0: none.
  RequestId submit(std::vector<int32_t> prompt, const SamplingParams& params, int64_t key = 0, RequestId like = 0);

  /// The request's last event follows: cancelled, or its own end where that came first. Names of requests that are
  /// unknown or have ended are ignored.
  void cancel(RequestId request);

  /// `work` runs between two steps, after what was asked before it; also when the engine has failed. Errors that it
  /// throws are the engine's failure: counters are read, a prefix cache is emptied, nothing else.
  void post(Work work);

  /// Requests whose last event has not been handed to the sink.
  int64_t num_open() const { return num_open_.load(std::memory_order_relaxed); }

  /// Why the engine failed; it takes no step afterwards, and requests submitted from then on end as failed.
  std::optional<Error> failure() const;

 private:
  struct Submission {
    RequestId request;
    std::vector<int32_t> prompt;
    SamplingParams params;
    int64_t key;
    RequestId like;
  };
  struct Cancellation {
    RequestId request;
  };
  using Letter = std::variant<Submission, Cancellation, Work>;

  void send(Letter letter);
  /// What has come since the last call; waits for a letter or the end where `may_sleep`. False: the end has come.
  bool take_letters(std::vector<Letter>& letters, bool may_sleep);

  // On the loop's thread.
  void run(const MakeEngine& make, std::promise<RequestLimits>& made);
  void serve(Engine& engine);
  /// What it throws is the engine's failure.
  void guard(const std::function<void()>& action);
  void read(Engine& engine, Letter& letter);
  void step(Engine& engine);
  /// Notes the last event of a request.
  void end(RequestId request, FinishReason finish);
  void end_all(FinishReason finish);
  /// The request is open no longer; what the engine called it, 0 where it had no name there.
  SeqId forget(RequestId request);
  void fail_with(Error error);
  void hand_over();

  const Sink sink_;
  const std::shared_ptr<Failpoints> failpoints_;
  RequestLimits limits_;

  mutable std::mutex mutex_;  // over the next four
  std::condition_variable wake_;
  std::vector<Letter> mailbox_;
  bool ending_ = false;
  std::optional<Error> failure_;
  std::atomic<bool> has_mail_{false};  // the mailbox holds a letter, or ending_: seen without the lock

  std::atomic<RequestId> next_request_{1};
  std::atomic<int64_t> num_open_{0};

  // The loop's own.
  std::map<RequestId, SeqId> open_;  // in order of arrival
  std::unordered_map<SeqId, RequestId> request_of_;
  std::vector<LoopEvent> events_;  // since the sink was called
  bool has_failed_ = false;

  std::thread thread_;  // last: it uses all above
};

}  // namespace paceline
