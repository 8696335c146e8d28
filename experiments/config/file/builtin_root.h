#pragma once
// What ships with the program: the folder behind builtin: names, and in it the experiment files to start from.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace paceline {

/// The configs/ folder (the one with models/ in it) nearest above `file`, else ./configs, else the one nearest above
/// the program, else, where `cmake --install` put that as bin/runexp, share/paceline/configs beside bin/; empty when
/// there is none.
std::filesystem::path find_builtin_root(const std::filesystem::path& file);

/// Throws Error(usage): `name` begins with builtin: and find_builtin_root() found nothing.
[[noreturn]] void fail_without_builtin_root(const std::string& name);

/// A commented experiment in templates/ that runs as it is, on the built-in models.
struct ExperimentTemplate {
  std::string_view name;              // "tp-vs-pp": of the file, without suffix
  std::string_view purpose;           // the question that it answers, one line
  std::string_view suffix = ".json";  // JSON with comments, or ".yaml"
};

/// All templates, the simplest first.
std::span<const ExperimentTemplate> experiment_templates();

/// Its text for a file anywhere, which extends by builtin:. Throws Error(usage) where no configs/ is found.
std::string template_text(const ExperimentTemplate& of);

}  // namespace paceline
