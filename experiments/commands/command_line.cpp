#include "experiments/commands/command_line.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/util/suggest.h"
#include "experiments/commands/commands.h"
#include "experiments/config/keys/schema.h"
#include "experiments/report/text/text_lines.h"
#include "experiments/results/build_info.h"
#include "experiments/ui/output_columns.h"

namespace paceline {

struct Command::Program {
  std::vector<std::string> argv;
  ExitCode code = ExitCode::ok;
  std::map<const CLI::Option*, std::vector<std::string>> offers;
};

namespace {

/// CLI11's own range lets NaN through, and takes what lies beyond 64 bits for the largest number there is.
template <class Number>
void check_range(CLI::Option& option, const OptionRules& rules) {
  using Limits = std::numeric_limits<Number>;
  const Number least = Number(*rules.least), unbounded = Limits::has_infinity ? Limits::infinity() : Limits::max();
  const Number most = rules.most ? Number(*rules.most) : unbounded;
  const auto refusal = [=](const std::string& text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    return is_number && value >= least && value <= most
               ? std::string()
               : fmt::format("found {}, expected a number from {} to {}", text, least, most);
  };
  option.check(CLI::Validator([=](std::string& text) { return refusal(text); }, ""));
  if (rules.most) option.type_name(fmt::format("{}..{}", least, most));
}

template <class T>
T number_in(const T&);
template <class T>
T number_in(const std::optional<T>&);

template <class T>
CLI::Option* add_option(CLI::App& app, const std::string& name, T& value, const std::string& help,
                        const OptionRules& rules) {
  CLI::Option* const option = app.add_option(name, value, help);
  using Number = decltype(number_in(value));
  if constexpr (std::is_arithmetic_v<Number>)
    if (rules.least) check_range<Number>(*option, rules);
  return option;
}
CLI::Option* add_option(CLI::App& app, const std::string& name, bool& value, const std::string& help,
                        const OptionRules&) {
  return app.add_flag(name, value, help);
}

void check_word(CLI::Option& option, const std::vector<std::string>& words) {
  const auto refusal = [words](const std::string& text) {
    return std::find(words.begin(), words.end(), text) != words.end()
               ? std::string()
               : fmt::format("\"{}\" is unknown{}: use {}", text, did_you_mean(text, words), or_list(words));
  };
  option.check(CLI::Validator([=](std::string& text) { return refusal(text); }, ""));
}

/// Commands that lists show.
bool is_listed(const CLI::App* command) { return !command->get_group().empty(); }

std::vector<std::string> names_below(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands(is_listed)) names.push_back(one->get_name());
  return names;
}

/// "--pairs: 1 required INT missing", "--only: At Most 1 required but received 2" and "runs: At least 2 required but
/// received 1" as we say it; other texts as they are.
std::string in_our_words(const std::string& complaint) {
  const size_t colon = complaint.find(": ");
  if (colon == std::string::npos) return complaint;
  const std::string name = complaint.substr(0, colon), rest = complaint.substr(colon + 2);
  if (rest.starts_with("1 required ") && rest.ends_with(" missing")) return name + ": expected a value behind it";
  int most = 0, least = 0, found = 0;
  if (std::sscanf(rest.c_str(), "At Most %d required but received %d", &most, &found) == 2)
    return fmt::format("{}: expected {}, found {}", name, most == 1 ? "it once" : fmt::format("at most {}", most),
                       found);
  if (std::sscanf(rest.c_str(), "At least %d required but received %d", &least, &found) == 2)
    return fmt::format("{}: expected at least {}, found {}", name, least, found);
  return complaint;
}

/// A KEY=VALUE that stands without its own --set, where the command takes that.
std::optional<std::string> stray_setting(const CLI::App& command, const std::vector<std::string>& rest) {
  if (!command.get_option_no_throw("--set")) return std::nullopt;
  std::vector<std::string> words = rest;
  for (const CLI::Option* option : command.get_options([](const CLI::Option* each) { return each->get_positional(); }))
    words.insert(words.end(), option->results().begin(), option->results().end());
  const auto found = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.find('=') != std::string::npos && key_of_setting(word);
  });
  return found == words.end() ? std::nullopt : std::optional(*found);
}

/// A model in the place of a text, where the command takes it by --model; else empty.
std::string stray_model(const CLI::App& command) {
  if (!command.get_option_no_throw("--model")) return "";
  for (const CLI::Option* option : command.get_options([](const CLI::Option* each) { return each->get_positional(); }))
    for (const std::string& word : option->results()) {
      std::error_code ignored;
      const std::filesystem::path path = word;
      if (word.starts_with("builtin:") || std::filesystem::is_directory(path, ignored) ||
          (path.extension() == ".gguf" && std::filesystem::exists(path, ignored)))
        return word;
    }
  return "";
}

/// What CLI11 complains about, in our words where its own mislead.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;  // the command that was named last
  std::string path;           // "config show"; empty for the program
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += (path.empty() ? "" : " ") + at->get_name();
  }
  const std::string help = path.empty() ? "runexp --help" : fmt::format("runexp {} --help", path);
  const std::vector<std::string> below = names_below(*at);
  if (const std::vector<std::string> rest = app.remaining(true); !rest.empty() && !at->get_allow_extras()) {
    const auto option = std::find_if(rest.begin(), rest.end(),
                                     [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
    if (option == rest.end() && !below.empty())
      return fmt::format("unknown command \"{} {}\"{}; there are {}; see {}", path, rest.front(),
                         did_you_mean(rest.front(), below), fmt::join(below, ", "), help);
    if (const std::optional<std::string> setting = stray_setting(*at, rest))
      return fmt::format("\"{}\": write --set before each KEY=VALUE; see {}", *setting, help);
    if (option == rest.end()) {
      if (const std::string model = stray_model(*at); !model.empty())
        return fmt::format("\"{}\" looks like a model: name it with --model; see {}", model, help);
      return fmt::format("unexpected argument \"{}\"{}; see {}", rest.front(),
                         rest.front().find(' ') == std::string::npos ? " (quote text with spaces)" : "", help);
    }
    std::vector<std::string> known;
    for (const CLI::Option* each : at->get_options())
      for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
    return fmt::format("unknown option \"{}\"{}; see {}", *option,
                       did_you_mean(option->substr(0, option->find('=')), known), help);
  }
  if (path.empty())
    return fmt::format("name a command ({}) or a configuration file; see {}", fmt::join(below, ", "), help);
  if (!below.empty()) return fmt::format("name a command after \"{}\": {}; see {}", path, fmt::join(below, ", "), help);
  return fmt::format("{}; see {}", in_our_words(error.what()), help);
}

/// Columns before what an option does.
int help_gutter() { return output_columns() > 0 && output_columns() < 80 ? 24 : 38; }

/// "runs..." where CLI11 writes "runs(2x)"; `others`: words that it does not know of.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string others = {}) : others_(std::move(others)) { column_width(size_t(help_gutter())); }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (!others_.empty()) usage.insert(usage.find_last_not_of('\n') + 1, " " + others_);
    return usage;
  }
  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = option->get_name(true) + (option->get_expected_max() > 1 ? "..." : "");
    return option->get_required() ? name : "[" + name + "]";
  }
  /// Without CLI11's " x 2": the description says how many.
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const std::string number = fmt::format(" x {}", option->get_expected_min());
    if (const size_t at = text.find(number); at != std::string::npos) text.erase(at, number.size());
    return text;
  }

 private:
  std::string others_;
};

std::string version_text() {
  const BuildInfo& build = build_info();
  const bool known = *build.commit != '\0';
  return fmt::format("paceline {}\ncommit   {}{}\ncompiler {}\nflags    {}\nmode     {}", kProgramVersion,
                     known ? build.commit : "unknown", build.dirty ? ", with changes that are not committed" : "",
                     build.compiler, build.flags, build.unity ? "unity" : "one object per file");
}

constexpr const char* kProgramFooter =
    "A configuration file alone means run:\n"
    "  runexp configs/ngram_tp2.json --profile quick\n\n"
    "From a question to an answer:\n"
    "  runexp doctor                          is this machine fit?\n"
    "  runexp init --list                     experiments to start from\n"
    "  runexp plan configs/ngram_tp2.json     what would run, how long, in how much memory\n"
    "  runexp run configs/ngram_tp2.json      run it; Ctrl-C once stops it cleanly\n"
    "  runexp resume                          continue an interrupted run\n"
    "  runexp show last                       the table and the verdict again\n"
    "  runexp compare last~1 last             two runs side by side\n\n"
    "Environment:\n"
    "  PACELINE_MODELS       folder of checkpoints, for \"runexp models\" and \"${env:PACELINE_MODELS}\" in files\n"
    "  CUDA_VISIBLE_DEVICES  the GPUs that may be used\n"
    "  NO_COLOR, TERM, CI    no colours; no live view on dumb terminals and in CI\n"
    "  COLUMNS               width of tables, if the terminal reports none\n\n"
    "Exit codes: runexp explain exit-codes. Keys: runexp explain. Manual: README.md, docs/tutorial.md.";

/// Words as typed, without the program's name: `help plan` is `plan --help`, a file alone means `run`, `_` in an
/// option's name is `-`. Throws Error(usage) with a hint for a word that is neither a command nor a file.
std::vector<std::string> normalised(std::vector<std::string> args, const CLI::App& program) {
  for (std::string& arg : args) {
    if (!arg.starts_with("--")) continue;
    const size_t end = std::min(arg.find_first_of("= "), arg.size());
    std::replace(arg.begin(), arg.begin() + std::ptrdiff_t(end), '_', '-');
  }
  if (!args.empty() && args.front() == "help") {
    args.erase(args.begin());
    args.push_back("--help");
  }
  if (args.empty() || args.front().starts_with("-") || args.front().starts_with("__")) return args;
  const std::string& first = args.front();
  const std::vector<std::string> commands = names_below(program);
  if (std::find(commands.begin(), commands.end(), first) != commands.end()) return args;
  if (first.find_first_of("/.") == std::string::npos)
    fail(ExitCode::usage, "unknown command \"{}\"{}; commands: {}", first, did_you_mean(first, commands),
         fmt::join(commands, ", "));
  args.insert(args.begin(), "run");
  return args;
}

}  // namespace

Command Command::below(const std::string& name, const std::string& help) const {
  app_->require_subcommand(1);
  CLI::App* const added = app_->add_subcommand(name, help);
  if (help.empty()) added->group("");
  return {*added, *program_};
}

const std::vector<std::string>& Command::argv() const { return program_->argv; }

std::string Command::name() const { return app_->get_name(); }

std::string Command::help() const { return app_->get_description(); }

std::vector<OptionFacts> Command::options() const {
  std::vector<OptionFacts> all;
  for (const CLI::Option* const option : app_->get_options()) {
    OptionFacts facts{.names = {},
                      .help = option->get_description(),
                      .takes_value = option->get_items_expected_max() > 0,
                      .words = program_->offers[option]};
    for (const std::string& name : option->get_lnames()) facts.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) facts.names.push_back("-" + name);
    all.push_back(std::move(facts));
  }
  return all;
}

std::vector<Command> Command::commands() const {
  std::vector<Command> below;
  for (CLI::App* const each : app_->get_subcommands(is_listed)) below.emplace_back(*each, *program_);
  return below;
}

const Command& Command::option(const std::string& name, OptionTarget value, const std::string& help,
                               const OptionRules& rules) const {
  const std::string listed = or_list(rules.words);
  CLI::Option* const option = std::visit(
      [&](auto* to) {
        return add_option(*app_, name, *to, help + (help.empty() || listed.empty() ? "" : ": ") + listed, rules);
      },
      value);
  option->required(rules.required);
  if (rules.shown) option->capture_default_str();
  if (rules.type) option->type_name(rules.type);
  if (!rules.words.empty()) check_word(*option, rules.words);
  if (rules.greatest > 0) option->expected(rules.fewest, rules.greatest);
  // CLI11's own lists would let `--set a=1 file.json` take the file along.
  if (rules.repeated) option->allow_extra_args(false);
  program_->offers[option] = rules.words.empty() ? rules.offers : rules.words;
  return *this;
}

const Command& Command::others(std::vector<std::string>* words, const std::string& usage) const {
  app_->formatter(std::make_shared<HelpFormatter>(usage));
  app_->allow_extras();
  app_->parse_complete_callback([app = app_, words] { *words = app->remaining(); });
  return *this;
}

const Command& Command::rest(std::vector<std::string>* words, const std::string& usage) const {
  app_->formatter(std::make_shared<HelpFormatter>(usage));
  app_->prefix_command();
  app_->parse_complete_callback([app = app_, words] { *words = app->remaining(); });
  return *this;
}

const Command& Command::footer(const std::string& text) const {
  app_->footer(text);
  return *this;
}

void Command::calls(std::function<ExitCode()> body) const {
  app_->final_callback([body = std::move(body), program = program_] { program->code = body(); });
}

ExitCode dispatch(const std::vector<std::string>& argv) {
  Command::Program program{.argv = argv, .code = ExitCode::ok, .offers = {}};
  CLI::App app("Paceline: does speculative decoding pay on this model, this traffic and this machine?", "runexp");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "print this");
  app.set_version_flag("--version", version_text(), "print version and build");
  for (const auto add :
       {add_run_commands, add_plan_command, add_runs_commands, add_compare_command, add_regress_command,
        add_machine_commands, add_model_commands, add_generate_command, add_tokenize_command, add_serve_command,
        add_verify_commands, add_config_commands, add_completion_command})
    add(Command(app, program));
  app.footer(kProgramFooter);  // the last thing: commands inherit what is there
  std::vector<std::string> args = normalised({argv.begin() + 1, argv.end()}, app);
  try {
    std::reverse(args.begin(), args.end());  // CLI11 takes the last argument first
    app.parse(args);
  } catch (const CLI::Success& done) {  // --help, --version
    std::ostringstream text;
    app.exit(done, text, text);
    std::istringstream lines(text.str());
    for (std::string line; std::getline(lines, line);)
      fmt::print("{}", wrapped_text(line, output_columns(), line.starts_with("  ") ? help_gutter() : 0));
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::usage, "{}", usage_message(app, error));
  }
  return program.code;
}

const Command& add_override_options(const Command& command, ConfigOverrides& overrides) {
  return command
      .option("--set", &overrides.set, "override one value, e.g. --set speculation.ngram.max=5",
              {.repeated = true, .type = "KEY=VALUE"})
      .option("--profile", &overrides.profile, "apply profiles.NAME of the file, e.g. quick", {.type = "NAME"})
      .option("--axis", &overrides.axis, "replace or add an axis, e.g. --axis k=1..8",
              {.repeated = true, .type = "KEY=VALUES"})
      .option("--only", &overrides.only, "keep cells that match, e.g. 'tp==2 && k>3'", {.type = "EXPRESSION"});
}

const Command& add_config_options(const Command& command, std::filesystem::path& config, ConfigOverrides& overrides) {
  command.option("config", &config, "experiment file (.json with comments, or .yaml)",
                 {.required = true, .type = "FILE"});
  return add_override_options(command, overrides);
}

const Command& add_results_option(const Command& command, std::filesystem::path& root) {
  return command.option("--results", &root, "folder for results", {.shown = true, .type = "DIR"});
}

namespace {

/// "a, b and 62 more".
std::string some_of(std::span<const std::string> names) {
  constexpr size_t kMost = 6;
  if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.first(kMost), ", "), names.size() - kMost);
}

}  // namespace

size_t find_cell(const std::vector<CellName>& cells, const std::string& name, const std::string& where) {
  constexpr size_t kLeastOfHash = 4;
  std::vector<std::string> ids;
  std::vector<size_t> found;
  for (const CellName& cell : cells) {
    if (cell.id == name) return ids.size();
    if (cell.id.starts_with(name) || (name.size() >= kLeastOfHash && cell.hash.starts_with(name)))
      found.push_back(ids.size());
    ids.push_back(cell.id);
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    fail(ExitCode::usage, "{}: no cell \"{}\"{}; cells: {}", where, name, did_you_mean(name, ids), some_of(ids));
  std::vector<std::string> meant;
  for (const size_t index : found) meant.push_back(ids[index]);
  fail(ExitCode::usage, "{}: {} cells begin with \"{}\": {}", where, found.size(), name, some_of(meant));
}

const Command& add_run_argument(const Command& command, NamedRun& run, bool required) {
  command.option("run", &run.name, kRunHelp, {.required = required, .shown = !required, .type = "RUN"});
  return add_results_option(command, run.root);
}

}  // namespace paceline
