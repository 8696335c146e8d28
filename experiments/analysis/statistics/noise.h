#pragma once
// Which cells were measured while something else took the machine: `noisy` ones. They stay in every file and table;
// timing gates leave their times out.

#include <optional>
#include <string>

#include "experiments/results/results.h"

namespace paceline {

// A repetition above one of these is disturbed. Shares are of the cores' time: wall time x cores of the process's mask.
inline constexpr double kForeignShare = 0.10;    // by other processes
inline constexpr double kStolenShare = 0.02;     // by other virtual machines
inline constexpr double kThrottledShare = 0.02;  // by the quota, of the cores' time
inline constexpr double kClockShare = 0.85;      // of the clock of the cell's fastest repetition; below it is disturbed
inline constexpr double kLateClient_ms = 1;      // 99th percentile of a client of measure.level http
inline constexpr double kLeastCpu_s = 0.1;       // CPU time below is lost in the kernel's ticks and says nothing

/// What disturbed a repetition the most, in numbers: "other processes used 38 % of the cores". Empty: nothing above the
/// limits, or nothing is known. `full_clock_ghz`: of the cell's fastest repetition.
std::string noise_of(const RepetitionResult& repetition, std::optional<double> full_clock_ghz = {});
std::string noise_of(const Disturbance& disturbance, std::optional<double> full_clock_ghz = {});

/// What disturbed a repetition of the cell the most.
struct WorstNoise {
  double times_limit = 0;  // above 1 where there is something
  std::string text;        // as noise_of(RepetitionResult)
};
WorstNoise worst_noise_of(const CellResult& cell);

/// Of the first disturbed repetition, "other processes used 38 % of the cores in repetition 2 of 7 (and in 3 more)";
/// repetitions count from 1. Empty: the cell is not noisy.
std::string noise_of(const CellResult& cell);

/// Whether the machine told anything about a repetition of the cell.
bool was_watched(const CellResult& cell);

}  // namespace paceline
