#pragma once
// The timing gate: is this binary slower than that one? Both run the same cells in turn on one machine, so that what
// drifts meets both; two blocks one after the other would raise 11 to 55 % false alarms. Judged by CPU time without the
// time that threads spend waiting in loops, as wall time on a shared machine says too little at 40 pairs. Cells of
// several ranks wait for each other, so theirs is wall time and advice. CPU time does not see a program that waits
// more: for a thread that has lost its work, for a lock or a disk. Wall time of quiet pairs does, and is told.

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline {

inline constexpr int kTimingPairs = 40;
inline constexpr double kTimingChance = 0.005;    // of a false alarm, over all judged cells
inline constexpr double kTimingTolerance = 1.03;  // median ratio up to which a slowdown passes
inline constexpr double kWaitingTolerance = 1.1;  // and up to which a longer wall time is not told

/// Neighbouring runs of both binaries. Seconds of CPU, or of wall time where the cell has several ranks.
struct TimingPair {
  double baseline_s = 0;
  double now_s = 0;
};

struct TimedCell {
  std::string id;
  bool judged = true;        // false: several ranks, wall time, advice only
  bool same_work = true;     // the same tokens and counters from both binaries
  bool same_threads = true;  // as many threads a rank; `auto` need not mean the same to both
  std::vector<TimingPair> pairs;
  std::vector<TimingPair> wall;       // wall times of `pairs`, where those are CPU times
  std::vector<TimingPair> disturbed;  // more pairs: with a repetition of either binary that was disturbed (noise.h)
};

struct TimingVerdict {
  std::string id;
  bool judged = true, same_work = true, same_threads = true;
  int pairs = 0;
  double median_ratio = 1;  // of now / baseline, over the pairs
  double p_value = 1;       // signed_rank_test of log(now / baseline): "now takes longer"
  double adjusted_p = 1;    // holm_adjusted over the judged cells; an advisory cell's own p-value
  double resolves = 0;  // 0.05: at this spread 5 % more time fails the cell nine times in ten; see resolved_slowdown
  int disturbed = 0;    // pairs of TimedCell::disturbed: left out when quiet, else counted in `pairs`
  bool quiet = true;    // false: half of the pairs or more were disturbed, and all are judged
  bool slower = false;  // adjusted_p < kTimingChance and median_ratio > kTimingTolerance
  /// Median ratio of wall times where that is above kWaitingTolerance, and so much above median_ratio, as
  /// significantly: advice. None: it is not, or the pairs are not quiet.
  std::optional<double> waits;
  bool fails() const { return judged && slower; }
};

/// One verdict for each cell, in order. Pairs in which a time is not positive are left out. So are disturbed ones where
/// they are the exception. Where they are the rule all pairs are judged: both binaries met the same trouble by turns,
/// and a gate that looks away on every busy machine would let everything pass.
std::vector<TimingVerdict> judge_timing(const std::vector<TimedCell>& cells);

/// The slowdown that fails a cell nine times in ten when log ratios spread as `logs` do: what the gate can be trusted
/// to see. The larger of what each condition asks for: (z(1 - kTimingChance) + z(0.9))·s·sqrt(pi / 3 / n) for the test
/// (pi / 3: Wilcoxon's efficiency), log(kTimingTolerance) + z(0.9)·s·sqrt(pi / 2 / n) for the median, s = interquartile
/// range / 1.349, as a few disturbed runs say nothing about the rest. Normal noise is taken for granted and Holm left
/// out: a guide. Infinite without logs.
double resolved_slowdown(std::span<const double> logs);

/// Pairs below which `judged_cells` cells cannot fail whatever is measured: the smallest n with
/// 2^-n · judged_cells < kTimingChance.
int fewest_timing_pairs(int judged_cells);

}  // namespace paceline
