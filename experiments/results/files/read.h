#pragma once
// A run folder back into memory: what resume, show, compare and report work on. The journal and requests.jsonl are the
// truth; what is written from them (cell.json, summary.*) is not read.

#include <filesystem>
#include <optional>
#include <vector>

#include "experiments/results/results.h"

namespace paceline {

/// What the journal says of a cell beside its results.
struct RecordedCell {
  int64_t request_bytes = 0;  // acknowledged length of its requests.jsonl
  int crashes = 0;  // processes that ended while they worked on it, since its last repetition or a new command
  bool was_under_way = false;     // when the last process ended, without an end of its own
  bool was_planned_away = false;  // the plan skips it
};

/// What the journal says of the time of the last process that worked on a run.
struct ProcessTime {
  std::optional<double> began_s;  // machine_clock_s(); none: its whole time is recorded
  double until_record_s = 0;      // from its beginning to its last record; counted in RunResult::wall_s

  /// Until `clock_s`, when it is known to have died.
  double lived_s(double clock_s) const;
};

/// Of the clock that all processes of a machine share until it starts anew.
double machine_clock_s();

struct RecordedRun {
  RunResult run;                    // every acknowledged repetition with its requests, in plan order; not certified
  std::vector<RecordedCell> cells;  // likewise
  std::vector<CellResult> others;   // cells of earlier plans that the last one does not hold; their records stay
  std::vector<RecordedCell> of_others;
  int num_processes = 0;  // that have worked on the run
  ProcessTime last_process;
  int64_t journal_bytes = 0;  // of whole records
  int64_t torn_bytes = 0;     // behind them: a line that was cut while it was written
};

/// A file of a run's folder that holds one JSON object. Throws Error(store).
nlohmann::json read_json_object(const std::filesystem::path& file);

/// Reads `folder`. Cells that were not reached are skipped ones ("not run: …"). Throws Error(store): not a run folder,
/// a damaged line of the journal (its number), a newer schema (both versions), requests without the recorded checksum.
RecordedRun read_record(const std::filesystem::path& folder);

}  // namespace paceline
