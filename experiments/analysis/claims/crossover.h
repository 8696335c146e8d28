#pragma once
// Where speculation stops paying: what is shown at each point of an axis (concurrency, acceptance length), and what a
// sentence may say of the points together.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

class VerdictView;
struct LoadGroup;

/// The points of one outcome each, in the order of the axis.
struct Crossover {
  std::vector<size_t> faster, slower, undecided;

  /// The last point of one outcome and the first of the other, between which the gain crosses 1: there are faster and
  /// slower points, and all of one kind lie before all of the other. Points between the two are undecided.
  std::optional<std::pair<size_t, size_t>> bracket() const;
};

/// `outcomes`: faster, slower or inconclusive, in the order of the axis.
Crossover crossover_of(std::span<const Outcome> outcomes);

/// How a sentence speaks of the points.
struct CrossoverWords {
  const char* faster = "pays at";
  const char* slower = "loses at";
  const char* undecided = "not decided at";  // behind "is " where nothing else is said
  const char* points = "loads";              // "all 6 loads from c=1 to c=32"
};

/// "pays at c=1, loses at c=16; not decided at c=4". names[i] is what point i is called. Names every point, or the ends
/// of five or more that follow each other.
std::string crossover_text(const Crossover& crossover, std::span<const std::string> names,
                           const CrossoverWords& words = {});

/// What sentences may say of a set of cells along an axis.
struct CrossoverClaim {
  enum class Axis : uint8_t { concurrency, acceptance_length };
  struct Point {
    double at = 0;
    const CellSummary* cell = nullptr;      // of several k the one whose interval begins highest
    RatioInterval ratio;                    // its
    Outcome shown = Outcome::inconclusive;  // of several k faster where one is, slower where all are
  };
  Axis axis = Axis::concurrency;
  const LoadGroup* group = nullptr;  // of acceptance lengths
  std::string name;                  // "tp1 pp2 ngram"
  bool has_several_k = false;
  const CellSummary* over = nullptr;  // of the first point
  std::vector<Point> points;          // ascending

  Crossover crossover() const;
};

/// For each placement and proposer that ran at two concurrencies or more beside plain decoding of the same placement;
/// and for each set of cells that differ in their stated acceptance length. In the order of the plan. Over concurrency
/// a proposer whose drafts were forced or that is not ranked is left out.
std::vector<CrossoverClaim> make_crossovers(const VerdictView& view);

/// "tp1 pp2 ngram, at its best k, pays at c=1 (1.80×), loses at c=16 (0.91×)", without a full stop; over concurrency.
std::string concurrency_text(const CrossoverClaim& claim);

}  // namespace paceline
