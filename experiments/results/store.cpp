#include "experiments/results/store.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/analysis/summary.h"
#include "experiments/report/html.h"
#include "experiments/report/text.h"
#include "experiments/results/files.h"
#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr int kMaxSameSecond = 1000;

/// 2026-11-21T09:30:12Z -> 2026-11-21T093012Z, which every file system takes.
std::string without_colons(std::string time) {
  std::erase(time, ':');
  return time;
}

std::string one_line(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string dump_json(const json& value) { return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n"; }

std::string folder_name(const std::string& name) {
  std::string out;
  for (char c : name.substr(0, 60)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    out += plain ? c : '_';
  }
  while (!out.empty() && out.front() == '.') out.erase(0, 1);
  return out.empty() ? "run" : out;
}

RunFolder::RunFolder(const std::filesystem::path& root, RunResult& run) : root_(root) {
  const std::string first = fmt::format("{}_{}_{}", without_colons(run.info.started_at), folder_name(run.info.name),
                                        run.info.config_hash.substr(0, 4));
  std::string name = first;
  for (int n = 2; !make_new_folder(root_ / name); ++n) {
    if (n > kMaxSameSecond) fail(ExitCode::store, "{}: no free name for a run folder", (root_ / first).string());
    name = fmt::format("{}-{}", first, n);
  }
  path_ = root_ / name;
  run.info.id = name;
  run.folder = path_.string();
  write_manifest(run);
  write_file_atomic(path_ / "config.resolved.json", dump_json(run.config_resolved));
  write_file_atomic(path_ / "environment.json", dump_json(run.environment));
}

void RunFolder::write_cell(const CellResult& cell) {
  const std::filesystem::path folder = path_ / "cells" / fmt::format("{:03}_{}", cell.index, folder_name(cell.id));
  make_new_folder(folder);
  if (!cell.repetitions.empty()) {
    std::string lines;
    for (size_t r = 0; r < cell.repetitions.size(); ++r) {
      for (const RequestRecord& request : cell.repetitions[r].requests) {
        lines += one_line(request_to_json(request, static_cast<int>(r)));
      }
    }
    write_file_atomic(folder / "requests.jsonl", lines);
  }
  write_file_atomic(folder / "cell.json", dump_json(cell_to_json(cell)));
}

void RunFolder::finish(const RunResult& run) {
  if (!run.sample_texts.empty()) write_file_atomic(path_ / "samples.json", dump_json(samples_to_json(run)));
  const RunSummary summary = summarize(run);
  write_file_atomic(path_ / "summary.json", dump_json(summary_to_json(run, summary)));
  write_file_atomic(path_ / "summary.csv", summary_to_csv(run, summary));
  write_file_atomic(path_ / "summary.md", summary_markdown(run, summary));
  write_file_atomic(report(), report_html(run, summary));
  write_manifest(run);
  replace_symlink(root_ / "latest", path_.filename());
}

void RunFolder::write_manifest(const RunResult& run) const {
  json cells = json::array();
  for (const CellResult& cell : run.cells) {
    cells.push_back({{"index", cell.index}, {"id", cell.id}, {"status", to_string(cell.status)}});
  }
  const auto text_or_null = [](const std::string& text) { return text.empty() ? json(nullptr) : json(text); };
  const RunInfo& info = run.info;
  write_file_atomic(path_ / "manifest.json", dump_json({{"schema", "paceline.manifest"},
                                                        {"schema_version", 1},
                                                        {"id", info.id},
                                                        {"name", info.name},
                                                        {"status", info.status},
                                                        {"profile", text_or_null(info.profile)},
                                                        {"config_path", info.config_path},
                                                        {"config_hash", info.config_hash},
                                                        {"argv", info.argv},
                                                        {"seed", info.seed},
                                                        {"numerics", info.numerics},
                                                        {"started_at", info.started_at},
                                                        {"wall_s", json_number(run.wall_s)},
                                                        {"binary_hash", run.environment.value("binary_hash", "")},
                                                        {"git_commit", run.environment.value("git_commit", "")},
                                                        {"cells", cells}}));
}

}  // namespace paceline
