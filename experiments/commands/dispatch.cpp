#include "experiments/commands/dispatch.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "engine/util/suggest.h"
#include "experiments/commands/command_line.h"
#include "experiments/commands/help_pages.h"
#include "experiments/results/build_info.h"

namespace paceline {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// `runexp help plan` is `runexp plan --help`.
std::vector<std::string> with_help_option(std::vector<std::string> args) {
  if (args.empty() || args.front() != "help") return args;
  args.erase(args.begin());
  args.push_back("--help");
  return args;
}

/// `runexp configs/x.json …` is `runexp run configs/x.json …`; a word that is neither a command nor a file gets a hint.
std::vector<std::string> with_implied_run(const CLI::App& app, std::vector<std::string> args) {
  if (args.empty() || args.front().starts_with("-")) return args;
  const std::string& first = args.front();
  const std::vector<std::string> commands = command_names(app);
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

/// "--pairs: 1 required INT missing" and "runs: At least 2 required but received 1" as we say it; other texts as they
/// are.
std::string in_our_words(const std::string& complaint) {
  const size_t colon = complaint.find(": ");
  if (colon == std::string::npos) return complaint;
  const std::string name = complaint.substr(0, colon), rest = complaint.substr(colon + 2);
  if (rest.starts_with("1 required ") && rest.ends_with(" missing")) return name + ": expected a value behind it";
  int least = 0, found = 0;
  if (std::sscanf(rest.c_str(), "At least %d required but received %d", &least, &found) == 2)
    return fmt::format("{}: expected at least {}, found {}", name, least, found);
  return complaint;
}

/// What CLI11 complains about, in our words where its own mislead.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  std::string command;  // "config show"
  for (const CLI::App* part = at; part != &app; part = part->get_parent())
    command = part->get_name() + (command.empty() ? "" : " ") + command;
  const std::string help = at == &app ? "runexp --help" : fmt::format("runexp {} --help", command);
  if (const std::vector<std::string> rest = app.remaining(true); !rest.empty()) {
    const auto option = std::find_if(rest.begin(), rest.end(),
                                     [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
    const std::vector<std::string> below = command_names(*at);
    if (option == rest.end() && !below.empty())
      return fmt::format("unknown command \"{} {}\"{}; there are {}; see {}", command, rest.front(),
                         did_you_mean(rest.front(), below), fmt::join(below, ", "), help);
    if (option == rest.end())
      return fmt::format("unexpected argument \"{}\" (quote text with spaces); see {}", rest.front(), help);
    std::vector<std::string> known;
    for (const CLI::Option* each : at->get_options()) {
      for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
    }
    return fmt::format("unknown option \"{}\"{}; see {}", *option,
                       did_you_mean(option->substr(0, option->find('=')), known), help);
  }
  if (at == &app)
    return fmt::format("name a command ({}) or a configuration file; see {}", fmt::join(command_names(app), ", "),
                       help);
  if (const std::vector<std::string> below = command_names(*at); !below.empty())
    return fmt::format("name a command after \"{}\": {}; see {}", command, fmt::join(below, ", "), help);
  return fmt::format("{}; see {}", in_our_words(error.what()), help);
}

std::string version_text() {
  const BuildInfo& build = build_info();
  const bool known = *build.commit != '\0';
  return fmt::format("paceline {}\ncommit   {}{}\ncompiler {}\nflags    {}\nmode     {}", kProgramVersion,
                     known ? build.commit : "unknown", build.dirty ? ", with changes that are not committed" : "",
                     build.compiler, build.flags, build.unity ? "unity" : "one object per file");
}

/// "runs..." where CLI11 writes "runs(2x)".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = option->get_name(true) + (option->get_expected_max() > 1 ? "..." : "");
    return option->get_required() ? name : "[" + name + "]";
  }
};

void add_commands(CLI::App& app, CommandLine& line) {
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  add_run_command(app, line);
  add_plan_command(app, line);
  add_resume_command(app, line);
  add_runs_commands(app, line);
  add_trace_command(app, line);
  add_doctor_command(app, line);
  add_models_command(app, line);
  add_model_commands(app, line);
  add_certificate_command(app, line);
  add_convert_command(app, line);
  add_compare_command(app, line);
  add_regress_command(app, line);
  add_explain_command(app, line);
  add_init_command(app, line);
  add_config_commands(app, line);
  add_completion_command(app, line);
  add_import_command(app, line);
  add_help_pages(app);
}

}  // namespace

ExitCode dispatch(const std::vector<std::string>& argv) {
  std::vector<std::string> args(argv.begin() + 1, argv.end());
  normalise_options(args);
  CLI::App app{"Paceline: does speculative decoding pay on this model, this traffic and this machine?", "runexp"};
  CommandLine line{.argv = argv};
  app.formatter(std::make_shared<HelpFormatter>());
  add_commands(app, line);
  args = with_implied_run(app, with_help_option(std::move(args)));
  try {
    std::reverse(args.begin(), args.end());  // CLI11 takes the last argument first
    app.parse(args);
  } catch (const CLI::Success& done) {  // --help, --version
    app.exit(done);
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::usage, "{}", usage_message(app, error));
  }
  return line.code;
}

}  // namespace paceline
