#pragma once
// The ratio of two cells of one run over their repetitions, and whether these may be paired.

#include <cstdint>
#include <optional>
#include <span>

#include "experiments/analysis/statistics/statistics.h"
#include "experiments/results/results.h"

namespace paceline {

enum class Pairing : uint8_t {
  by_repetition,  // repetition i of both lies in one block: slow drift of the machine cancels
  in_halves,      // A B … B A, and A B once more: a steady drift cancels in the ratio
  none,           // measured one after the other: another load, or a resumed run
};

/// By the order in which the run measured its repetitions (RepetitionResult::turn): they pair where every repetition i
/// of both cells came before every repetition i + 1 and one process measured both (RepetitionResult::process). In
/// halves: as many repetitions of one cell came before all of the other's as after them, or one more or less; or the
/// places of both in the order of measuring add up to the same, or one more or less (experiments/run/measure/visits.h).
/// A record that does not tell is taken for blocks.
Pairing pairing_of(const CellResult& a, const CellResult& b);

/// How many seconds earlier `baseline` was measured than `cell`, between the means of their repetitions' ends, by the
/// clock on the wall; negative: later. None where a repetition has no time.
std::optional<double> measured_earlier_s(const CellResult& baseline, const CellResult& cell);

/// Ratio of geometric means: paired_ratio, or, where the repetitions do not pair, welch_ratio of two independent
/// samples. What drifts between cells that do not pair is in no interval.
std::optional<RatioInterval> ratio_of_repetitions(std::span<const double> numerator,
                                                  std::span<const double> denominator, Pairing pairing);

/// Whether the evidence for `a` is the better one: its interval begins higher. One without an interval comes after one
/// with it; of two without, the larger ratio comes first.
bool begins_higher(const RatioInterval& a, const RatioInterval& b);

}  // namespace paceline
