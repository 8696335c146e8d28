#pragma once
// A finished run as the runner would have recorded it, piece by piece.

#include "experiments/results/files/store.h"

namespace paceline::test {

inline void record_cell(RunFolder& folder, const CellResult& cell) {
  if (cell.status == CellStatus::done) {
    folder.record_load(cell);
    CellResult growing = cell;
    growing.repetitions.clear();
    for (const RepetitionResult& repetition : cell.repetitions) {
      const CellResult* const under_way = &growing;
      folder.record_start({&under_way, 1});
      growing.repetitions.push_back(repetition);
      folder.record_repetition(growing);
    }
    if (!cell.logits.reference.empty()) folder.record_logits(cell);
  } else if (cell.status == CellStatus::failed) {
    folder.record_failure(cell);
  }
  folder.write_cell(cell);
}

inline void record_all(RunFolder& folder, const RunResult& run) {
  for (const CellResult& cell : run.cells) record_cell(folder, cell);
}

}  // namespace paceline::test
