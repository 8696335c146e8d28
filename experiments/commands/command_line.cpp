#include "experiments/commands/command_line.h"

#include "experiments/commands/commands.h"

namespace paceline {

CLI::Option* add_repeatable(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                            const std::string& help) {
  return command.add_option(name, values, help)->allow_extra_args(false);
}

void add_override_options(CLI::App& command, ConfigOverrides& overrides) {
  add_repeatable(command, "--set", overrides.set, "override one value, e.g. --set speculation.ngram.max=5")
      ->type_name("KEY=VALUE");
  command.add_option("--profile", overrides.profile, "apply profiles.NAME of the file, e.g. quick")->type_name("NAME");
  add_repeatable(command, "--axis", overrides.axis, "replace or add an axis, e.g. --axis k=1..8")
      ->type_name("KEY=VALUES");
  command.add_option("--only", overrides.only, "run the cells for which the expression holds, e.g. 'tp==2 && k>3'")
      ->type_name("EXPRESSION");
}

void add_config_options(CLI::App& command, std::filesystem::path& config, ConfigOverrides& overrides) {
  command.add_option("config", config, "experiment file (.json with comments, or .yaml)")
      ->required()
      ->type_name("FILE");
  add_override_options(command, overrides);
}

void add_output_options(CLI::App& command, RunCommand& run) {
  command.add_option("--results", run.results_root, "folder for results")->capture_default_str()->type_name("DIR");
  command.add_option("--ui", run.progress, "auto, live, plain, jsonl or quiet")
      ->capture_default_str()
      ->type_name("VIEW");
}

void add_process_option(CLI::App& command, RunCommand& run) {
  command.add_flag("--in-process", run.in_process,
                   "run in this process, for debuggers: what kills it then ends the sweep");
}

}  // namespace paceline
