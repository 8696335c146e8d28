#include "engine/engine_loop.h"

#include <exception>
#include <utility>

#include "kernels/thread_name.h"

namespace paceline {

EngineLoop::EngineLoop(MakeEngine make, Sink sink, std::shared_ptr<Failpoints> failpoints)
    : sink_(std::move(sink)), failpoints_(std::move(failpoints)) {
  std::promise<RequestLimits> made;
  std::future<RequestLimits> limits = made.get_future();
  thread_ = std::thread([this, make = std::move(make), made = std::move(made)]() mutable { run(make, made); });
  try {
    limits_ = limits.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

EngineLoop::~EngineLoop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    has_mail_.store(true, std::memory_order_release);
  }
  wake_.notify_one();
  thread_.join();
}

RequestId EngineLoop::submit(std::vector<int32_t> prompt, const SamplingParams& params, int64_t key, RequestId like) {
  limits_.output_room(prompt, params);
  const RequestId request = next_request_.fetch_add(1, std::memory_order_relaxed);
  num_open_.fetch_add(1, std::memory_order_relaxed);
  send(Submission{request, std::move(prompt), params, key, like});
  return request;
}

void EngineLoop::cancel(RequestId request) { send(Cancellation{request}); }

void EngineLoop::post(Work work) { send(std::move(work)); }

std::optional<Error> EngineLoop::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void EngineLoop::send(Letter letter) {
  {
    const std::lock_guard lock(mutex_);
    mailbox_.push_back(std::move(letter));
    has_mail_.store(true, std::memory_order_release);
  }
  wake_.notify_one();
}

bool EngineLoop::take_letters(std::vector<Letter>& letters, bool may_sleep) {
  letters.clear();
  if (!may_sleep && !has_mail_.load(std::memory_order_acquire)) return true;
  std::unique_lock lock(mutex_);
  if (may_sleep) wake_.wait(lock, [&] { return ending_ || !mailbox_.empty(); });
  std::swap(letters, mailbox_);
  has_mail_.store(ending_, std::memory_order_relaxed);
  return !ending_;
}

void EngineLoop::run(const MakeEngine& make, std::promise<RequestLimits>& made) {
  name_this_thread("engine");
  std::shared_ptr<Engine> engine;
  try {
    engine = make();
    made.set_value(engine->limits());
  } catch (...) {
    made.set_exception(std::current_exception());
    return;
  }
  serve(*engine);
}

void EngineLoop::serve(Engine& engine) {
  std::vector<Letter> letters;
  for (bool goes_on = true; goes_on;) {
    goes_on = take_letters(letters, has_failed_ || engine.idle());
    for (Letter& letter : letters) guard([&] { read(engine, letter); });
    if (goes_on && !has_failed_ && !engine.idle()) guard([&] { step(engine); });
    if (!goes_on) end_all(FinishReason::cancelled);
    hand_over();
  }
}

void EngineLoop::guard(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    fail_with(error);
  } catch (const std::exception& error) {
    fail_with(Error(ExitCode::internal, error.what()));
  }
}

void EngineLoop::read(Engine& engine, Letter& letter) {
  if (auto* const submission = std::get_if<Submission>(&letter)) {
    if (has_failed_) return end(submission->request, FinishReason::failed);
    SeqId& seq = open_[submission->request];  // known before the engine may fail
    const RequestId group = submission->like != 0 ? submission->like : submission->request;
    seq = engine.submit(std::move(submission->prompt), submission->params, submission->key, group);
    request_of_.emplace(seq, submission->request);
  } else if (const auto* const cancellation = std::get_if<Cancellation>(&letter)) {
    const auto found = open_.find(cancellation->request);
    if (found == open_.end()) return;
    engine.cancel(found->second);
    end(cancellation->request, FinishReason::cancelled);
  } else {
    std::get<Work>(letter)(engine);
  }
}

void EngineLoop::step(Engine& engine) {
  if (fails_at(failpoints_, Failpoint::step)) fail(ExitCode::comm, "a failpoint");
  for (Emitted& emitted : engine.step()) {
    const auto found = request_of_.find(emitted.seq);
    PACELINE_CHECK(found != request_of_.end(), "tokens of sequence {}, which has ended", emitted.seq);
    const RequestId request = found->second;
    if (emitted.finish != FinishReason::none) forget(request);
    events_.push_back({request, std::move(emitted)});
  }
}

void EngineLoop::end(RequestId request, FinishReason finish) {
  events_.push_back({.request = request, .emitted = {.seq = forget(request), .token = {}, .finish = finish}});
}

SeqId EngineLoop::forget(RequestId request) {
  const auto found = open_.find(request);
  if (found == open_.end()) return 0;
  const SeqId seq = found->second;
  request_of_.erase(seq);
  open_.erase(found);
  return seq;
}

void EngineLoop::end_all(FinishReason finish) {
  while (!open_.empty()) end(open_.begin()->first, finish);
}

void EngineLoop::fail_with(Error error) {
  has_failed_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
  }
  end_all(FinishReason::failed);
}

void EngineLoop::hand_over() {
  if (events_.empty()) return;
  int64_t ended = 0;
  for (const LoopEvent& event : events_) ended += event.emitted.finish != FinishReason::none;
  sink_(events_);
  events_.clear();
  num_open_.fetch_sub(ended, std::memory_order_relaxed);
}

}  // namespace paceline
