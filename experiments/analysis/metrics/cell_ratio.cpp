#include "experiments/analysis/metrics/cell_ratio.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "experiments/analysis/statistics/significance.h"

namespace paceline {
namespace {

std::optional<double> mean_end_s(const CellResult& cell) {
  std::vector<double> ends;
  for (const RepetitionResult& r : cell.repetitions) {
    if (!r.ended_at_s) return std::nullopt;
    ends.push_back(*r.ended_at_s);
  }
  return mean(ends);
}

/// Whether `outer` was measured before and after all of `inner`, half each.
bool encloses(const CellResult& outer, const CellResult& inner) {
  const auto [first, last] =
      std::minmax_element(inner.repetitions.begin(), inner.repetitions.end(),
                          [](const RepetitionResult& a, const RepetitionResult& b) { return a.turn < b.turn; });
  if (first == inner.repetitions.end() || first->turn < 0) return false;
  int64_t before = 0, after = 0;
  for (const RepetitionResult& r : outer.repetitions) {
    before += r.turn < first->turn ? 1 : 0;
    after += r.turn > last->turn ? 1 : 0;
  }
  return before > 0 && after > 0 && before + after == std::ssize(outer.repetitions) && std::abs(before - after) <= 1;
}

/// Whether the mean places of the two among all their repetitions are as close as an odd number of these allows.
bool are_balanced(const CellResult& a, const CellResult& b) {
  std::vector<std::pair<int64_t, bool>> order;  // turn, of a
  for (const RepetitionResult& r : a.repetitions) order.emplace_back(r.turn, true);
  for (const RepetitionResult& r : b.repetitions) order.emplace_back(r.turn, false);
  std::sort(order.begin(), order.end());
  if (order.empty() || order.front().first < 0 || a.repetitions.size() != b.repetitions.size()) return false;
  int64_t lead = 0;  // sum of places of a, less that of b
  for (size_t place = 0; place < order.size(); ++place) lead += order[place].second ? int64_t(place) : -int64_t(place);
  return std::abs(lead) <= 1;
}

Pairing pairing_across_loads(const CellResult& a, const CellResult& b) {
  return encloses(a, b) || encloses(b, a) || are_balanced(a, b) ? Pairing::in_halves : Pairing::none;
}

}  // namespace

Pairing pairing_of(const CellResult& a, const CellResult& b) {
  const size_t pairs = std::min(a.repetitions.size(), b.repetitions.size());
  for (size_t i = 0; i < pairs; ++i) {
    if (a.repetitions[i].process != b.repetitions[i].process) return Pairing::none;
  }
  for (size_t i = 0; i + 1 < pairs; ++i) {
    const int64_t last = std::max(a.repetitions[i].turn, b.repetitions[i].turn);
    const int64_t next = std::min(a.repetitions[i + 1].turn, b.repetitions[i + 1].turn);
    if (next >= 0 && last > next) return pairing_across_loads(a, b);
  }
  return Pairing::by_repetition;
}

std::optional<double> measured_earlier_s(const CellResult& baseline, const CellResult& cell) {
  const std::optional<double> before = mean_end_s(baseline), after = mean_end_s(cell);
  if (!before || !after) return std::nullopt;
  return *after - *before;
}

std::optional<RatioInterval> ratio_of_repetitions(std::span<const double> numerator,
                                                  std::span<const double> denominator, Pairing pairing) {
  return pairing == Pairing::by_repetition ? paired_ratio(numerator, denominator) : welch_ratio(denominator, numerator);
}

bool begins_higher(const RatioInterval& a, const RatioInterval& b) {
  if (a.low && b.low) return *a.low > *b.low;
  return a.low || b.low ? a.low.has_value() : a.ratio > b.ratio;
}

}  // namespace paceline
