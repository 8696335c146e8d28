#pragma once
// The folder of one run: results/<time>_<name>_<hash>/ (layout and schema: results/README.md).

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "experiments/results/files/files.h"
#include "experiments/results/files/read.h"
#include "experiments/results/results.h"

namespace paceline {

/// Whether a process takes over from one that died under the same command; else what was counted against cells is
/// forgotten.
enum class Restart : uint8_t { no, yes };

/// A file that is made from the whole run, for people and other programs.
struct RunDocument {
  std::string name;  // in the run's folder
  std::string content;
};

/// Writes a run's files as soon as their content is known. What a method has recorded when it returns survives the end
/// of the process and of the machine; read_record() finds it again. One thread, and one process at a time (RunLock).
/// Every method throws Error(store) when the disk refuses; then no later write should be tried.
class RunFolder {
 public:
  /// Makes <root>/<time>_<name>_<hash>; a run that began in the same second gets "-2", "-3" at the end. Sets
  /// run.info.id, run.folder and the folders of its cells, and writes manifest.json, config.resolved.json,
  /// environment.json, experiment.json (`experiment`: the whole sweep, loadable; the order of its
  /// axes is the order of the cells) and the plan of the cells.
  RunFolder(const std::filesystem::path& root, RunResult& run, const nlohmann::ordered_json& experiment);

  /// Goes on with a recorded run whose cells are now those of `run` (cells that were recorded keep their folders, the
  /// others get theirs). `lock` is that of the folder.
  RunFolder(const RecordedRun& recorded, std::shared_ptr<RunLock> lock, RunResult& run,
            const nlohmann::ordered_json& experiment, Restart restart);

  /// Work on these cells begins (their load, or a pass of one): should the process end in it, the record tells where.
  /// Any record about one of them ends it. Makes their folders. `order`: what the journal is to say about the order of
  /// measuring; null: nothing.
  void record_start(std::span<const CellResult* const> cells, const nlohmann::json& order = nullptr);
  /// What was found when the cell was loaded (cell_load_to_json).
  void record_load(const CellResult& cell);
  /// The cell's last repetition, with its requests.
  void record_repetition(const CellResult& cell);
  /// The evidence of fast numerics (CellResult::logits).
  void record_logits(const CellResult& cell);
  /// The cell failed, for CellResult::reason.
  void record_failure(const CellResult& cell);
  /// What was recorded of the cell's repetitions and failure does not count any more: it is tried again from nothing.
  void record_retry(const CellResult& cell);

  /// Writes cells/<NNN>_<id>/cell.json.
  void write_cell(const CellResult& cell);
  /// Writes cells/<NNN>_<id>/drafts.jsonl (DraftRecord).
  void write_drafts(const CellResult& cell, const std::string& text);

  /// Writes the documents (run_documents() makes them), then the manifest with the final status, and last lets
  /// <root>/latest point here. Callable again after more cells.
  void finish(const RunResult& run, std::span<const RunDocument> documents);

  /// How long the processes that worked on the run before took, those that died too.
  double wall_before_s() const { return wall_before_s_; }

  const std::filesystem::path& path() const { return path_; }

 private:
  void begin(const RunResult& run, const nlohmann::ordered_json& experiment, int64_t journal_bytes, Restart restart);
  /// With the time since this process began to work on the run (elapsed_s).
  void append(nlohmann::json record, Durability durability = Durability::machine);
  void record_plan(const RunResult& run, Restart restart);
  void write_manifest(const RunResult& run) const;
  std::filesystem::path folder_of(const CellResult& cell) const { return path_ / "cells" / cell.folder; }

  std::filesystem::path root_;
  std::filesystem::path path_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  double wall_before_s_ = 0;
  std::shared_ptr<RunLock> lock_;
  std::unique_ptr<AppendOnlyFile> journal_;
  std::map<std::string, int64_t> request_bytes_;  // by identity: acknowledged length of the cell's requests.jsonl
};

/// Adds to the journal that these cells of a recorded run failed, for their reasons. The caller holds the lock.
void record_failures(const RecordedRun& recorded, std::span<const CellResult* const> cells);

/// JSON as text: two spaces, bytes that are no UTF-8 replaced (a file must always be readable JSON).
std::string dump_json(const nlohmann::json& value);

/// Lower-case letters, digits, '-', '_' and '.' of `name`, others as '_', at most 60: a folder name.
std::string folder_name(const std::string& name);

}  // namespace paceline
