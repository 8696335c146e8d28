#include "kernels/rank_marks.h"

#include <algorithm>

#include <fmt/format.h>

namespace paceline {

void RankMarks::mark(int rank, const RankPlace& place) noexcept {
  Slot& slot = slots_[size_t(rank)];
  slot.place.store(place.step << 17 | uint64_t(place.layer + 1) << 1 | uint64_t(place.is_draft),
                   std::memory_order_relaxed);
  slot.set_time(now());
}

void RankMarks::begin_wait(int rank, int peer, Time now) noexcept {
  Slot& slot = slots_[size_t(rank)];
  slot.set_time(now);
  slot.waits_for.store(peer, std::memory_order_release);
}

void RankMarks::end_wait(int rank, Time now) noexcept {
  Slot& slot = slots_[size_t(rank)];
  slot.set_time(now);
  slot.waits_for.store(kNobody, std::memory_order_release);
}

RankMarks::Time RankMarks::newest(int rank) const noexcept {
  Time time{};
  for (int hops = 0; hops < size(); ++hops) {  // a circle is through by then
    const Slot& slot = slots_[size_t(rank)];
    const int next = slot.waits_for.load(std::memory_order_acquire);
    time = std::max(time, slot.get_time());
    if (next == kAnybody) return newest();
    if (next == kNobody) break;
    rank = next;
  }
  return time;
}

RankMarks::Time RankMarks::newest() const noexcept {
  Time time{};
  for (const Slot& slot : slots_) time = std::max(time, slot.get_time());
  return time;
}

std::string RankMarks::place(int rank) const {
  const uint64_t packed = slots_[size_t(rank)].place.load(std::memory_order_relaxed);
  const uint64_t step = packed >> 17;
  const int layer = int(packed >> 1 & 0xffff) - 1;
  if (step == 0) return "before its first step";
  std::string text = packed & 1 ? fmt::format("pass {} of the draft model", step) : fmt::format("step {}", step);
  if (layer == RankPlace::kHead)
    text += ", head";
  else if (layer != RankPlace::kNoLayer)
    text += fmt::format(", layer {}", layer);
  return text;
}

std::string RankMarks::story(int rank, double silent_s) const {
  std::string text = fmt::format("rank {}", rank);
  std::vector<bool> seen(slots_.size(), false);
  for (;;) {
    seen[size_t(rank)] = true;
    const int next = slots_[size_t(rank)].waits_for.load(std::memory_order_acquire);
    if (next == kNobody || next == kAnybody) break;
    text += fmt::format(", which waits for rank {}", next);
    rank = next;
    if (seen[size_t(next)])
      return text + fmt::format("; they wait for each other: no mark for {} s ({})", silent_s, places());
  }
  return text + fmt::format(
                    "; rank {} has made no mark for {} s, since {}: it is dead or hangs, or a layer takes longer "
                    "than engine.parallel.timeout_s",
                    rank, silent_s, place(rank));
}

std::string RankMarks::places() const {
  std::string text;
  for (int rank = 0; rank < size(); ++rank) text += fmt::format("{}rank {}: {}", rank ? "; " : "", rank, place(rank));
  return text;
}

}  // namespace paceline
