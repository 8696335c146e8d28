#include "experiments/run/resume.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <system_error>
#include <unistd.h>

#include "engine/util/gguf.h"
#include "kernels/error.h"
#include "kernels/fnv1a.h"
#include "speculative/proposer_entry.h"

namespace paceline {

using nlohmann::json;

namespace {

/// Programs that worked on the recorded run so far.
std::vector<std::string> builds_of(const RunResult& recorded) {
  if (!recorded.environment.is_object()) return {};
  const json mixed = recorded.environment.value("mixed_builds", json::array());
  if (!mixed.empty()) return mixed.get<std::vector<std::string>>();
  return {recorded.environment.value("binary_hash", std::string())};
}

/// Where values were written at first; of a grown sweep the options, too. The folder's experiment.json is no place
/// where a person wrote anything. Null where the record has none.
json origins_of(const RunResult& recorded, const json& now) {
  if (!recorded.config_origins.is_object()) return nullptr;
  json origins = recorded.config_origins;
  const std::string own_copy = (std::filesystem::path(recorded.folder) / "experiment.json").string() + ":";
  for (const auto& [path, place] : now.items())
    if (!place.get<std::string>().starts_with(own_copy)) origins[path] = place;
  return origins;
}

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kWhole = 8 * kMiB;
constexpr int64_t kPieces = 96;
constexpr int64_t kPiece = 64 * 1024;

/// Of a file: its length and 64 bits of FNV-1a over its bytes, as "<length>-<16 hex digits>"; of files beyond 8 MiB
/// over the first and last MiB and 96 pieces of 64 KiB at equal distances between, so that big checkpoints take
/// milliseconds. It tells versions of a file apart; it is no safeguard against forgery. Throws Error(model_file).
std::string file_fingerprint(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, error));
  if (!in || error) fail(ExitCode::model_file, "{}: cannot be read", file.string());
  std::string bytes;
  const auto take = [&](int64_t from, int64_t count) {
    const size_t before = bytes.size();
    bytes.resize(before + static_cast<size_t>(count));
    in.seekg(from);
    in.read(bytes.data() + before, count);
    if (in.gcount() != count) fail(ExitCode::model_file, "{}: ended while it was read", file.string());
  };
  if (size <= kWhole) {
    take(0, size);
  } else {
    take(0, kMiB);
    const int64_t middle = size - 2 * kMiB - kPiece;
    for (int64_t piece = 0; piece < kPieces; ++piece) take(kMiB + middle * piece / kPieces, kPiece);
    take(size - kMiB, kMiB);
  }
  return fmt::format("{}-{}", size, fnv1a64_hex(bytes));
}

/// path -> fingerprint of `paths`; of a folder, of the files directly in it. What is not there is left out: those who
/// read it say so better.
json fingerprints(const std::set<std::filesystem::path>& paths) {
  json out = json::object();
  std::error_code error;
  for (const std::filesystem::path& path : paths) {
    const auto add = [&](const std::filesystem::directory_entry& entry) {
      if (entry.is_regular_file(error) && ::access(entry.path().c_str(), R_OK) == 0)
        out[entry.path().string()] = file_fingerprint(entry.path());
    };
    if (std::filesystem::is_directory(path, error))
      for (const auto& entry : std::filesystem::directory_iterator(path, error)) add(entry);
    else
      add(std::filesystem::directory_entry(path, error));
  }
  return out;
}

/// The folder of a model, or its .gguf file, or all parts of that.
std::set<std::filesystem::path> model_files(const std::filesystem::path& model) {
  if (!is_gguf_path(model)) return {model};
  std::set<std::filesystem::path> files;
  try {
    const GgufFile opened(model);
    for (const MappedFile& file : opened.files()) files.insert(file.path());
  } catch (const Error&) {  // loading it says why
    files.insert(model);
  }
  return files;
}

/// A file that was recorded, or that now lies in a folder of recorded ones, as a template put beside a model does.
bool concerns_record(const json& recorded, const std::filesystem::path& file) {
  return std::any_of(recorded.items().begin(), recorded.items().end(), [&](const auto& entry) {
    return std::filesystem::path(entry.key()).parent_path() == file.parent_path();
  });
}

/// What has been recorded of cells, by their identities.
std::map<std::string, const CellResult*> recorded_cells(const ResumeOptions& resume) {
  std::map<std::string, const CellResult*> by_identity;
  for (const CellResult& cell : resume.recorded.run.cells) by_identity[cell.identity] = &cell;
  for (const CellResult& cell : resume.recorded.others) by_identity[cell.identity] = &cell;
  return by_identity;
}

/// Whether no cell of a run is left to run.
bool is_all_recorded(const ResumeOptions& resume, const RunResult& run) {
  const auto by_identity = recorded_cells(resume);
  return std::all_of(run.cells.begin(), run.cells.end(), [&](const CellResult& cell) {
    if (cell.status == CellStatus::skipped) return true;
    const auto found = by_identity.find(cell.identity);
    if (found == by_identity.end()) return false;
    if (found->second->status == CellStatus::failed) return resume.failed != FailedCells::retry;
    return int(found->second->repetitions.size()) >= repetitions_asked(cell);
  });
}

/// Whether a build that has no part in the run yet will have one.
bool is_mixed(const ResumeOptions& resume, const RunResult& run) {
  return std::ranges::count(builds_of(resume.recorded.run), run.info.program) == 0 && !is_all_recorded(resume, run);
}

}  // namespace

json inputs_of(const std::vector<Cell>& cells) {
  std::set<std::filesystem::path> paths;
  for (const Cell& cell : cells) {
    if (cell.skip_reason) continue;
    const ExperimentConfig& config = cell.config;
    paths.insert({config.workload.file, config.load.trace.value_or(std::string())});
    if (config.is_foreign()) continue;
    paths.insert(config.engine.target.shape_file);
    paths.merge(model_files(config.engine.target.directory));
    for (const auto& [entry, options] : config.speculation.stages())
      for (const std::string& file : entry->files_of(*options)) paths.insert(file);
    if (const SecondModelConfig* const draft = config.speculation.second_model()) {
      paths.insert(draft->shape_file);
      paths.merge(model_files(draft->directory));
    }
  }
  return fingerprints(paths);
}

void check_can_resume(const ResumeOptions& resume, const RunResult& run) {
  const RunResult& recorded = resume.recorded.run;
  std::vector<std::string> differences;
  const json &now = run.info.inputs, &before = recorded.info.inputs;
  for (const auto& [file, value] : before.items()) {
    std::error_code error;
    if (now.contains(file) && now[file] != value) differences.push_back(file + ": changed");
    if (!now.contains(file) && !std::filesystem::exists(file, error)) differences.push_back(file + ": is gone");
  }
  // Files that only new cells need do not concern what is recorded.
  for (const auto& [file, value] : now.items())
    if (!before.contains(file) && concerns_record(before, file)) differences.push_back(file + ": is new");
  if (resume.mixed == MixedBuilds::refuse && !recorded.environment.is_object())
    differences.push_back("environment.json, which names the program's build: is gone (--allow-mixed-build goes on)");
  else if (resume.mixed == MixedBuilds::refuse && is_mixed(resume, run))
    differences.push_back("the program: another build (--allow-mixed-build goes on, and the report says so)");
  if (!differences.empty())
    fail(ExitCode::usage, "{}: cannot go on, this is not what the run began with: {}", recorded.folder,
         fmt::join(differences, "; "));
}

std::vector<size_t> adopt_record(const ResumeOptions& resume, RunResult& run) {
  const RunResult& recorded = resume.recorded.run;
  const auto by_identity = recorded_cells(resume);
  std::vector<size_t> retried;
  for (size_t i = 0; i < run.cells.size(); ++i) {
    CellResult& cell = run.cells[i];
    const auto found = by_identity.find(cell.identity);
    if (found == by_identity.end() || cell.status == CellStatus::skipped) continue;
    const CellResult& old = *found->second;
    if (old.status == CellStatus::failed && resume.failed == FailedCells::retry) {
      retried.push_back(i);
      continue;
    }
    if (old.status == CellStatus::failed) {
      cell.status = CellStatus::failed;
      cell.reason = old.reason;
    }
    cell.repetitions = old.repetitions;
    if (!old.repetitions.empty()) cell.forecast = old.forecast;  // made when those were, as they are compared with it
    cell.effective = old.effective;
    cell.oversubscribed = old.oversubscribed;
    cell.load_s = old.load_s;
    cell.memory = old.memory;
    cell.ceilings = old.ceilings;
    cell.logits = old.logits;
  }
  run.environment = recorded.environment;
  if (is_mixed(resume, run)) {
    std::vector<std::string> builds = builds_of(recorded);
    builds.push_back(run.info.program);
    run.environment["mixed_builds"] = builds;
  }
  run.sample_texts = recorded.sample_texts;
  run.config_origins = origins_of(recorded, run.config_origins);
  run.info.id = recorded.info.id;
  run.info.started_at = recorded.info.started_at;
  run.info.config_path = recorded.info.config_path;
  run.info.argv = recorded.info.argv;
  run.info.variables = recorded.info.variables;
  run.info.profile = recorded.info.profile;
  run.folder = recorded.folder;
  for (const auto& [file, value] : recorded.info.inputs.items()) {
    if (!run.info.inputs.contains(file)) run.info.inputs[file] = value;
  }
  return retried;
}

}  // namespace paceline
