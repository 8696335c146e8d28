// runexp init

#include "engine/util/suggest.h"
#include "experiments/commands/command_line.h"
#include "experiments/config/file/templates.h"

namespace paceline {
namespace {

ExitCode list_templates() {
  for (const ExperimentTemplate& each : experiment_templates()) fmt::print("{:<18} {}\n", each.name, each.purpose);
  return ExitCode::ok;
}

/// Throws Error(usage) for an unknown name and for none.
ExitCode init_command(const std::string& name) {
  std::vector<std::string> names;
  for (const ExperimentTemplate& each : experiment_templates()) {
    if (each.name == name) {
      fmt::print("{}", text_for_configs(each));
      return ExitCode::ok;
    }
    names.emplace_back(each.name);
  }
  const std::string known = fmt::format("there are {}", fmt::join(names, ", "));
  if (name.empty())
    fail(ExitCode::usage, "init: name a template, as in `runexp init minimal > configs/mine.json`; {}", known);
  fail(ExitCode::usage, "init: unknown template \"{}\"{}; {}", name, did_you_mean(name, names), known);
}

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const ExperimentTemplate& each : experiment_templates()) names.emplace_back(each.name);
  return names;
}

}  // namespace

void add_init_command(const Command& program) {
  struct Options {
    std::string name;
    bool list = false;
  };
  const auto options = std::make_shared<Options>();
  program.below("init", "print a commented experiment to start from: > configs/mine.json")
      .option("template", options->name, "one of --list", {.offers = template_names})
      .flag("--list", options->list, "list the templates, each with its question")
      .calls([options] { return options->list ? list_templates() : init_command(options->name); });
}

}  // namespace paceline
