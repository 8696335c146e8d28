// Ranks as threads of one process. A collective is: put your data where peers can read it, advance your own
// counter, wait for the counters of the others. Staging buffers rotate, so that one wait per collective is
// enough: a rank that writes stage i + 2 knows that all peers have finished reading stage i.

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>

#include "engine/comm/activity_log.h"
#include "engine/comm/communicator.h"
#include "engine/comm/deadline_wait.h"
#include "engine/util/clock.h"
#include "kernels/math/tree_sum.h"
#include "kernels/rank_marks.h"

namespace paceline {
namespace {

/// Shared by all groups that come from one make_thread_group call.
struct AbortGroup {
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::string reason;
  double timeout_s = 60.0;
  bool may_spin = true;
  std::unique_ptr<RankMarks> own_marks;
  RankMarks* marks = nullptr;
};

/// Messages of one direction of one pair.
struct Channel {
  std::mutex mutex;
  std::deque<std::vector<float>> queue;
  WaitCounter num_sent;  // advanced by the sender only
};

struct RankSlot {
  WaitCounter done;                             // sequence number of the last published collective
  std::array<std::vector<std::byte>, 2> stage;  // rotating staging buffers
};

struct Group {
  Group(std::vector<int> ranks, std::shared_ptr<AbortGroup> shared)
      : size(int(ranks.size())),
        names(std::move(ranks)),
        abort_group(std::move(shared)),
        slots(names.size()),
        channels(names.size() * names.size()) {}
  const int size;
  const std::vector<int> names;  // [size] ranks in the first group of all: what messages say
  const std::shared_ptr<AbortGroup> abort_group;
  std::vector<RankSlot> slots;
  std::vector<Channel> channels;  // [from * size + to]
  std::mutex split_mutex;
  std::map<std::pair<uint32_t, int>, std::weak_ptr<Group>> children;  // (sequence number of the split, color)
};

class ThreadComm final : public Communicator {
 public:
  ThreadComm(std::shared_ptr<Group> group, int rank, ActivityLog* log)
      : group_(std::move(group)), rank_(rank), log_(log), num_received_(size_t(group_->size), 0) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }

  void all_reduce(const MatView& x) override {
    const size_t count = message_floats("all_reduce", x);
    if (size() == 1) return;
    std::copy_n(x.f32_row(0), count, reinterpret_cast<float*>(begin_collective(count * sizeof(float))));
    publish_and_wait("all_reduce");
    std::vector<const float*> parts(size_t(size()), nullptr);
    for (int peer = 0; peer < size(); ++peer) parts[size_t(peer)] = reinterpret_cast<const float*>(staged(peer));
    float* out = x.f32_row(0);
    if (size() == 2) {
      for (size_t i = 0; i < count; ++i) out[i] = parts[0][i] + parts[1][i];
    } else if (size() == 4) {
      for (size_t i = 0; i < count; ++i) out[i] = (parts[0][i] + parts[1][i]) + (parts[2][i] + parts[3][i]);
    } else {
      std::vector<float> part(parts.size());
      for (size_t i = 0; i < count; ++i) {
        for (size_t peer = 0; peer < parts.size(); ++peer) part[peer] = parts[peer][i];
        out[i] = math::tree_sum(part.data(), size());
      }
    }
  }

  void gather_columns(const MatView& part, const MatView& out, int root) override {
    const size_t count = message_floats("gather_columns", part);
    const size_t row_bytes = size_t(part.cols) * sizeof(float);
    if (size() == 1) {
      for (int row = 0; row < part.rows; ++row) std::memcpy(out.f32_row(row), part.f32_row(row), row_bytes);
      return;
    }
    std::copy_n(part.f32_row(0), count, reinterpret_cast<float*>(begin_collective(count * sizeof(float))));
    publish_and_wait("gather_columns");
    if (rank_ != root) return;
    for (int peer = 0; peer < size(); ++peer) {
      for (int row = 0; row < part.rows; ++row) {
        std::memcpy(out.f32_row(row) + int64_t{peer} * part.cols, staged(peer) + row * row_bytes, row_bytes);
      }
    }
  }

  void send(const MatView& x, int peer) override {
    Channel& channel = group_->channels[size_t(rank_) * size_t(size()) + size_t(peer)];
    const float* const first = x.f32_row(0);
    std::vector<float> message(first, first + message_floats("send", x));
    stats_.bytes += message.size() * sizeof(float);
    {
      std::lock_guard lock(channel.mutex);
      channel.queue.push_back(std::move(message));
    }
    channel.num_sent.advance_to(channel.num_sent.value() + 1);
  }

  void recv(const MatView& x, int peer) override {
    Channel& channel = group_->channels[size_t(peer) * size_t(size()) + size_t(rank_)];
    const uint32_t wanted = ++num_received_[size_t(peer)];
    stats_.receive_wait_s += wait_for(ActivityKind::wait_stage, "recv", wanted, peer, peer + 1,
                                      [&](int) -> const WaitCounter& { return channel.num_sent; });
    std::vector<float> message;
    {
      std::lock_guard lock(channel.mutex);
      message = std::move(channel.queue.front());
      channel.queue.pop_front();
    }
    if (message.size() != message_floats("recv", x)) {
      fail(ExitCode::comm,
           "rank {}: recv {} from rank {}: message of {} floats, expected {} x {}: the ranks disagree on the batch",
           name_of(rank_), wanted, name_of(peer), message.size(), x.rows, x.cols);
    }
    std::copy(message.begin(), message.end(), x.f32_row(0));
  }

  void broadcast(std::vector<std::byte>& message, int root) override {
    if (size() == 1) return;
    const uint64_t length = message.size();
    std::byte* mine = begin_collective(rank_ == root ? sizeof(length) + message.size() : 0);
    if (rank_ == root) {
      std::memcpy(mine, &length, sizeof(length));
      if (length > 0) std::memcpy(mine + sizeof(length), message.data(), length);
    }
    publish_and_wait("broadcast");
    if (rank_ == root) return;
    uint64_t received = 0;
    std::memcpy(&received, staged(root), sizeof(received));
    message.resize(received);
    if (received > 0) std::memcpy(message.data(), staged(root) + sizeof(received), received);
  }

  void barrier() override {
    if (size() == 1) return;
    begin_collective(0);
    publish_and_wait("barrier");
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    struct Choice {
      int color, key;
    };
    std::byte* mine = begin_collective(sizeof(Choice));
    const Choice choice{color, key};
    std::memcpy(mine, &choice, sizeof(choice));
    publish_and_wait("split");
    std::vector<std::pair<int, int>> members;  // (key, rank) of my color
    for (int peer = 0; peer < size(); ++peer) {
      Choice other;
      std::memcpy(&other, staged(peer), sizeof(other));
      if (other.color == color) members.emplace_back(other.key, peer);
    }
    std::sort(members.begin(), members.end());
    int new_rank = 0;
    while (members[size_t(new_rank)].second != rank_) ++new_rank;
    std::shared_ptr<Group> child;
    {
      std::lock_guard lock(group_->split_mutex);
      auto& entry = group_->children[{sequence_, color}];
      child = entry.lock();
      if (!child) {
        std::vector<int> names;
        for (const auto& member : members) names.push_back(name_of(member.second));
        child = std::make_shared<Group>(std::move(names), group_->abort_group);
        entry = child;
      }
    }
    auto end = std::make_unique<ThreadComm>(child, new_rank, log_);
    barrier();  // every member holds the child before its creator may let go of it
    return end;
  }

  void abort(const std::string& reason) noexcept override {
    AbortGroup& abort_group = *group_->abort_group;
    try {
      std::lock_guard lock(abort_group.mutex);
      if (abort_group.reason.empty()) abort_group.reason = reason;
    } catch (...) {  // out of memory for the text: the flag alone must still travel
    }
    abort_group.aborted.store(true, std::memory_order_release);
  }

  CommStats stats() const override { return stats_; }

 private:
  int name_of(int member) const { return group_->names[size_t(member)]; }

  std::byte* begin_collective(size_t bytes) {
    ++sequence_;
    ++stats_.collectives;
    stats_.bytes += bytes;
    auto& stage = group_->slots[size_t(rank_)].stage[sequence_ % 2];
    if (stage.size() < bytes) stage.resize(bytes);
    return stage.data();
  }

  const std::byte* staged(int peer) const { return group_->slots[size_t(peer)].stage[sequence_ % 2].data(); }

  void publish_and_wait(const char* call) {
    group_->slots[size_t(rank_)].done.advance_to(sequence_);
    stats_.collective_wait_s +=
        wait_for(ActivityKind::wait_peers, call, sequence_, 0, size(),
                 [&](int peer) -> const WaitCounter& { return group_->slots[size_t(peer)].done; });
  }

  /// Until the counters of ranks [begin, end) but this one have reached `target`. Returns the seconds, which are
  /// recorded.
  template <class CounterOf>
  double wait_for(ActivityKind kind, const char* call, uint32_t target, int begin, int end, CounterOf&& counter_of) {
    AbortGroup& abort_group = *group_->abort_group;
    RankMarks& marks = *abort_group.marks;
    const auto start = Clock::now();
    const RankMarks::Time begin_time = marks.at(start);
    const auto is_missing = [&](int peer) { return peer != rank_ && !counter_of(peer).reached(target); };
    const auto give_up_at = [&](int peer) {
      const auto alive = std::max(begin_time, marks.newest(name_of(peer)));
      return alive + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(abort_group.timeout_s));
    };
    bool has_waited = false;
    for (int peer = begin; peer < end;) {
      if (!is_missing(peer)) {
        ++peer;
        continue;
      }
      marks.begin_wait(name_of(rank_), name_of(peer), begin_time);
      has_waited = true;
      auto deadline = give_up_at(peer);  // of whoever of those to come is silent longest
      for (int other = peer + 1; other < end; ++other)
        if (is_missing(other)) deadline = std::min(deadline, give_up_at(other));
      const auto now = Clock::now();
      const auto left = std::min<Clock::duration>(deadline - marks.at(now), RankMarks::kLook);
      const WaitResult result = counter_of(peer).wait_for(
          target, {.deadline = now + left, .may_spin = abort_group.may_spin}, abort_group.aborted);
      if (result == WaitResult::cancelled) {
        std::lock_guard lock(abort_group.mutex);
        fail(ExitCode::comm, "rank {}: {} {} given up: {}", name_of(rank_), call, target, abort_group.reason);
      }
      if (result == WaitResult::reached) continue;
      for (int other = peer; other < end; ++other)  // marks may have been made meanwhile
        if (is_missing(other) && marks.now() >= give_up_at(other)) give_up(call, target, other);
    }
    const auto now = Clock::now();
    if (has_waited) marks.end_wait(name_of(rank_), marks.at(now));
    if (log_) log_->add_wait(kind, start, now);
    return seconds_between(start, now);
  }

  [[noreturn]] void give_up(const char* call, uint32_t target, int peer) {
    const AbortGroup& abort_group = *group_->abort_group;
    const std::string reason = fmt::format("rank {}: {} {} waits for {}", name_of(rank_), call, target,
                                           abort_group.marks->story(name_of(peer), abort_group.timeout_s));
    abort(reason);
    fail(ExitCode::comm, "{}", reason);
  }

  std::shared_ptr<Group> group_;
  int rank_;
  ActivityLog* log_;                    // null: no record
  uint32_t sequence_ = 0;               // collectives begun
  std::vector<uint32_t> num_received_;  // per peer
  CommStats stats_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(const ThreadGroupOptions& options) {
  PACELINE_CHECK(options.size >= 1, "size {}", options.size);
  PACELINE_CHECK(options.logs.empty() || options.logs.size() == size_t(options.size), "{} logs for {} ranks",
                 options.logs.size(), options.size);
  PACELINE_CHECK(!options.marks || options.marks->size() >= options.size, "marks of {} ranks for {}",
                 options.marks->size(), options.size);
  auto abort_group = std::make_shared<AbortGroup>();
  abort_group->timeout_s = options.timeout_s;
  abort_group->may_spin = options.may_spin;
  if (!options.marks) abort_group->own_marks = std::make_unique<RankMarks>(options.size);
  abort_group->marks = options.marks ? options.marks : abort_group->own_marks.get();
  std::vector<int> names(static_cast<size_t>(options.size));
  std::iota(names.begin(), names.end(), 0);
  auto group = std::make_shared<Group>(std::move(names), abort_group);
  std::vector<std::unique_ptr<Communicator>> ends;
  for (int rank = 0; rank < options.size; ++rank) {
    ActivityLog* const log = options.logs.empty() ? nullptr : options.logs[size_t(rank)];
    ends.push_back(std::make_unique<ThreadComm>(group, rank, log));
  }
  return ends;
}

}  // namespace paceline
