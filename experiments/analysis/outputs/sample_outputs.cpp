#include "experiments/analysis/outputs/sample_outputs.h"

#include <algorithm>
#include <map>

namespace paceline {

std::vector<SampleOutput> sample_outputs(const RunResult& run, size_t count) {
  const References references(run);
  std::vector<const CellResult*> order;  // of references, by first use
  std::map<const CellResult*, std::vector<SampleOutput>> by_reference;
  for (const CellResult& cell : run.cells) {
    if (!References::usable(cell)) continue;
    const CellResult* const reference = references.of(cell);
    if (reference == nullptr) continue;
    auto known = by_reference.find(reference);
    if (known == by_reference.end()) {
      order.push_back(reference);
      known = by_reference.emplace(reference, std::vector<SampleOutput>{}).first;
      for (const RequestRecord& request : reference->repetitions.front().requests)
        known->second.push_back({.reference_cell = reference, .reference = &request, .differences = {}});
    }
    for (SampleOutput& sample : known->second) {
      ++sample.cells;
      sample.repetitions += static_cast<int>(cell.repetitions.size());
    }
    for (const Parting& parting : compare_outputs(cell, *reference).partings) {
      const auto sample = std::find_if(known->second.begin(), known->second.end(),
                                       [&](const SampleOutput& s) { return s.reference == parting.reference; });
      if (sample != known->second.end()) sample->differences.push_back({&cell, parting});
    }
  }
  std::vector<SampleOutput> out;
  for (const CellResult* reference : order) {
    std::vector<SampleOutput>& samples = by_reference[reference];
    std::stable_sort(samples.begin(), samples.end(), [](const SampleOutput& a, const SampleOutput& b) {
      return std::pair(a.differences.empty(), a.reference->dataset_index) <
             std::pair(b.differences.empty(), b.reference->dataset_index);
    });
    samples.resize(std::min(samples.size(), count));
    std::move(samples.begin(), samples.end(), std::back_inserter(out));
  }
  return out;
}

}  // namespace paceline
