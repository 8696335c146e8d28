#include "engine/comm/rank_team.h"

#include <algorithm>

#include "engine/comm/nccl_comm.h"
#include "engine/util/clock.h"
#include "kernels/cpu/cores.h"

namespace paceline {
namespace {

/// How long a rank that has nothing to do looks for a job before it sleeps. A rank on a GPU has given out a step long
/// before the device ends it, and waking up takes longer than many a kernel.
constexpr auto kJobSpinTime = std::chrono::microseconds(50), kDeviceJobSpinTime = std::chrono::microseconds(50'000);

}  // namespace

RankTeam::RankTeam(const TeamOptions& options) : options_(options), marks_(std::max(1, options.placement.num_ranks())) {
  const Placement& placement = options_.placement;
  PACELINE_CHECK(placement.tp >= 1 && placement.pp >= 1 && options_.threads_per_rank >= 1,
                 "tp {} pp {} threads_per_rank {}", placement.tp, placement.pp, options_.threads_per_rank);
  const int count = num_ranks();
  oversubscribed_ = count * options_.threads_per_rank > usable_cores();
  ThreadGroupOptions group{
      .size = count, .timeout_s = options_.timeout_s, .may_spin = !oversubscribed_, .marks = &marks_};
  for (int index = 0; index < count; ++index) {
    workers_.push_back(std::make_unique<Worker>());
    group.logs.push_back(&workers_.back()->rank.activity);
  }
  auto worlds = make_thread_group(group);
  for (int index = 0; index < count; ++index) {
    Worker* const worker = workers_[size_t(index)].get();
    worker->rank.index = index;
    worker->rank.marks = &marks_;
    worker->rank.stage = index / placement.tp;
    worker->rank.shard = index % placement.tp;
    worker->rank.world = std::move(worlds[size_t(index)]);
    worker->rank.alone = std::move(make_thread_group({.size = 1}).front());
  }
  try {
    for (auto& worker : workers_) {
      if (worker->rank.index != deciding_rank())
        worker->thread = std::thread([this, raw = worker.get()] { worker_loop(*raw); });
    }
    // Backends and sub-groups are made on the rank's own thread: first touch, and split is a collective.
    run_on_all([this](Rank& rank) {
      const auto& devices = options_.placement.devices;
      const std::string device = devices.empty() ? "cpu" : devices[size_t(rank.index)];
      const bool has_peers = num_ranks() > 1;
      const PeerWatch peers{.failed = has_peers ? &failed_ : nullptr,
                            .timeout_s = options_.timeout_s,
                            .marks = has_peers ? &marks_ : nullptr,
                            .rank = rank.index};
      rank.backend = make_backend(device, {.threads = options_.threads_per_rank,
                                           .may_spin = !oversubscribed_,
                                           .peers = peers,
                                           .isa = options_.isa,
                                           .numerics = options_.numerics,
                                           .graphs = options_.graphs});
      if (num_ranks() > 1 && device != "cpu") {  // the world stays in place, and can be aborted, until it is replaced
        auto joined = make_nccl_comm(rank.world->split(0, rank.index), *rank.backend, peers);
        const std::lock_guard lock(workers_[size_t(rank.index)]->world_mutex);
        rank.world.swap(joined);
      }
      rank.shards = rank.world->split(rank.stage, rank.shard);
    });
  } catch (...) {
    stop();
    throw;
  }
}

RankTeam::~RankTeam() { stop(); }

void RankTeam::stop() noexcept {
  const Worker& deciding = *workers_[size_t(deciding_rank())];
  if (failed_.load() ||
      deciding.num_done < deciding.num_posted) {  // peers would wait for jobs that nobody runs any more
    abort_worlds("the engine is shutting down");
  }
  for (auto& worker : workers_) {
    {
      std::lock_guard lock(worker->mutex);
      worker->stop = true;
    }
    worker->wake.notify_all();
  }
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

uint64_t RankTeam::post(int rank, Job job) {
  rethrow_if_failed();
  return enqueue(rank, std::move(job));
}

uint64_t RankTeam::enqueue(int rank, Job job) {
  Worker& worker = *workers_[size_t(rank)];
  uint64_t number = 0;
  {
    std::lock_guard lock(worker.mutex);
    worker.jobs.push_back(std::move(job));
    number = ++worker.num_posted;
    worker.posted_hint.store(number, std::memory_order_release);
  }
  if (rank != deciding_rank()) worker.wake.notify_one();
  return number;
}

void RankTeam::wait_deciding(uint64_t job) {
  run_deciding(job);
  rethrow_if_failed();
}

void RankTeam::run_deciding(uint64_t job) {
  Worker& worker = *workers_[size_t(deciding_rank())];
  while (worker.num_done < job && !failed_.load(std::memory_order_acquire)) {
    Job next;
    {
      std::lock_guard lock(worker.mutex);
      PACELINE_CHECK(!worker.jobs.empty(), "waiting for job {} of {}", job, worker.num_posted);
      next = std::move(worker.jobs.front());
      worker.jobs.pop_front();
    }
    run_job(worker, next);
    ++worker.num_done;
  }
}

void RankTeam::run_inline(const Job& job) {
  rethrow_if_failed();
  Job copy = job;
  run_job(*workers_[size_t(deciding_rank())], copy);
  rethrow_if_failed();
}

void RankTeam::wait_all() {
  run_deciding(workers_[size_t(deciding_rank())]->num_posted);
  // Also after a failure: a job that still runs on another rank uses what the caller is about to free.
  for (auto& worker : workers_) {
    if (worker->rank.index == deciding_rank()) continue;
    std::unique_lock lock(worker->mutex);
    worker->progress.wait(lock, [&] { return worker->num_done == worker->num_posted; });
  }
  rethrow_if_failed();
}

void RankTeam::run_on_all(const Job& job) {
  rethrow_if_failed();
  for (int index = 0; index < num_ranks(); ++index) enqueue(index, job);
  wait_all();
}

void RankTeam::worker_loop(Worker& worker) {
  const auto& devices = options_.placement.devices;
  const bool on_device = !devices.empty() && cuda_index(devices[size_t(worker.rank.index)]) >= 0;
  uint64_t seen = 0;
  Job pause = [](Rank& rank) { rank.backend->pause_work(); };
  for (;;) {
    if (!oversubscribed_) {
      const auto spin_end = Clock::now() + (on_device ? kDeviceJobSpinTime : kJobSpinTime);
      while (worker.posted_hint.load(std::memory_order_acquire) == seen && Clock::now() < spin_end) {
      }
    }
    Job job;
    {
      std::unique_lock lock(worker.mutex);
      worker.wake.wait(lock, [&] { return worker.stop || !worker.jobs.empty(); });
      if (worker.jobs.empty()) return;
      job = std::move(worker.jobs.front());
      worker.jobs.pop_front();
    }
    run_job(worker, job);
    // still within the job, for whoever waits for it
    if (worker.posted_hint.load(std::memory_order_acquire) == seen + 1) run_job(worker, pause);
    ++seen;
    {
      std::lock_guard lock(worker.mutex);
      worker.num_done = seen;
    }
    worker.progress.notify_all();
  }
}

void RankTeam::run_job(Worker& worker, Job& job) noexcept {
  if (failed_.load(std::memory_order_acquire)) return;  // after a failure the remaining jobs are dropped
  marks_.mark(worker.rank.index);
  const auto start = Clock::now();
  try {
    job(worker.rank);
  } catch (...) {
    record_error(std::current_exception(), worker.rank.index);
  }
  worker.rank.busy_s += seconds_since(start);
}

void RankTeam::record_error(std::exception_ptr error, int rank) noexcept {
  std::string reason = fmt::format("rank {} failed", rank);
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    reason = fmt::format("rank {} failed: {}", rank, e.what());
  } catch (...) {
  }
  {
    std::lock_guard lock(error_mutex_);
    if (!error_) error_ = error;
  }
  failed_.store(true, std::memory_order_release);
  abort_worlds(reason);
}

void RankTeam::abort_worlds(const std::string& reason) noexcept {
  for (auto& worker : workers_) {
    const std::lock_guard lock(worker->world_mutex);
    worker->rank.world->abort(reason);
  }
}

void RankTeam::rethrow_if_failed() {
  if (!failed_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(error_mutex_);
  if (error_) std::rethrow_exception(error_);
}

}  // namespace paceline
