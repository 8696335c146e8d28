#include "experiments/results/files/read.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include <spdlog/spdlog.h>

#include "engine/util/json_io.h"
#include "engine/util/json_io_sax.h"
#include "experiments/results/files/cell_log.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/journal.h"
#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr const char* kManifest = "manifest.json";

json read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kManifest;
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    fail(ExitCode::store, "{}: is not a run folder: it has no {}", folder.string(), kManifest);
  json manifest = read_json_object(file);
  if (text_of(manifest, "schema") != kManifestSchema)
    fail(
        ExitCode::store,
        "{}: is no manifest of a run: expected \"schema\": \"{}\"; put the file back from a copy, or remove the folder",
        file.string(), kManifestSchema);
  const int version = manifest.value("schema_version", 0);
  if (version > kManifestVersion)
    fail(ExitCode::store, "{}: written as version {}, this program reads up to {}: use the newer one", file.string(),
         version, kManifestVersion);
  return manifest;
}

/// report.slo of a resolved configuration.
ServiceLevel service_level(const json& config) {
  ServiceLevel level;
  if (const json* ttft = find_value(config, "report.slo.ttft_ms"); ttft && ttft->is_number()) level.ttft_ms = *ttft;
  if (const json* tpot = find_value(config, "report.slo.tpot_ms"); tpot && tpot->is_number()) level.tpot_ms = *tpot;
  if (const json* share = find_value(config, "report.slo.attainment"); share && share->is_number())
    level.attainment = *share;
  return level;
}

/// Where the requests of a repetition lie.
struct Span {
  int64_t from = 0, to = 0;
  std::string crc;
};

/// A cell while the journal is replayed: the last word counts.
struct Replay {
  CellResult result;
  RecordedCell recorded;
  std::vector<Span> spans;  // [repetition]
  std::string failure;
  bool is_planned = false;  // in the last plan
};

/// The records one after the other; what they say of the run's processes goes into `out`.
class Replayer {
 public:
  explicit Replayer(RecordedRun& out) : out_(out) {}

  void apply(const json& record) {
    const std::string event = record.at("event").get<std::string>();
    if (event == "plan") {
      plan(record);
    } else if (event == "started") {
      under_way_ = record.at("cells").get<std::vector<std::string>>();
      count_time(record);
    } else if (event == "finished") {
      under_way_.clear();
      end_time(record);
    } else {
      const auto found = cells_.find(record.at("cell").get<std::string>());
      if (found == cells_.end()) fail(ExitCode::store, "a {} of a cell that no plan names", event);
      under_way_.clear();
      count_time(record);
      apply_to(found->second, event, record);
      if (event == "repetition") {
        RepetitionResult& repetition = found->second.result.repetitions.back();
        repetition.turn = num_repetitions_++;
        repetition.process = out_.num_processes - 1;
      }
    }
  }

  /// The process that wrote the last records is gone: what it worked on ended it.
  void end_process() {
    for (auto& [identity, cell] : cells_) cell.recorded.was_under_way = false;
    for (const std::string& identity : under_way_) {
      const auto found = cells_.find(identity);
      if (found == cells_.end()) continue;
      ++found->second.recorded.crashes;
      found->second.recorded.was_under_way = true;
    }
    under_way_.clear();
    out_.run.wall_s += process_.until_record_s;
    out_.last_process = process_;
    process_ = {};
  }

  /// All cells, those of the last plan first and in its order.
  std::vector<Replay> take_cells() {
    std::vector<Replay> out;
    for (auto& [identity, cell] : cells_) out.push_back(std::move(cell));
    std::sort(out.begin(), out.end(), [](const Replay& a, const Replay& b) {
      return std::tuple(!a.is_planned, a.result.index) < std::tuple(!b.is_planned, b.result.index);
    });
    return out;
  }

 private:
  void count_time(const json& record) {
    if (const auto elapsed = record.find("elapsed_s"); elapsed != record.end())
      process_.until_record_s = elapsed->get<double>();
  }

  void end_time(const json& record) {
    const json& wall_s = record.at("wall_s");
    out_.run.wall_s = wall_s.is_null() ? 0 : wall_s.get<double>();
    process_ = {};
  }

  void plan(const json& record) {
    if (const int version = value_of<int>(record.at("schema_version")); version > kJournalVersion)
      fail(ExitCode::store, "version {}, this program reads up to {}: use the newer one", version, kJournalVersion);
    const auto began = record.find("machine_clock_s");
    // A restart follows at once on the death of the process before.
    if (began != record.end() && record.value("restart", false))
      process_.until_record_s = process_.lived_s(began->get<double>());
    end_process();
    ++out_.num_processes;
    if (began != record.end()) process_.began_s = began->get<double>();
    for (auto& [identity, cell] : cells_) {
      cell.is_planned = false;
      if (!record.value("restart", false)) cell.recorded.crashes = 0;
    }
    for (const json& planned : record.at("cells")) {
      Replay& cell = cells_[planned.at("plan").at("identity").get<std::string>()];
      read_cell_plan(planned.at("plan"), cell.result);
      cell.result.folder = planned.at("folder").get<std::string>();
      const json& skip = planned.at("skip");
      cell.recorded.was_planned_away = !skip.is_null();
      cell.result.reason = skip.is_null() ? std::string() : skip.get<std::string>();
      cell.is_planned = true;
    }
  }

  static void apply_to(Replay& cell, const std::string& event, const json& record) {
    if (event == "loaded") {
      read_cell_load(record.at("load"), cell.result);
    } else if (event == "repetition") {
      cell.recorded.crashes = 0;
      cell.result.repetitions.push_back(repetition_from_json(record.at("result")));
      cell.result.repetitions.back().timeline = timeline_from_json(record.value("timeline", json(nullptr)));
      cell.spans.push_back({.from = value_of<int64_t>(record.at("from_byte")),
                            .to = value_of<int64_t>(record.at("to_byte")),
                            .crc = record.at("crc32c").get<std::string>()});
      cell.recorded.request_bytes = cell.spans.back().to;
    } else if (event == "logits") {
      cell.result.logits = {.reference = record.at("reference").get<std::string>(),
                            .checks = logit_checks_from_json(record.at("checks"))};
    } else if (event == "failed") {
      cell.failure = record.at("reason").get<std::string>();
    } else if (event == "retry") {
      cell.result.repetitions.clear();
      cell.result.logits = {};
      cell.spans.clear();
      cell.failure.clear();
      cell.recorded.crashes = 0;
    } else {
      fail(ExitCode::store, "an unknown event \"{}\"", event);
    }
  }

  std::map<std::string, Replay> cells_;  // by identity
  std::vector<std::string> under_way_;   // what the writing process works on
  int64_t num_repetitions_ = 0;          // of all cells
  ProcessTime process_;
  RecordedRun& out_;
};

void read_requests(const std::filesystem::path& folder, Replay& cell) {
  if (cell.spans.empty()) return;
  const std::filesystem::path file = folder / "cells" / cell.result.folder / kRequestsFile;
  const std::string text = read_user_file(file, kResultFile);
  for (size_t r = 0; r < cell.spans.size(); ++r) {
    const Span& span = cell.spans[r];
    const bool fits = span.from >= 0 && span.from <= span.to && span.to <= static_cast<int64_t>(text.size());
    const std::string_view lines =
        fits ? std::string_view(text).substr(static_cast<size_t>(span.from), static_cast<size_t>(span.to - span.from))
             : std::string_view();
    if (!fits || fmt::format("{:08x}", crc32c(lines)) != span.crc)
      fail(ExitCode::store, "{}: bytes {} to {} (repetition {}) are not those that were recorded: the file was changed",
           file.string(), span.from, span.to, r);
    for (size_t at = 0; at < lines.size();) {
      const size_t end = std::min(lines.find('\n', at), lines.size());
      try {
        cell.result.repetitions[r].requests.push_back(request_from_json(json::parse(lines.substr(at, end - at))));
      } catch (const json::exception& error) {
        fail(ExitCode::store, "{}: byte {}: {}", file.string(), span.from + int64_t(at), error.what());
      }
      at = end + 1;
    }
  }
}

/// A picture, not a result: where it is missing or damaged the run is read without it.
void read_rank_lanes(const std::filesystem::path& folder, Replay& cell) {
  if (cell.spans.empty()) return;
  const std::filesystem::path file = folder / "cells" / cell.result.folder / kRankLanesFile;
  const auto text = try_read_user_file(file, kResultFile);
  if (!text) return;
  const json content = json::parse(*text, nullptr, false);
  if (auto lanes = rank_lanes_from_json(content))
    cell.result.repetitions.front().lanes = std::move(*lanes);
  else
    spdlog::warn("{}: is damaged, or of a newer version: reports leave the ranks' lanes out", file.string());
}

/// is_running: some process works on the run.
void set_status(Replay& cell, bool is_running) {
  CellResult& result = cell.result;
  if (cell.recorded.was_planned_away) {
    result.status = CellStatus::skipped;
  } else if (!cell.failure.empty()) {
    result.status = CellStatus::failed;
    result.reason = cell.failure;
  } else if (result.repetitions.empty()) {
    result.status = CellStatus::skipped;
    result.reason = is_running ? "not run yet: the run goes on" : "not run: the run ended earlier";
    result.not_run = true;
  } else {
    result.status = CellStatus::done;
  }
}

json read_optional(const std::filesystem::path& file) {
  std::error_code error;
  return std::filesystem::exists(file, error) ? read_json_object(file) : json(nullptr);
}

/// A picture, not a result, as the ranks' lanes are.
void read_samples(const std::filesystem::path& file, RunResult& run) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return;
  try {
    run.sample_texts = samples_from_json(read_json_object(file));
    return;
  } catch (const Error&) {
  } catch (const json::exception&) {
  }
  spdlog::warn("{}: is damaged: reports leave the sample texts out", file.string());
}

}  // namespace

json read_json_object(const std::filesystem::path& file) {
  json content = read_json_file(file, ExitCode::store);
  if (!content.is_object())
    fail(ExitCode::store, "{}: expected an object, found {}", file.string(), short_dump(content));
  return content;
}

double ProcessTime::lived_s(double clock_s) const {
  return began_s ? std::max(until_record_s, clock_s - *began_s) : until_record_s;
}

double machine_clock_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

RecordedRun read_record(const std::filesystem::path& folder) {
  RecordedRun recorded;
  RunResult& run = recorded.run;
  try {
    const json manifest = read_manifest(folder);
    run.info = from_fields<RunInfo>(manifest);
    run.config_origins = manifest.value("config_origins", json(nullptr));
    run.workload = from_fields<WorkloadFacts>(manifest.value("workload", json::object()));
  } catch (const json::exception& error) {
    fail(ExitCode::store, "{}: is no manifest of this program: {}", (folder / kManifest).string(),
         json_error_text(error.what()));
  }
  run.folder = folder.string();
  const std::filesystem::path file = folder / kJournalFile;
  const JournalContent content = parse_journal(read_user_file(file, kResultFile), file);
  // The plan is synced before the manifest is there, so a journal without a record is none that a crash left.
  if (content.records.empty())
    fail(ExitCode::store, "{}: holds no record, and the run's {} says that there were some: the file was changed",
         file.string(), kManifest);
  recorded.journal_bytes = content.whole_bytes;
  recorded.torn_bytes = content.torn_bytes;
  if (content.torn_bytes > 0)
    spdlog::warn("{}: its last {} bytes are half a record, which counts as not written", file.string(),
                 content.torn_bytes);
  run.environment = read_optional(folder / "environment.json");
  run.config_resolved = read_optional(folder / "config.resolved.json");
  read_samples(folder / "samples.json", run);
  run.slo = service_level(run.config_resolved);
  Replayer replayer(recorded);
  for (size_t line = 0; line < content.records.size(); ++line) {
    const auto complain = [&](const std::string& what) {
      fail(ExitCode::store, "{}:{}: {}", file.string(), line + 1, what);
    };
    try {
      replayer.apply(content.records[line]);
    } catch (const json::exception& error) {
      complain(fmt::format("is no record of this program: {}", json_error_text(error.what())));
    } catch (const Error& error) {
      complain(error.what());
    }
  }
  replayer.end_process();
  const bool is_running = RunLock::is_held(folder);
  for (Replay& cell : replayer.take_cells()) {
    read_requests(folder, cell);
    read_rank_lanes(folder, cell);
    set_status(cell, is_running);
    if (cell.result.status == CellStatus::failed) cell.result.log_tail = log_tail(cell_log_file(folder, cell.result));
    (cell.is_planned ? recorded.cells : recorded.of_others).push_back(cell.recorded);
    (cell.is_planned ? run.cells : recorded.others).push_back(std::move(cell.result));
  }
  return recorded;
}

}  // namespace paceline
