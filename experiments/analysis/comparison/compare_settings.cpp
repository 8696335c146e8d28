#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "experiments/analysis/comparison/compare.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr const char* kAbsent = "–";

/// Another value here makes another experiment.
constexpr std::array<std::string_view, 10> kSubject = {
    "engine.target.path", "engine.target.inflate", "engine.target.load_format",
    "workload.dataset",   "workload.requests",     "workload.order_seed",
    "sampling.seed",      "workload.categories",   "workload.max_prompt_chars",
    "load.arrival_seed"};

/// What CellAxes holds.
constexpr std::array<std::string_view, 5> kAxes = {"engine.parallel.tp", "engine.parallel.pp", "speculation.proposer",
                                                   "speculation.num_speculative_tokens", "load.concurrency"};

/// Facts of environment.json that move times, or bits where numerics are fast.
constexpr std::array<std::string_view, 13> kEnvironment = {
    "cpu_model",  "isa",        "cores_available", "cgroup_cpus",    "gpus",
    "gpu_driver", "machine_id", "compiler",        "compiler_flags", "build_type",
    "git_commit", "git_dirty",  "binary_hash"};

template <size_t N>
bool holds(const std::array<std::string_view, N>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Leaves by dotted path; lists are leaves.
void flatten(const std::string& path, const json& value, std::map<std::string, std::string>& out) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, child] : value.items()) flatten(path.empty() ? key : path + "." + key, child, out);
    return;
  }
  out[path] = value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Full paths of the axes of a run's sweep.
std::set<std::string> swept(const RunResult& run) {
  std::set<std::string> keys;
  const json& config = run.config_resolved;
  if (!config.is_object() || !config.contains("sweep") || !config["sweep"].is_object()) return keys;
  const auto axes = config["sweep"].find("axes");
  if (axes == config["sweep"].end() || !axes->is_object()) return keys;
  for (const auto& [key, values] : axes->items()) keys.insert(key);
  return keys;
}

std::set<std::string> swept_in_all(const std::vector<RunResult>& runs) {
  std::set<std::string> keys = swept(runs.front());
  for (const RunResult& run : runs) {
    const std::set<std::string> here = swept(run);
    std::erase_if(keys, [&](const std::string& key) { return !here.contains(key); });
  }
  return keys;
}

/// Keys whose text is not the same in all of `flat`, in order.
std::vector<KeyDifference> differences(const std::vector<std::map<std::string, std::string>>& flat) {
  std::set<std::string> keys;
  for (const auto& one : flat)
    for (const auto& [key, value] : one) keys.insert(key);
  std::vector<KeyDifference> out;
  for (const std::string& key : keys) {
    KeyDifference difference{.key = key};
    for (const auto& one : flat) {
      const auto found = one.find(key);
      difference.values.push_back(found == one.end() ? kAbsent : found->second);
    }
    if (std::set<std::string>(difference.values.begin(), difference.values.end()).size() > 1)
      out.push_back(std::move(difference));
  }
  return out;
}

/// Fingerprints of the files that several runs read, "file PATH" -> fingerprint. A file that one run alone names is
/// another path, which the settings tell.
std::vector<KeyDifference> file_differences(const std::vector<RunResult>& runs) {
  std::map<std::string, int> readers;
  for (const RunResult& run : runs)
    for (const auto& [file, fingerprint] : run.info.inputs.items()) ++readers[file];
  std::vector<std::map<std::string, std::string>> flat;
  for (const RunResult& run : runs) {
    auto& files = flat.emplace_back();
    for (const auto& [file, fingerprint] : run.info.inputs.items())
      if (readers[file] > 1 && fingerprint.is_string()) files["file " + file] = fingerprint.get<std::string>();
  }
  std::vector<KeyDifference> out = differences(flat);
  std::erase_if(out, [](const KeyDifference& each) {  // the same in all that read it
    std::set<std::string> values(each.values.begin(), each.values.end());
    values.erase(kAbsent);
    return values.size() < 2;
  });
  return out;
}

bool is_compared(const std::string& key, const std::set<std::string>& axes) {
  return key != "name" && !key.starts_with("sweep.") && !key.starts_with("report.") && !holds(kAxes, key) &&
         !axes.contains(key);
}

}  // namespace

void compare_settings(const std::vector<RunResult>& runs, RunComparison& out) {
  std::vector<std::map<std::string, std::string>> configs, environments;
  for (const RunResult& run : runs) {
    flatten("", run.config_resolved, configs.emplace_back());
    auto& facts = environments.emplace_back();
    for (const std::string_view key : kEnvironment) {
      const std::string name(key);
      if (run.environment.is_object() && run.environment.contains(name)) flatten(name, run.environment[name], facts);
    }
    facts["numerics"] = json(run.info.numerics).dump();
    facts["effective.threads_per_rank"] = json(threads_per_rank_of(run)).dump();
  }
  const std::set<std::string> axes = swept_in_all(runs);
  out.environment = differences(environments);
  for (KeyDifference& difference : file_differences(runs)) out.environment.push_back(std::move(difference));
  for (KeyDifference& difference : differences(configs)) {
    if (!is_compared(difference.key, axes)) continue;
    const bool cares = difference.key.starts_with("sampling.") || difference.key == "engine.numerics";
    auto& list = holds(kSubject, difference.key) ? out.subject : cares ? out.environment : out.config;
    list.push_back(std::move(difference));
  }
}

}  // namespace paceline
