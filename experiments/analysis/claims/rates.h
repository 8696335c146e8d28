#pragma once
// Open loops at several rates, and up to which of them report.slo is kept: the most requests per second of which the
// share report.slo.attainment meets the limits (DistServe, OSDI 2024, section 1, calls that rate goodput).

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

class VerdictView;

/// Cells that are equal in all that was asked for but load.rate_per_s.
struct RateSweep {
  struct Point {
    double rate_per_s = 0;  // asked for
    const CellSummary* cell = nullptr;
  };
  std::string name;           // "tp1 pp1 ngram k=3"
  std::vector<Point> points;  // ascending; two or more
};

/// In the order of the plan, with cells that failed, and without those that did not run.
std::vector<RateSweep> make_rate_sweeps(const VerdictView& view);

/// What the 95 % interval of the share of good requests shows; each rate stands for itself, as a row does.
enum class Kept : uint8_t {
  kept,       // it lies at or above the share that is asked for
  missed,     // ... below
  undecided,  // it holds that share, or lies above it with one repetition
  saturated,  // not missed, but latencies depend on the run's length
  unranked,   // the cell is not rankable, or its server does not say when tokens come
  failed,
};
const char* to_string(Kept kept);  // "kept", "missed", "not decided", "saturated", "not ranked", "failed"

/// What a sweep of rates shows of report.slo.
struct KeptRates {
  struct Point {
    double rate_per_s = 0;
    const CellSummary* cell = nullptr;
    Kept kept = Kept::undecided;
  };
  std::string name;           // "tp1 pp1 ngram k=3"
  double attainment = 0.9;    // of report.slo
  std::vector<Point> points;  // ascending

  /// Of the points from the lowest rate on how many are kept.
  size_t num_kept() const;
  /// Up to which all are kept; 0: not even the lowest one is.
  double rate_per_s() const { return num_kept() == 0 ? 0 : points[num_kept() - 1].rate_per_s; }
};

/// Of runs with report.slo: of each sweep of which a cell is ranked.
std::vector<KeptRates> make_kept_rates(const VerdictView& view);

/// "2/s, 4/s not decided (93 %)", "none, 2/s missed (61 %)", "8/s, the highest sent"
std::string kept_text(const KeptRates& rates);

/// "2/s 99 %, 4/s 93 % (not decided), 8/s 61 % (missed)": the share of good requests at every rate.
std::string shares_text(const KeptRates& rates);

}  // namespace paceline
