#include "experiments/commands/builtin_names.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/ranges.h>

#include "engine/util/suggest.h"
#include "experiments/config/file/builtin_root.h"
#include "kernels/error.h"

namespace paceline {

ExperimentConfig default_config() {
  ExperimentConfig config;
  config.builtin_root = find_builtin_root("config.json");
  return config;
}

ExperimentConfig default_config(const ConfigOverrides& overrides) {
  const std::filesystem::path root = find_builtin_root(".");
  if (root.empty()) fail_without_builtin_root("builtin:");
  LoadedConfig loaded = load_config(root / "base" / "defaults.json", overrides);
  evaluate_deferred(loaded, 1, loaded.config);
  return loaded.config;
}

void check_builtin(const ExperimentConfig& config, const char* option, const std::string& name, const char* folder,
                   const std::string& prefix, const std::string& extension) {
  if (config.builtin_root.empty()) fail_without_builtin_root(name);
  std::vector<std::string> known = file_names_in(config.builtin_root / folder, {extension});
  for (std::string& each : known) each = prefix + each.substr(0, each.size() - extension.size());
  if (std::find(known.begin(), known.end(), name) == known.end())
    fail(ExitCode::usage, "{}: \"{}\": found none of that name built in{}: there are {}", option, name,
         did_you_mean(name, known), fmt::join(known, ", "));
}

void check_model_name(const ExperimentConfig& config, const char* option, const std::string& name) {
  if (name.empty()) fail(ExitCode::usage, "{}: found nothing, expected builtin:NAME, a folder or a .gguf file", option);
  if (name.starts_with("builtin:")) check_builtin(config, option, name, "models", "builtin:", "");
}

std::string did_you_mean_model(const ExperimentConfig& config, const std::string& name) {
  if (const auto builtin = nearest_name(name, file_names_in(config.builtin_root / "models", {""})))
    return fmt::format(" (did you mean \"builtin:{}\"?)", *builtin);
  const std::filesystem::path path = name, folder = path.parent_path();
  const auto near =
      nearest_name(path.filename().string(), file_names_in(folder, {"", ".gguf", ".json", ".jsonc", ".yaml", ".yml"}));
  return near ? fmt::format(" (did you mean \"{}\"?)", (folder / *near).string()) : "";
}

std::string found_model(const ExperimentConfig& config, const char* option, const std::string& name) {
  check_model_name(config, option, name);
  std::error_code ignored;
  const char* const models = std::getenv("PACELINE_MODELS");
  if (!models || name.starts_with("builtin:") || std::filesystem::exists(name, ignored)) return name;
  const std::filesystem::path below = std::filesystem::path(models) / name;
  return std::filesystem::exists(below, ignored) ? below.string() : name;
}

std::filesystem::path model_path(const char* option, const std::string& name) {
  ExperimentConfig config = default_config();
  config.engine.target.path = found_model(config, option, name);
  if (!config.engine.target.path.starts_with("builtin:")) return config.engine.target.path;
  derive_paths(config);
  return config.engine.target.directory;
}

}  // namespace paceline
