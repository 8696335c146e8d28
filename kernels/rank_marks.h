#pragma once
// Signs of life of ranks that wait for each other: which of them still get on.
//
// A rank makes a *mark* whenever it gets on: when a job, a layer of a pass, or a wait begins, and when a wait ends. A
// mark is the time and the place in the work. While a rank waits it makes none; it says for whom it waits instead.
// The chain of a rank is that rank, the one it waits for, the one that this one waits for, and so on to a rank that is
// at work or stands in the chain already. A rank is as alive as the newest mark of its chain.
//
// The rule of every wait between ranks: it ends the run once the chain of a rank that is missing has made no mark for
// timeout_s, counted from the beginning of the wait at the earliest (a rank that has had no job yet has old marks).
//
// - A slow rank lives, and whoever waits for it, however far behind in the chain: marks are read, not handed on, so the
//   last rank of a pipeline sees those of the first at once. Only a piece of work between two marks must be shorter
//   than timeout_s.
// - A rank that stops ends the run timeout_s after its last mark, or after the wait for it began.
// - A circle (A waits for B, B for A) ends: every rank whose chain leads into it ends there, and the ranks of the
//   circle all wait, so none makes a mark. Waiting and looking make none, so nobody keeps another alive by it. The
//   waits end timeout_s after the last one of the circle began.
//
// - Time in which the whole process stood still is nobody's silence (kernels/awake_clock.h).
//
// Threads: a rank's own thread writes its marks; any thread reads. Values are published one by one: whoever sees that
// a wait has ended also sees the mark of its end. Cost: a clock and two stores to a cache line of the rank's own.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/awake_clock.h"

namespace paceline {

/// Where in its work a rank is.
struct RankPlace {
  static constexpr int kNoLayer = -1, kHead = 0xfffe;
  uint64_t step = 0;     // of the target, or passes of the draft model; 0: before the first
  int layer = kNoLayer;  // of the whole model
  bool is_draft = false;
};

class RankMarks {
 public:
  using Time = AwakeClock::Time;
  static constexpr int kNobody = -1;
  static constexpr int kAnybody = -2;  // one of the others, not known which: their newest mark counts

  explicit RankMarks(int num_ranks) : slots_(size_t(num_ranks)) {}
  int size() const { return int(slots_.size()); }

  /// The clock of all marks, and of all waits for ranks: these look at it at least every kLook.
  Time now() noexcept { return clock_.now(); }
  Time at(AwakeClock::Time steady) noexcept { return clock_.at(steady); }
  static constexpr std::chrono::milliseconds kLook{100};

  // On the thread of `rank`. The short form leaves the place as it is.
  void mark(int rank) noexcept { slots_[size_t(rank)].set_time(now()); }
  void mark(int rank, const RankPlace& place) noexcept;
  void begin_wait(int rank, int peer, Time now) noexcept;
  void end_wait(int rank, Time now) noexcept;

  /// The newest mark of the chain of `rank`.
  Time newest(int rank) const noexcept;
  /// Of all ranks.
  Time newest() const noexcept;

  /// "step 7, layer 3": the place of the last mark of `rank` that had one.
  std::string place(int rank) const;
  /// The chain of `rank` in words, for one that has waited for it for too long: "rank 1, which waits for rank 2; rank 2
  /// has made no mark for 60 s, since step 7, layer 3".
  std::string story(int rank, double silent_s) const;
  /// Of all ranks: "rank 0: step 7, layer 31; rank 1: step 7".
  std::string places() const;

 private:
  struct alignas(64) Slot {
    std::atomic<int64_t> time{0};    // of the clock, in its ticks
    std::atomic<uint64_t> place{0};  // step · 2^17 + (layer + 1) · 2 + is_draft
    std::atomic<int> waits_for{kNobody};

    void set_time(Time now) noexcept { time.store(now.time_since_epoch().count(), std::memory_order_relaxed); }
    Time get_time() const noexcept { return Time(Time::duration(time.load(std::memory_order_relaxed))); }
  };
  AwakeClock clock_;
  std::vector<Slot> slots_;
};

/// A wait of `rank` while this lives. marks null: nothing.
class RankWait {
 public:
  RankWait(RankMarks* marks, int rank, int peer, RankMarks::Time now) : marks_(marks), rank_(rank) {
    if (marks_) marks_->begin_wait(rank_, peer, now);
  }
  ~RankWait() {
    if (marks_) marks_->end_wait(rank_, marks_->now());
  }
  RankWait(const RankWait&) = delete;
  RankWait& operator=(const RankWait&) = delete;

 private:
  RankMarks* marks_;
  int rank_;
};

}  // namespace paceline
