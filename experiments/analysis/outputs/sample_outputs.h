#pragma once
// A few requests whose outputs a reader can see, and what each cell made of them.

#include <string>
#include <vector>

#include "experiments/analysis/outputs/output_comparison.h"

namespace paceline {

/// A repetition that answered a request otherwise than the reference did.
struct SampleDifference {
  const CellResult* cell = nullptr;
  Parting parting;
};

/// One request, of the cells that are compared with one reference. Pointers are into the run.
struct SampleOutput {
  const CellResult* reference_cell = nullptr;
  const RequestRecord* reference = nullptr;  // of its first repetition
  int cells = 0;                             // compared, the reference with its other repetitions too
  int repetitions = 0;                       // of them all
  std::vector<SampleDifference> differences;
};

/// For each reference (References::of): of its requests those that some cell answered otherwise first, then those of
/// the smallest dataset index; at most `count` for each reference.
std::vector<SampleOutput> sample_outputs(const RunResult& run, size_t count);

}  // namespace paceline
