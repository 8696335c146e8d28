#pragma once
// Experiment files to start from, in the program itself: `runexp init` works without a source tree at hand.

#include <span>
#include <string_view>

namespace paceline {

/// A commented experiment that belongs into configs/ and runs there as it is, on the built-in models.
struct ExperimentTemplate {
  std::string_view name;              // "tp-vs-pp"
  std::string_view purpose;           // the question that it answers, one line
  std::string_view text;              // has a profile "quick"
  std::string_view suffix = ".json";  // of the file: JSON with comments, or ".yaml"
};

/// All templates, the simplest first.
std::span<const ExperimentTemplate> experiment_templates();

}  // namespace paceline
