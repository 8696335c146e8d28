#include "engine/comm/rank_team.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "engine/comm/nccl_comm.h"
#include "engine/util/clock.h"
#include "kernels/cpu/cores.h"
#include "kernels/thread_name.h"

namespace paceline {
namespace {

/// How long a rank that has nothing to do looks for a job before it sleeps. A rank on a GPU has given out a step long
/// before the device ends it, and waking up takes longer than many a kernel.
constexpr auto kJobSpinTime = std::chrono::microseconds(50), kDeviceJobSpinTime = std::chrono::microseconds(50'000);

/// What a rank has at least, after a failure, to see it and come out of its job.
constexpr auto kTimeToComeOut = std::chrono::seconds(1);
/// How often a wait for a rank looks whether it still makes marks.
constexpr auto kLookAtMarks = std::chrono::milliseconds(20);

}  // namespace

struct RankTeam::Worker {
  Rank rank;
  std::mutex world_mutex;  // rank.world is replaced, or aborted by any thread
  std::mutex mutex;
  std::condition_variable wake;      // job added, or stop
  std::condition_variable progress;  // job done
  std::deque<Job> jobs;
  uint64_t num_posted = 0;
  uint64_t num_done = 0;
  uint64_t borrowing_job = 0;            // number of the last one of run_on_all, which uses the caller's frame
  std::atomic<uint64_t> posted_hint{0};  // num_posted, for the short spin before sleeping
  bool stop = false;
  bool is_lost = false;
  std::thread thread;  // not joinable for the deciding rank
};

struct RankTeam::Ranks {
  explicit Ranks(const TeamOptions& options)
      : oversubscribed(options.placement.num_ranks() * options.threads_per_rank > usable_cores()),
        marks(std::max(1, options.placement.num_ranks())) {}

  void worker_loop(Worker& worker, bool on_device);
  void run_job(Worker& worker, Job& job) noexcept;
  void record_error(std::exception_ptr error, int rank) noexcept;
  void abort_worlds(const std::string& reason) noexcept;
  RankMarks::Time failure_time() {
    const std::lock_guard lock(error_mutex);
    return failed_at;
  }

  const bool oversubscribed;
  RankMarks marks;  // one with each job, beside those of the jobs themselves
  std::vector<std::unique_ptr<Worker>> workers;
  std::atomic<bool> failed{false};
  std::mutex error_mutex;
  std::exception_ptr error;
  RankMarks::Time failed_at;  // of the marks' clock
};

RankTeam::RankTeam(const TeamOptions& options) : options_(options), ranks_(std::make_shared<Ranks>(options)) {
  const Placement& placement = options_.placement;
  PACELINE_CHECK(placement.tp >= 1 && placement.pp >= 1 && options_.threads_per_rank >= 1,
                 "tp {} pp {} threads_per_rank {}", placement.tp, placement.pp, options_.threads_per_rank);
  const int count = num_ranks();
  ThreadGroupOptions group{
      .size = count, .timeout_s = options_.timeout_s, .may_spin = !oversubscribed(), .marks = &ranks_->marks};
  for (int index = 0; index < count; ++index) {
    ranks_->workers.push_back(std::make_unique<Worker>());
    group.logs.push_back(&ranks_->workers.back()->rank.activity);
  }
  auto worlds = make_thread_group(group);
  for (int index = 0; index < count; ++index) {
    Rank& rank = ranks_->workers[size_t(index)]->rank;
    rank.index = index;
    rank.marks = &ranks_->marks;
    rank.stage = index / placement.tp;
    rank.shard = index % placement.tp;
    rank.world = std::move(worlds[size_t(index)]);
    rank.alone = std::move(make_thread_group({.size = 1}).front());
  }
  try {
    for (auto& worker : ranks_->workers) {
      if (worker->rank.index == deciding_rank()) continue;
      const bool on_device =
          !placement.devices.empty() && cuda_index(placement.devices[size_t(worker->rank.index)]) >= 0;
      worker->thread =
          std::thread([ranks = ranks_, raw = worker.get(), on_device] { ranks->worker_loop(*raw, on_device); });
    }
    // Backends and sub-groups are made on the rank's own thread: first touch, and split is a collective.
    run_on_all([this](Rank& rank) {
      const auto& devices = options_.placement.devices;
      const std::string device = devices.empty() ? "cpu" : devices[size_t(rank.index)];
      const bool has_peers = num_ranks() > 1;
      const PeerWatch peers{.failed = has_peers ? &ranks_->failed : nullptr,
                            .timeout_s = options_.timeout_s,
                            .marks = has_peers ? &ranks_->marks : nullptr,
                            .rank = rank.index};
      rank.backend = make_backend(device, {.threads = options_.threads_per_rank,
                                           .may_spin = !oversubscribed(),
                                           .peers = peers,
                                           .isa = options_.isa,
                                           .numerics = options_.numerics,
                                           .graphs = options_.graphs,
                                           .early_starts = options_.early_starts});
      if (num_ranks() > 1 && device != "cpu") {  // the world stays in place, and can be aborted, until it is replaced
        auto joined = make_nccl_comm(rank.world->split(0, rank.index), *rank.backend, peers);
        const std::lock_guard lock(worker(rank.index).world_mutex);
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

bool RankTeam::oversubscribed() const { return ranks_->oversubscribed; }

RankTeam::Worker& RankTeam::worker(int rank) { return *ranks_->workers[size_t(rank)]; }

Rank& RankTeam::rank(int index) { return worker(index).rank; }

void RankTeam::stop() noexcept {
  const Worker& deciding = worker(deciding_rank());
  if (ranks_->failed.load() ||
      deciding.num_done < deciding.num_posted) {  // peers would wait for jobs that nobody runs any more
    ranks_->abort_worlds("the engine is shutting down");
  }
  for (auto& worker : ranks_->workers) {
    {
      std::lock_guard lock(worker->mutex);
      worker->stop = true;
    }
    worker->wake.notify_all();
  }
  for (auto& worker : ranks_->workers) {
    if (!worker->thread.joinable()) continue;
    if (wait_for(*worker))
      worker->thread.join();
    else
      worker->thread.detach();
  }
  worker(deciding_rank()).jobs.clear();  // that nobody ran: what they own may need the ranks' backends
}

uint64_t RankTeam::post(int rank, Job job) {
  rethrow_if_failed();
  return enqueue(rank, std::move(job));
}

uint64_t RankTeam::enqueue(int rank, Job job) {
  Worker& worker = this->worker(rank);
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
  Worker& worker = this->worker(deciding_rank());
  while (worker.num_done < job) {  // after a failure run_job drops them, with what they own
    Job next;
    {
      std::lock_guard lock(worker.mutex);
      PACELINE_CHECK(!worker.jobs.empty(), "waiting for job {} of {}", job, worker.num_posted);
      next = std::move(worker.jobs.front());
      worker.jobs.pop_front();
    }
    ranks_->run_job(worker, next);
    ++worker.num_done;
  }
}

void RankTeam::run_inline(const Job& job) {
  rethrow_if_failed();
  Job copy = job;
  ranks_->run_job(worker(deciding_rank()), copy);
  rethrow_if_failed();
}

bool RankTeam::wait_for(Worker& worker) noexcept {
  const auto timeout = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_s));
  RankMarks& marks = ranks_->marks;
  const RankMarks::Time begin = marks.now();
  const int rank = worker.rank.index;
  std::unique_lock lock(worker.mutex);
  while (worker.num_done < worker.num_posted && !worker.is_lost) {
    const bool is_borrowing = worker.num_done + 1 == worker.borrowing_job;
    const bool has_failed = ranks_->failed.load(std::memory_order_acquire);
    const auto give_up_at = has_failed ? std::max(ranks_->failure_time() + kTimeToComeOut, marks.newest(rank) + timeout)
                                       : std::max(begin, marks.newest(rank)) + timeout;
    if (is_borrowing || marks.now() < give_up_at) {
      worker.progress.wait_for(lock, kLookAtMarks);
    } else if (has_failed) {
      worker.is_lost = true;
    } else {
      lock.unlock();
      const std::string story = marks.story(rank, options_.timeout_s);
      ranks_->record_error(
          std::make_exception_ptr(Error(ExitCode::comm, fmt::format("the engine waits for {}", story))), rank);
      lock.lock();
    }
  }
  return !worker.is_lost;
}

void RankTeam::wait_all() {
  run_deciding(worker(deciding_rank()).num_posted);
  // Also after a failure: a job that still runs on another rank uses what the caller is about to free.
  for (auto& worker : ranks_->workers)
    if (worker->rank.index != deciding_rank()) wait_for(*worker);
  rethrow_if_failed();
}

void RankTeam::run_on_all(const Job& job) {
  rethrow_if_failed();
  for (int index = 0; index < num_ranks(); ++index) {
    const std::lock_guard lock(worker(index).mutex);
    worker(index).borrowing_job = worker(index).num_posted + 1;
  }
  post_on_all(job);
}

void RankTeam::post_on_all(const Job& job) {
  rethrow_if_failed();
  for (int index = 0; index < num_ranks(); ++index) enqueue(index, job);
  wait_all();
}

bool RankTeam::has_lost_rank() noexcept {
  if (!ranks_->failed.load(std::memory_order_acquire)) return false;
  bool is_lost = false;
  for (auto& worker : ranks_->workers)
    if (worker->rank.index != deciding_rank() && !wait_for(*worker)) is_lost = true;
  return is_lost;
}

void RankTeam::rethrow_if_failed() {
  if (!ranks_->failed.load(std::memory_order_acquire)) return;
  std::lock_guard lock(ranks_->error_mutex);
  if (ranks_->error) std::rethrow_exception(ranks_->error);
}

void RankTeam::Ranks::worker_loop(Worker& worker, bool on_device) {
  name_this_thread(fmt::format("rank {}", worker.rank.index));
  uint64_t seen = 0;
  Job pause = [](Rank& rank) { rank.backend->pause_work(); };
  for (;;) {
    if (!oversubscribed) {
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
    job = nullptr;  // what it owns goes before anybody takes it for done
    ++seen;
    {
      std::lock_guard lock(worker.mutex);
      worker.num_done = seen;
    }
    worker.progress.notify_all();
  }
}

void RankTeam::Ranks::run_job(Worker& worker, Job& job) noexcept {
  if (failed.load(std::memory_order_acquire)) return;  // after a failure the remaining jobs are dropped
  marks.mark(worker.rank.index);
  const auto start = Clock::now();
  try {
    job(worker.rank);
  } catch (...) {
    record_error(std::current_exception(), worker.rank.index);
  }
  worker.rank.busy_s += seconds_since(start);
}

void RankTeam::Ranks::record_error(std::exception_ptr error_of_rank, int rank) noexcept {
  std::string reason = fmt::format("rank {} failed", rank);
  try {
    std::rethrow_exception(error_of_rank);
  } catch (const std::exception& e) {
    reason = fmt::format("rank {} failed: {}", rank, e.what());
  } catch (...) {
  }
  {
    std::lock_guard lock(error_mutex);
    if (!error) {
      error = error_of_rank;
      failed_at = marks.now();
    }
  }
  failed.store(true, std::memory_order_release);
  abort_worlds(reason);
}

void RankTeam::Ranks::abort_worlds(const std::string& reason) noexcept {
  for (auto& worker : workers) {
    const std::lock_guard lock(worker->world_mutex);
    worker->rank.world->abort(reason);
  }
}

}  // namespace paceline
