#pragma once
// What a rank did when: its last pieces of work and its waits for other ranks, in memory that is taken beforehand.
//
// All ranks are threads of one process and read one clock (engine/util/clock.h: CLOCK_MONOTONIC), so their times stand
// on one axis without any shift between them. What a record is off by is the time between an event and the reading of
// the clock behind it: tens of nanoseconds while the thread runs, a turn of the system's scheduler where it does not.
// Times are the host's. On a GPU work begins when the host gives it out and may end after the record has.

#include <cstdint>
#include <vector>

#include "engine/util/clock.h"

namespace paceline {

enum class ActivityKind : uint8_t {
  pass,        // of the target; what is sent to the next stage is copied in it
  draft,       // passes and samples of a draft model
  sample,      // acceptance and sampling for the target
  wait_stage,  // for a message of the stage before
  wait_peers,  // in a collective
};
inline constexpr int kNumActivityKinds = 5;

/// Waits lie within the work that they interrupt, or before it.
struct Activity {
  Clock::time_point start, end;
  uint32_t pass = 0;  // number of the target's pass, from 1 in each engine; 0: belongs to none
  ActivityKind kind = ActivityKind::pass;
};

/// A ring of records. Used on the rank's thread only, or between jobs. Off until start().
class ActivityLog {
 public:
  /// Shorter waits are left out: nobody sees them, and they would push out what one does.
  static constexpr auto kShortestWait = std::chrono::microseconds(1);

  /// Forgets everything and records from now on; takes memory, touched, for `capacity` >= 1 records.
  void start(size_t capacity);
  /// Keeps what there is.
  void stop() { is_on_ = false; }
  bool is_on() const { return is_on_; }

  void add(const Activity& activity) noexcept {
    if (!is_on_) return;
    Activity& place = ring_[next_];
    if (num_added_ >= ring_.size()) complete_from_ = place.end;
    place = activity;
    ++num_added_;
    if (++next_ == ring_.size()) next_ = 0;
  }
  void add_wait(ActivityKind kind, Clock::time_point start, Clock::time_point end) noexcept {
    if (end - start >= kShortestWait) add({.start = start, .end = end, .kind = kind});
  }

  /// In the order in which they ended.
  std::vector<Activity> records() const;
  /// Every record that ended later is there.
  Clock::time_point complete_from() const { return complete_from_; }

 private:
  std::vector<Activity> ring_;
  size_t next_ = 0, num_added_ = 0;
  Clock::time_point complete_from_;
  bool is_on_ = false;
};

}  // namespace paceline
