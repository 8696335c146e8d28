#include "experiments/config/file/builtin_root.h"

#include "engine/util/user_file.h"

namespace paceline {

namespace {

bool is_builtin_root(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_directory(folder / "models", ignored);
}

/// The configs/ folder nearest above `file`; empty when there is none.
std::filesystem::path builtin_root_above(const std::filesystem::path& file) {
  std::filesystem::path folder = file.lexically_normal().parent_path();
  while (true) {
    if (folder.filename() == "configs" && is_builtin_root(folder)) return folder;
    if (is_builtin_root(folder / "configs")) return folder / "configs";
    if (folder == folder.parent_path()) return {};
    folder = folder.parent_path();
  }
}

}  // namespace

std::filesystem::path find_builtin_root(const std::filesystem::path& file) {
  std::error_code ignored;  // the current folder may be gone
  const std::filesystem::path absolute = std::filesystem::absolute(file, ignored);
  std::filesystem::path root = absolute.empty() ? absolute : builtin_root_above(absolute);
  const std::filesystem::path here = std::filesystem::current_path(ignored);
  if (root.empty() && !here.empty() && is_builtin_root(here / "configs")) root = here / "configs";
  if (root.empty()) {  // from wherever: build/release/runexp lies below the repository, bin/runexp beside share/
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
    if (!program.empty()) root = builtin_root_above(program);
    const std::filesystem::path installed = program.parent_path().parent_path() / "share/paceline/configs";
    if (root.empty() && is_builtin_root(installed)) root = installed;
  }
  return root;
}

void fail_without_builtin_root(const std::string& name) {
  fail(ExitCode::usage,
       "\"{}\": found no folder configs/ with what is built in (models, shapes, workloads) above the configuration, in "
       "the current folder, above the program or in share/paceline beside its bin/; run it in the repository, or write "
       "a path",
       name);
}

std::span<const ExperimentTemplate> experiment_templates() {
  static constexpr ExperimentTemplate kTemplates[] = {
      {"minimal", "is n-gram lookup faster than plain decoding here?"},
      {"ngram-k-sweep", "how many tokens should n-gram lookup draft?"},
      {"draft-vs-ngram", "which proposer pays, a draft model or n-gram lookup?"},
      {"tp-vs-pp", "two ranks: split each layer, or the layers?"},
      {"batch-crossover", "at which load does speculation stop paying?"},
      {"open-loop-slo", "which proposer keeps a latency target at a given rate of requests? (YAML)", ".yaml"},
      {"stated-acceptance", "how good would a draft model have to be?"},
      {"ci-regression", "do tokens and counters stay the same? for `runexp regress`"},
  };
  return kTemplates;
}

std::string template_text(const ExperimentTemplate& of) {
  const std::filesystem::path root = find_builtin_root("config.json");
  if (root.empty()) fail_without_builtin_root("builtin:templates");
  std::string text = read_user_file(root / "templates" / (std::string(of.name) + std::string(of.suffix)),
                                    {.code = ExitCode::usage, .max_bytes = size_t{1} << 20});
  for (size_t at; (at = text.find("../")) != std::string::npos;) text.erase(at, 3);
  return text;
}

}  // namespace paceline
