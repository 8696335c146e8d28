#include "experiments/results/files/store.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <unistd.h>

#include <fmt/format.h>

#include "experiments/results/files/journal.h"
#include "experiments/results/files/run_names.h"
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

std::string cell_folder(int number, const std::string& id) { return fmt::format("{:03}_{}", number, folder_name(id)); }

std::string one_line(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

json failure_record(const CellResult& cell) {
  return {{"event", "failed"}, {"cell", cell.identity}, {"reason", cell.reason}};
}

template <typename Json>
std::string dumped(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string dump_json(const json& value) { return dumped(value); }

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

RunFolder::RunFolder(const std::filesystem::path& root, RunResult& run, const nlohmann::ordered_json& experiment)
    : root_(root) {
  const std::string first = fmt::format("{}_{}_{}", without_colons(run.info.started_at), folder_name(run.info.name),
                                        run.info.config_hash.substr(0, 4));
  std::string name = first;
  for (int n = 2; !make_new_folder(root_ / name); ++n) {
    if (n > kMaxSameSecond) fail(ExitCode::store, "{}: no free name for a run folder", (root_ / first).string());
    name = fmt::format("{}-{}", first, n);
  }
  path_ = root_ / name;
  place_last(root_, path_);
  run.info.id = name;
  run.folder = path_.string();
  for (CellResult& cell : run.cells) cell.folder = cell_folder(cell.index, cell.id);
  lock_ = std::make_shared<RunLock>(path_);
  begin(run, experiment, 0, Restart::no);
}

RunFolder::RunFolder(const RecordedRun& recorded, std::shared_ptr<RunLock> lock, RunResult& run,
                     const nlohmann::ordered_json& experiment, Restart restart)
    : root_(std::filesystem::path(recorded.run.folder).parent_path()),
      path_(recorded.run.folder),
      lock_(std::move(lock)) {
  std::map<std::string, std::string> folders;
  int next = 0;
  const auto know = [&](const std::vector<CellResult>& cells, const std::vector<RecordedCell>& facts) {
    for (size_t i = 0; i < cells.size(); ++i) {
      folders[cells[i].identity] = cells[i].folder;
      request_bytes_[cells[i].identity] = facts[i].request_bytes;
      next = std::max(next, std::atoi(cells[i].folder.c_str()) + 1);
    }
  };
  know(recorded.run.cells, recorded.cells);
  know(recorded.others, recorded.of_others);
  for (CellResult& cell : run.cells) {
    const auto found = folders.find(cell.identity);
    cell.folder = found != folders.end() ? found->second : cell_folder(next++, cell.id);
  }
  // A restart follows at once: until now the process before it was at work.
  wall_before_s_ = recorded.run.wall_s;
  if (restart == Restart::yes)
    wall_before_s_ += recorded.last_process.lived_s(machine_clock_s()) - recorded.last_process.until_record_s;
  begin(run, experiment, recorded.journal_bytes, restart);
}

void RunFolder::begin(const RunResult& run, const nlohmann::ordered_json& experiment, int64_t journal_bytes,
                      Restart restart) {
  journal_ = std::make_unique<AppendOnlyFile>(path_ / kJournalFile, journal_bytes);
  write_file_atomic(path_ / "environment.json", dump_json(run.environment));
  write_file_atomic(path_ / "config.resolved.json", dump_json(run.config_resolved));
  write_file_atomic(path_ / "experiment.json", dumped(experiment));
  record_plan(run, restart);
  write_manifest(run);  // a new folder is a run from here on
}

void RunFolder::append(json record, Durability durability) {
  record["elapsed_s"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  journal_->append(journal_line(record), durability);
}

void RunFolder::record_plan(const RunResult& run, Restart restart) {
  json cells = json::array();
  for (const CellResult& cell : run.cells)
    cells.push_back({{"folder", cell.folder},
                     {"skip", cell.status == CellStatus::skipped ? json(cell.reason) : json(nullptr)},
                     {"plan", cell_plan_to_json(cell)}});
  append({{"event", "plan"},
          {"schema", kJournalSchema},
          {"schema_version", kJournalVersion},
          {"process", ::getpid()},
          {"machine_clock_s", machine_clock_s()},
          {"restart", restart == Restart::yes},
          {"binary_hash", run.info.program},
          {"cells", cells}});
}

void RunFolder::record_start(std::span<const CellResult* const> cells, const json& order) {
  json identities = json::array();
  for (const CellResult* cell : cells) {
    make_new_folder(folder_of(*cell));
    identities.push_back(cell->identity);
  }
  json record = {{"event", "started"}, {"cells", identities}};
  if (!order.is_null()) record["order"] = order;
  append(std::move(record), Durability::process);
}

void RunFolder::record_load(const CellResult& cell) {
  append({{"event", "loaded"}, {"cell", cell.identity}, {"load", cell_load_to_json(cell)}});
}

void RunFolder::record_repetition(const CellResult& cell) {
  const int repetition = static_cast<int>(cell.repetitions.size()) - 1;
  const RepetitionResult& result = cell.repetitions.back();
  std::string lines;
  for (const RequestRecord& request : result.requests) lines += one_line(request_to_json(request, repetition));
  int64_t& length = request_bytes_[cell.identity];
  if (!result.lanes.empty())
    write_file_atomic(folder_of(cell) / kRankLanesFile, one_line(rank_lanes_to_json(result.lanes)));
  AppendOnlyFile requests(folder_of(cell) / kRequestsFile, length);
  requests.append(lines);
  append({{"event", "repetition"},
          {"cell", cell.identity},
          {"repetition", repetition},
          {"from_byte", length},
          {"to_byte", requests.size()},
          {"crc32c", fmt::format("{:08x}", crc32c(lines))},
          {"result", repetition_to_json(result)},
          {"timeline", repetition == 0 ? timeline_to_json(result) : json(nullptr)}});
  length = requests.size();
}

void RunFolder::record_logits(const CellResult& cell) {
  append({{"event", "logits"},
          {"cell", cell.identity},
          {"reference", cell.logits.reference},
          {"checks", logit_checks_to_json(cell.logits)}});
}

void RunFolder::record_failure(const CellResult& cell) { append(failure_record(cell)); }

void RunFolder::record_retry(const CellResult& cell) { append({{"event", "retry"}, {"cell", cell.identity}}); }

void RunFolder::write_cell(const CellResult& cell) {
  make_new_folder(folder_of(cell));
  write_file_atomic(folder_of(cell) / "cell.json", dump_json(cell_to_json(cell)));
}

void RunFolder::write_drafts(const CellResult& cell, const std::string& text) {
  make_new_folder(folder_of(cell));
  write_file_atomic(folder_of(cell) / "drafts.jsonl", text);
}

void record_failures(const RecordedRun& recorded, std::span<const CellResult* const> cells) {
  AppendOnlyFile journal(std::filesystem::path(recorded.run.folder) / kJournalFile, recorded.journal_bytes);
  for (const CellResult* cell : cells) journal.append(journal_line(failure_record(*cell)));
}

void RunFolder::finish(const RunResult& run, std::span<const RunDocument> documents) {
  append({{"event", "finished"}, {"status", run.info.status}, {"wall_s", json_number(run.wall_s)}});
  if (!run.sample_texts.empty()) write_file_atomic(path_ / "samples.json", dump_json(samples_to_json(run)));
  for (const RunDocument& document : documents) write_file_atomic(path_ / document.name, document.content);
  write_manifest(run);
  replace_symlink(root_ / "latest", path_.filename());
}

void RunFolder::write_manifest(const RunResult& run) const {
  json cells = json::array();
  for (const CellResult& cell : run.cells) {
    cells.push_back(
        {{"index", cell.index}, {"id", cell.id}, {"identity", cell.identity}, {"status", to_string(cell.status)}});
  }
  const CellCounts counts = count_cells(run.cells);
  json manifest = {{"schema", kManifestSchema},
                   {"schema_version", kManifestVersion},
                   {"config_origins", run.config_origins},
                   {"workload", fields_to_json(run.workload)},
                   {"wall_s", json_number(run.wall_s)},
                   {"binary_hash", run.environment.value("binary_hash", "")},
                   {"git_commit", run.environment.value("git_commit", "")},
                   {"git_dirty", run.environment.value("git_dirty", false)},
                   {"num_done", counts.done},
                   {"num_partial", counts.partial},
                   {"num_failed", counts.failed},
                   {"num_skipped", counts.skipped},
                   {"num_not_run", counts.not_run},
                   {"cells", cells}};
  manifest.update(fields_to_json(run.info));
  write_file_atomic(path_ / "manifest.json", dump_json(manifest));
}

}  // namespace paceline
