#include "experiments/run/measure/recorders.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace paceline {
namespace {

constexpr size_t kCapacity = 8192;  // records of one rank: 24 bytes each

struct Window {
  Clock::time_point begin, end;
};

/// [rank] records in the order in which they ended.
using Records = std::vector<std::vector<Activity>>;

std::optional<Clock::time_point> begin_of_pass(const Records& records, uint32_t pass) {
  std::optional<Clock::time_point> begin;
  for (const auto& rank : records) {
    for (const Activity& a : rank)
      if (a.kind == ActivityKind::pass && a.pass == pass && (!begin || a.start < *begin)) begin = a.start;
  }
  return begin;
}

size_t num_within(const Records& records, const Window& window) {
  size_t count = 0;
  for (const auto& rank : records)
    count += size_t(std::count_if(rank.begin(), rank.end(),
                                  [&](const Activity& a) { return a.end > window.begin && a.start < window.end; }));
  return count;
}

/// The last passes that all ranks have recorded; at least one, even where it has more pieces than wanted.
std::optional<Window> window_of(const Records& records, Clock::time_point complete_from) {
  uint32_t last = 0;
  std::optional<Clock::time_point> end;
  for (const auto& rank : records) {
    if (rank.empty()) return std::nullopt;
    if (!end || rank.back().end < *end) end = rank.back().end;
    for (const Activity& a : rank)
      if (a.kind == ActivityKind::pass) last = std::max(last, a.pass);
  }
  std::optional<Window> window;
  for (uint32_t count = 1; count <= std::min(last, kMostRecordedPasses); ++count) {
    const auto begin = begin_of_pass(records, last + 1 - count);
    if (!begin || *begin < complete_from) break;
    const Window wider{*begin, *end};
    if (window && num_within(records, wider) > kMostRecordedActivities) break;
    if (wider.begin < wider.end) window = wider;
  }
  return window;
}

int64_t ns_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
}

std::vector<LaneActivity> within(const std::vector<Activity>& records, const Window& window) {
  std::vector<LaneActivity> out;
  for (const Activity& a : records) {
    if (a.end <= window.begin || a.start >= window.end) continue;
    const auto start = std::max(a.start, window.begin), end = std::min(a.end, window.end);
    out.push_back({.kind = a.kind,
                   .start_ns = ns_between(window.begin, start),
                   .duration_ns = ns_between(start, end),
                   .pass = a.pass});
  }
  // Work before the waits that begin with it.
  std::stable_sort(out.begin(), out.end(), [](const LaneActivity& a, const LaneActivity& b) {
    return std::pair(a.start_ns, -a.duration_ns) < std::pair(b.start_ns, -b.duration_ns);
  });
  return out;
}

}  // namespace

void Timeline::add(const TimelinePoint& point) {
  last_ = point;
  if (count_++ % stride_ != 0) return;
  // One place is left for the last point.
  if (points_.size() + 1 == kMaxTimelinePoints) {
    size_t kept = 0;
    for (size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
    points_.resize(kept);
    stride_ *= 2;
    if ((count_ - 1) % stride_ != 0) return;
  }
  points_.push_back(point);
}

std::vector<TimelinePoint> Timeline::take() {
  if (!points_.empty() && points_.back().time_ms != last_.time_ms) points_.push_back(last_);
  // Microseconds are what the files keep; a report made from them is then the same.
  const auto microseconds = [](double ms) { return std::round(ms * 1e3) / 1e3; };
  for (TimelinePoint& point : points_) {
    point.time_ms = microseconds(point.time_ms);
    point.bubble_ms = microseconds(point.bubble_ms);
  }
  count_ = 0;
  stride_ = 1;
  return std::exchange(points_, {});
}

RankRecorder::RankRecorder(RankTeam& team) : team_(team) {
  team_.post_on_all([](Rank& rank) { rank.activity.start(kCapacity); });
}

void RankRecorder::stop() {
  if (is_stopped_) return;
  is_stopped_ = true;
  for (int rank = 0; rank < team_.num_ranks(); ++rank) team_.post(rank, [](Rank& on) { on.activity.stop(); });
}

RankLanes RankRecorder::take() {
  stop();
  team_.wait_all();
  Records records;
  Clock::time_point complete_from;
  for (int rank = 0; rank < team_.num_ranks(); ++rank) {
    const ActivityLog& log = team_.rank(rank).activity;
    records.push_back(log.records());
    complete_from = std::max(complete_from, log.complete_from());
  }
  RankLanes lanes;
  const std::optional<Window> window = window_of(records, complete_from);
  if (!window) return lanes;
  lanes.window_ns = ns_between(window->begin, window->end);
  lanes.deciding_rank = team_.deciding_rank();
  const auto& devices = team_.options().placement.devices;
  for (int rank = 0; rank < team_.num_ranks(); ++rank) {
    const Rank& facts = team_.rank(rank);
    lanes.ranks.push_back({.stage = facts.stage,
                           .shard = facts.shard,
                           .device = devices.empty() ? "cpu" : devices[size_t(rank)],
                           .activities = within(records[size_t(rank)], *window)});
  }
  return lanes;
}

}  // namespace paceline
