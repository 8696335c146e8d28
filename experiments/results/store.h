#pragma once
// The folder of one run: results/<time>_<name>_<hash>/ (layout and schema: results/README.md).

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "experiments/results/results.h"

namespace paceline {

/// Writes a run's files, each atomically, each as soon as its content is known: a killed run leaves whole cells.
/// One thread. Every method throws Error(store) when the disk refuses; then no later write should be tried.
class RunFolder {
 public:
  /// Makes <root>/<time>_<name>_<hash>; a run that began in the same second gets "-2", "-3" at the end. Sets
  /// run.info.id and run.folder, and writes manifest.json, config.resolved.json and environment.json.
  RunFolder(const std::filesystem::path& root, RunResult& run);

  /// Writes cells/<NNN>_<id>/cell.json and, where there are repetitions, requests.jsonl.
  void write_cell(const CellResult& cell);

  /// Writes summary.json, summary.csv, summary.md and report.html, then the manifest with the final status, and last
  /// lets <root>/latest point here. Callable again after more cells.
  void finish(const RunResult& run);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path report() const { return path_ / "report.html"; }

 private:
  void write_manifest(const RunResult& run) const;

  std::filesystem::path root_;
  std::filesystem::path path_;
};

/// JSON as text: two spaces, bytes that are no UTF-8 replaced (a file must always be readable JSON).
std::string dump_json(const nlohmann::json& value);

/// Lower-case letters, digits, '-', '_' and '.' of `name`, others as '_', at most 60: a folder name.
std::string folder_name(const std::string& name);

}  // namespace paceline
