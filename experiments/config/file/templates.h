#pragma once
// Experiment files to start from: configs/templates/.

#include <span>
#include <string>
#include <string_view>

namespace paceline {

/// A commented experiment that runs as it is, on the built-in models.
struct ExperimentTemplate {
  std::string_view name;              // "tp-vs-pp": of the file, without suffix
  std::string_view purpose;           // the question that it answers, one line
  std::string_view suffix = ".json";  // JSON with comments, or ".yaml"
};

/// All templates, the simplest first.
std::span<const ExperimentTemplate> experiment_templates();

/// Its text for a file in configs/, one folder up from where it lies. Throws Error(usage) where no configs/ is found.
std::string text_for_configs(const ExperimentTemplate& of);

}  // namespace paceline
