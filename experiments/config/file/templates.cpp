#include "experiments/config/file/templates.h"

#include "engine/util/user_file.h"
#include "experiments/config/file/builtin_root.h"

namespace paceline {

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

std::string text_for_configs(const ExperimentTemplate& of) {
  const std::filesystem::path root = find_builtin_root("config.json");
  if (root.empty()) fail_without_builtin_root("builtin:templates");
  std::string text = read_user_file(root / "templates" / (std::string(of.name) + std::string(of.suffix)),
                                    {.code = ExitCode::usage, .max_bytes = size_t{1} << 20});
  for (size_t at; (at = text.find("../")) != std::string::npos;) text.erase(at, 3);
  return text;
}

}  // namespace paceline
