// runexp completion

#include "engine/util/suggest.h"
#include "experiments/commands/command_line.h"
#include "experiments/commands/completion_script.h"

namespace paceline {
namespace {

/// Throws Error(usage) for another shell.
Shell parse_shell(const std::string& name) {
  if (name == "bash") return Shell::bash;
  if (name == "zsh") return Shell::zsh;
  if (name == "fish") return Shell::fish;
  fail(ExitCode::usage, "completion: unknown shell \"{}\"{}; expected bash, zsh or fish", name,
       did_you_mean(name, {"bash", "zsh", "fish"}));
}

}  // namespace

void add_completion_command(CLI::App& app, CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "print a completion script for a shell: bash, zsh or fish");
  command->add_option("shell", *shell, "bash, zsh or fish")->required();
  command->callback([shell, &app, &line] {
    fmt::print("{}", completion_script(app, parse_shell(*shell)));
    line.code = ExitCode::ok;
  });
}

}  // namespace paceline
