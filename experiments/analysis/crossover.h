#pragma once
// Where speculation stops paying: what is shown at each point of an axis (concurrency, acceptance length), and what a
// sentence may say of the points together.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/analysis/verdict_view.h"

namespace paceline {

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

/// For each placement and proposer that ran at two concurrencies or more beside plain decoding of the same placement:
/// at which of them its cells are shown to be faster, or all to be slower. "tp1 pp2 ngram, at its best k, pays at c=1
/// (1.80×), loses at c=16 (0.91×)", without a full stop; in the order of the plan. A proposer whose drafts were forced
/// or that is not ranked is left out.
std::vector<std::string> concurrency_crossovers(const VerdictView& view);

}  // namespace paceline
