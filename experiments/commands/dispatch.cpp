#include "experiments/commands/dispatch.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/util/suggest.h"
#include "experiments/commands/command_line.h"
#include "experiments/results/build_info.h"

namespace paceline {
namespace {

/// `runexp help plan` is `runexp plan --help`.
std::vector<std::string> with_help_option(std::vector<std::string> args) {
  if (args.empty() || args.front() != "help") return args;
  args.erase(args.begin());
  args.push_back("--help");
  return args;
}

/// `runexp configs/x.json …` is `runexp run configs/x.json …`; a word that is neither a command nor a file gets a hint.
std::vector<std::string> with_implied_run(const Command& program, std::vector<std::string> args) {
  if (args.empty() || args.front().starts_with("-")) return args;
  const std::string& first = args.front();
  if (first.starts_with("__")) return args;  // hidden
  std::vector<std::string> commands;
  for (const Command& command : program.commands()) commands.push_back(command.name());
  if (std::find(commands.begin(), commands.end(), first) != commands.end()) return args;
  const bool looks_like_file = first.find('/') != std::string::npos || first.find('.') != std::string::npos;
  if (!looks_like_file)
    fail(ExitCode::usage, "unknown command \"{}\"{}; commands: {}", first, did_you_mean(first, commands),
         fmt::join(commands, ", "));
  args.insert(args.begin(), "run");
  return args;
}

/// `_` and `-` are the same in option names.
void normalise_options(std::vector<std::string>& args) {
  for (std::string& arg : args) {
    if (!arg.starts_with("--")) continue;
    const size_t end = std::min(arg.find_first_of("= "), arg.size());
    std::replace(arg.begin(), arg.begin() + std::ptrdiff_t(end), '_', '-');
  }
}

std::string version_text() {
  const BuildInfo& build = build_info();
  const bool known = *build.commit != '\0';
  return fmt::format("paceline {}\ncommit   {}{}\ncompiler {}\nflags    {}\nmode     {}", kProgramVersion,
                     known ? build.commit : "unknown", build.dirty ? ", with changes that are not committed" : "",
                     build.compiler, build.flags, build.unity ? "unity" : "one object per file");
}

void add_commands(const Command& program) {
  add_run_command(program);
  add_plan_command(program);
  add_resume_command(program);
  add_runs_commands(program);
  add_trace_command(program);
  add_doctor_command(program);
  add_models_command(program);
  add_model_commands(program);
  add_certificate_command(program);
  add_convert_command(program);
  add_compare_command(program);
  add_regress_command(program);
  add_explain_command(program);
  add_init_command(program);
  add_config_commands(program);
  add_completion_command(program);
  add_import_command(program);
  add_help_pages(program);
}

}  // namespace

ExitCode dispatch(const std::vector<std::string>& argv) {
  std::vector<std::string> args(argv.begin() + 1, argv.end());
  normalise_options(args);
  Program program(argv, "Paceline: does speculative decoding pay on this model, this traffic and this machine?",
                  version_text());
  add_commands(program.command());
  return program.run(with_implied_run(program.command(), with_help_option(std::move(args))));
}

}  // namespace paceline
