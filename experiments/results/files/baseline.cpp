#include "experiments/results/files/baseline.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "engine/util/suggest.h"
#include "experiments/config/keys/key_help.h"
#include "experiments/results/files/files.h"
#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr const char* kSchema = "paceline.baseline";
constexpr int kVersion = 1;

json exact_facts(const RepetitionResult& r) {
  return {{"output_hash", output_hash(r)},
          {"requests", r.requests.size()},
          {"output_tokens", output_tokens_of(r)},
          {"counters", counters_to_json(r.counters)}};
}

/// Of collect_environment(): what a reader of the baseline may want to know.
json kept_environment(const RunResult& run) {
  const json& environment = run.environment;
  json kept = json::object();
  kept["threads_per_rank"] = threads_per_rank_of(run);
  for (const char* const key : {"cpu_model", "isa", "cores_available", "gpus", "gpu_driver", "compiler", "git_commit",
                                "git_dirty", "started_at"})
    if (environment.contains(key)) kept[key] = environment[key];
  return kept;
}

/// `difference` holds the place so far; null: absent on that side.
void compare(BaselineDifference place, const json* baseline, const json* current,
             std::vector<BaselineDifference>& out) {
  if (baseline && current && baseline->is_object() && current->is_object()) {
    json both = *baseline;
    both.update(*current);
    for (const auto& [key, value] : both.items()) {
      BaselineDifference part = place;
      part.field += (part.field.empty() ? "" : ".") + key;
      compare(part, baseline->contains(key) ? &(*baseline)[key] : nullptr,
              current->contains(key) ? &(*current)[key] : nullptr, out);
    }
    return;
  }
  if (baseline && current && *baseline == *current) return;
  if (baseline) place.baseline = *baseline;
  if (current) place.now = *current;
  out.push_back(std::move(place));
}

}  // namespace

json make_baseline(const RunResult& run) {
  json cells = json::object();
  for (const CellResult& cell : run.cells) {
    if (cell.status != CellStatus::done || cell.repetitions.empty()) continue;
    json facts = exact_facts(cell.repetitions.front());
    if (!draws_anew(cell))
      facts["repetitions_agree"] =
          std::ranges::all_of(cell.repetitions, [&](const RepetitionResult& r) { return exact_facts(r) == facts; });
    cells[cell.id] = std::move(facts);
  }
  return {{"schema", kSchema},
          {"schema_version", kVersion},
          {"name", run.info.name},
          {"profile", run.info.profile},
          {"environment", kept_environment(run)},
          {"settings", exact_settings(run.config_resolved)},
          {"cells", std::move(cells)}};
}

json read_baseline(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    fail(ExitCode::usage, "{}: there is no such baseline{}: make it with --update-baseline", file.string(),
         did_you_mean(file.filename().string(), file_names_in(file.parent_path(), {file.extension().string()})));
  const json value = json::parse(read_user_file(file, kResultFile), nullptr, false);
  const auto version = value.is_object() ? integer_of<int64_t>(value.value("schema_version", json())) : std::nullopt;
  if (value.is_discarded() || !value.is_object() || value.value("schema", "") != kSchema || !value.contains("cells") ||
      !value["cells"].is_object() || !value.value("settings", json::object()).is_object() || !version) {
    fail(ExitCode::store, "{}: is no baseline: expected JSON with \"schema\": \"{}\" and \"cells\"", file.string(),
         kSchema);
  }
  for (const auto& [id, cell] : value["cells"].items())
    if (!cell.is_object())
      fail(ExitCode::store, "{}: cells.{}: expected an object, found {}", file.string(), id, cell.type_name());
  if (*version > kVersion) {
    fail(ExitCode::store, "{}: schema_version {} is newer than {}, the newest this program reads: use a newer program",
         file.string(), *version, kVersion);
  }
  return value;
}

std::string made_on(const json& baseline) {
  const json environment = baseline.value("environment", json::object());
  std::vector<std::string> parts;
  if (const std::string cpu = text_of(environment, "cpu_model"); !cpu.empty()) parts.push_back(cpu);
  const auto gpus = environment.find("gpus");
  if (gpus != environment.end() && gpus->is_array())
    for (const json& gpu : *gpus) {  // "cuda:0 NVIDIA H200 0000:1b:00.0": without number and place
      const std::string all = gpu.is_string() ? gpu.get<std::string>() : "";
      const size_t first = all.find(' '), last = all.rfind(' ');
      if (first < last) parts.push_back(all.substr(first + 1, last - first - 1));
    }
  if (const std::string driver = text_of(environment, "gpu_driver"); !driver.empty())
    parts.push_back("driver " + driver);
  const auto threads = environment.find("threads_per_rank");
  if (threads != environment.end() && threads->is_array() && !threads->empty()) {
    const std::vector<int> counts = threads->get<std::vector<int>>();
    parts.push_back(fmt::format("{} thread{} a rank", fmt::join(counts, " and "), counts == std::vector{1} ? "" : "s"));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::map<std::string, json> exact_settings(const json& resolved) {
  std::map<std::string, json> settings = settings_that_change(KeyEffect::steps, resolved);
  const json* const axes = find_value(resolved, "sweep.axes");
  std::erase_if(settings, [&](const auto& setting) { return axes && axes->contains(setting.first); });
  return settings;
}

BaselineSubject subject_of(const json& baseline) {
  BaselineSubject subject{.name = baseline.value("name", ""),
                          .profile = baseline.value("profile", ""),
                          .requests = 0,
                          .settings = baseline.value("settings", std::map<std::string, json>())};
  for (const json& cell : baseline.at("cells"))
    subject.requests = std::max(subject.requests, cell.value("requests", int64_t{0}));
  return subject;
}

std::vector<std::string> subject_differences(const BaselineSubject& before, const BaselineSubject& now) {
  std::vector<std::string> found;
  if (!before.name.empty() && !now.name.empty() && before.name != now.name)
    found.push_back(fmt::format("name {}, here {}", before.name, now.name));
  for (const auto& [path, value] : before.settings) {
    const auto here = now.settings.find(path);
    if (here != now.settings.end() && here->second != value)
      found.push_back(fmt::format("{} {}, here {}", path, value.dump(), here->second.dump()));
  }
  if (before.settings.empty() && before.requests > 0 && now.requests > 0 && before.requests != now.requests)
    found.push_back(fmt::format("{} a cell, here {}", counted(before.requests, "request"), now.requests));
  return found;
}

std::string described(const BaselineSubject& subject) {
  std::vector<std::string> facts;
  if (subject.requests > 0) facts.push_back(counted(subject.requests, "request") + " a cell");
  if (!subject.profile.empty()) facts.push_back("profile " + subject.profile);
  const std::string name = subject.name.empty() ? "an experiment without a name" : subject.name;
  return facts.empty() ? name : fmt::format("{} ({})", name, fmt::join(facts, ", "));
}

std::vector<BaselineDifference> baseline_differences(const json& baseline, const json& current) {
  const json &before = baseline.at("cells"), &now = current.at("cells");
  json all = before;
  all.update(now);
  std::vector<BaselineDifference> out;
  for (const auto& [cell, facts] : all.items())
    compare({.cell = cell}, before.contains(cell) ? &before[cell] : nullptr, now.contains(cell) ? &now[cell] : nullptr,
            out);
  return out;
}

std::string described(const BaselineDifference& difference) {
  const std::string place = difference.cell + (difference.field.empty() ? "" : ": " + difference.field);
  if (!difference.now) return place + ": is in the baseline, not in this run";
  if (!difference.baseline) return place + ": is not in the baseline";
  return fmt::format("{}: baseline {}, now {}", place, difference.baseline->dump(), difference.now->dump());
}

}  // namespace paceline
