#pragma once
// Where speculation stops paying: what is shown at each point of an axis (concurrency, acceptance length), and what a
// sentence may say of the points together.

#include <span>
#include <string>
#include <vector>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

class VerdictView;
struct LoadGroup;

/// What sentences may say of a set of cells along an axis.
struct CrossoverClaim {
  enum class Axis : uint8_t { concurrency, acceptance_length };
  struct Point {
    double at = 0;
    const CellSummary* cell = nullptr;      // of several k the one whose interval begins highest
    int k = 0;                              // its
    RatioInterval ratio;                    // its
    Outcome shown = Outcome::inconclusive;  // of several k faster where one is, slower where all are
  };
  Axis axis = Axis::concurrency;
  const LoadGroup* group = nullptr;  // of acceptance lengths
  std::string name;                  // "tp1 pp2 ngram"
  bool has_several_k = false;
  const CellSummary* over = nullptr;  // of the first point
  std::vector<Point> points;          // ascending

  bool is_decided() const;  // anywhere
};

/// For each placement and proposer that ran at two concurrencies or more beside plain decoding of the same placement;
/// and for each set of cells that differ in their stated acceptance length only. In the order of the plan. Over
/// concurrency a proposer whose drafts were forced or that is not ranked is left out.
std::vector<CrossoverClaim> make_crossovers(const VerdictView& view);

/// "pays at c=1, loses at c=16; not decided at c=4". outcomes[i]: faster, slower or inconclusive at a point of the
/// axis, which names[i] names. Names every point, or the ends of five or more that follow each other.
std::string crossover_text(std::span<const Outcome> outcomes, std::span<const std::string> names);

/// "tp1 pp2 ngram pays at c=1 (k=5: 1.80×), loses at c=16 (k=3: 0.91×)" of several k, "tp1 pp1 draft k=5 loses at
/// AL 3.00 (0.90×), pays at AL 6.00 (1.40×)", without a full stop.
std::string crossover_text(const CrossoverClaim& claim);

}  // namespace paceline
