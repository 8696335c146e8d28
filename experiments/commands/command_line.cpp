#include "experiments/commands/command_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/util/suggest.h"
#include "experiments/commands/commands.h"

namespace paceline {
namespace {

/// CLI11's range holds for NaN, which is neither below nor above anything.
std::string refuse_nan(std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? fmt::format("found {}, expected a number", text) : "";
}

/// CLI11 takes what lies beyond 64 bits for the largest number there is.
CLI::Validator int64_range(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool is_whole = error == std::errc() && end == text.data() + text.size();
        return is_whole && value >= least && value <= most
                   ? std::string()
                   : fmt::format("Value {} not in range [{} - {}]", text, least, most);
      },
      fmt::format("INT in [{} - {}]", least, most));
}

template <class T>
struct NumberOf {
  using type = T;
};
template <class T>
struct NumberOf<std::optional<T>> {
  using type = T;
};

template <class T>
void add_range(CLI::Option& option, const OptionRules& rules) {
  using Number = typename NumberOf<T>::type;
  if constexpr (std::is_arithmetic_v<Number>) {
    if (!rules.least) return;
    const double most = rules.most.value_or(0);
    if constexpr (std::is_same_v<Number, int64_t>)
      option.check(
          int64_range(int64_t(*rules.least), rules.most ? int64_t(most) : std::numeric_limits<int64_t>::max()));
    else if (rules.most)
      option.check(CLI::Range(Number(*rules.least), Number(most)));
    else
      option.check(CLI::NonNegativeNumber);
    if constexpr (std::is_floating_point_v<Number>) option.check(CLI::Validator(refuse_nan, ""));
  }
}

void add_rules(CLI::Option& option, const OptionRules& rules) {
  option.required(rules.required);
  if (rules.shown) option.capture_default_str();
  if (rules.type) option.type_name(rules.type);
  if (!rules.words.empty()) option.check(CLI::IsMember(rules.words));
  if (rules.greatest > 1) option.expected(rules.fewest, rules.greatest);
}

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name());
  return names;
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

/// What CLI11 complains about, in our words where its own mislead. `at`: the command that was named last, `path` its
/// name, "config show", empty for the program.
std::string usage_message(const CLI::App& app, const Command& at, const std::string& path,
                          const CLI::ParseError& error) {
  const std::string help = path.empty() ? "runexp --help" : fmt::format("runexp {} --help", path);
  const std::vector<std::string> below = names_of(at.commands());
  if (const std::vector<std::string> rest = app.remaining(true); !rest.empty()) {
    const auto option = std::find_if(rest.begin(), rest.end(),
                                     [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
    if (option == rest.end() && !below.empty())
      return fmt::format("unknown command \"{} {}\"{}; there are {}; see {}", path, rest.front(),
                         did_you_mean(rest.front(), below), fmt::join(below, ", "), help);
    if (option == rest.end())
      return fmt::format("unexpected argument \"{}\" (quote text with spaces); see {}", rest.front(), help);
    std::vector<std::string> known;
    for (const OptionFacts& each : at.options())
      for (const std::string& name : each.names)
        if (name.starts_with("--")) known.push_back(name);
    return fmt::format("unknown option \"{}\"{}; see {}", *option,
                       did_you_mean(option->substr(0, option->find('=')), known), help);
  }
  if (path.empty())
    return fmt::format("name a command ({}) or a configuration file; see {}", fmt::join(below, ", "), help);
  if (!below.empty()) return fmt::format("name a command after \"{}\": {}; see {}", path, fmt::join(below, ", "), help);
  return fmt::format("{}; see {}", in_our_words(error.what()), help);
}

/// "runs..." where CLI11 writes "runs(2x)".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = option->get_name(true) + (option->get_expected_max() > 1 ? "..." : "");
    return option->get_required() ? name : "[" + name + "]";
  }
};

}  // namespace

struct Command::Shared {
  std::vector<std::string> argv;
  ExitCode code = ExitCode::ok;
  std::map<const CLI::Option*, std::function<std::vector<std::string>()>> offers;
};

Command Command::below(const std::string& name, const std::string& help) const {
  return {app_->add_subcommand(name, help), shared_};
}
const std::vector<std::string>& Command::argv() const { return shared_->argv; }

template <class T>
const Command& Command::option(const std::string& name, T& value, const std::string& help,
                               const OptionRules& rules) const {
  CLI::Option* const option = app_->add_option(name, value, help);
  add_rules(*option, rules);
  add_range<T>(*option, rules);
  if (rules.offers)
    shared_->offers[option] = rules.offers;
  else if (!rules.words.empty())
    shared_->offers[option] = [words = rules.words] { return words; };
  return *this;
}
template const Command& Command::option(const std::string&, std::string&, const std::string&, const OptionRules&) const;
template const Command& Command::option(const std::string&, std::filesystem::path&, const std::string&,
                                        const OptionRules&) const;
template const Command& Command::option(const std::string&, int&, const std::string&, const OptionRules&) const;
template const Command& Command::option(const std::string&, int64_t&, const std::string&, const OptionRules&) const;
template const Command& Command::option(const std::string&, double&, const std::string&, const OptionRules&) const;
template const Command& Command::option(const std::string&, std::optional<std::string>&, const std::string&,
                                        const OptionRules&) const;
template const Command& Command::option(const std::string&, std::optional<int>&, const std::string&,
                                        const OptionRules&) const;
template const Command& Command::option(const std::string&, std::optional<double>&, const std::string&,
                                        const OptionRules&) const;
template const Command& Command::option(const std::string&, std::vector<std::string>&, const std::string&,
                                        const OptionRules&) const;
template const Command& Command::option(const std::string&, std::vector<std::filesystem::path>&, const std::string&,
                                        const OptionRules&) const;

const Command& Command::flag(const std::string& name, bool& value, const std::string& help,
                             const OptionRules& rules) const {
  add_rules(*app_->add_flag(name, value, help), rules);
  return *this;
}

// CLI11's own lists would let `--set a=1 file.json` take the file along.
const Command& Command::repeated(const std::string& name, std::vector<std::string>& values, const std::string& help,
                                 const char* type) const {
  app_->add_option(name, values, help)->allow_extra_args(false)->type_name(type);
  return *this;
}

const Command& Command::rest(std::vector<std::string>& words) const {
  app_->prefix_command();
  app_->parse_complete_callback([app = app_, &words] { words = app->remaining(); });
  return *this;
}

const Command& Command::needs_one_below() const {
  app_->require_subcommand(1);
  return *this;
}

const Command& Command::hidden() const {
  app_->group("");
  return *this;
}

const Command& Command::footer(const std::string& text) const {
  app_->footer(text);
  return *this;
}

void Command::calls(std::function<ExitCode()> body) const {
  app_->final_callback([body = std::move(body), shared = shared_] { shared->code = body(); });
}

std::string Command::name() const { return app_->get_name(); }
std::string Command::help() const { return app_->get_description(); }

std::vector<OptionFacts> Command::options() const {
  std::vector<OptionFacts> out;
  for (const CLI::Option* option : app_->get_options()) {
    OptionFacts facts{.names = {},
                      .help = option->get_description(),
                      .takes_value = option->get_items_expected_max() > 0,
                      .words = {}};
    for (const std::string& name : option->get_lnames()) facts.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) facts.names.push_back("-" + name);
    if (const auto offers = shared_->offers.find(option); offers != shared_->offers.end())
      facts.words = offers->second();
    out.push_back(std::move(facts));
  }
  return out;
}

std::vector<Command> Command::commands() const {
  std::vector<Command> out;
  for (CLI::App* app : app_->get_subcommands({}))
    if (!app->get_group().empty()) out.push_back({app, shared_});
  return out;
}

Program::Program(std::vector<std::string> argv, const std::string& help, const std::string& version)
    : shared_(std::make_unique<Command::Shared>()), app_(std::make_unique<CLI::App>(help, "runexp")) {
  shared_->argv = std::move(argv);
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
}
Program::~Program() = default;

Command Program::command() { return {app_.get(), shared_.get()}; }

ExitCode Program::run(std::vector<std::string> args) {
  try {
    std::reverse(args.begin(), args.end());  // CLI11 takes the last argument first
    app_->parse(args);
  } catch (const CLI::Success& done) {  // --help, --version
    app_->exit(done);
  } catch (const CLI::ParseError& error) {
    CLI::App* at = app_.get();
    std::string path;
    while (!at->get_subcommands().empty()) {
      at = at->get_subcommands().front();
      path += (path.empty() ? "" : " ") + at->get_name();
    }
    fail(ExitCode::usage, "{}", usage_message(*app_, Command(at, shared_.get()), path, error));
  }
  return shared_->code;
}

void add_override_options(const Command& command, ConfigOverrides& overrides) {
  command.repeated("--set", overrides.set, "override one value, e.g. --set speculation.ngram.max=5", "KEY=VALUE")
      .option("--profile", overrides.profile, "apply profiles.NAME of the file, e.g. quick", {.type = "NAME"})
      .repeated("--axis", overrides.axis, "replace or add an axis, e.g. --axis k=1..8", "KEY=VALUES")
      .option("--only", overrides.only, "run the cells for which the expression holds, e.g. 'tp==2 && k>3'",
              {.type = "EXPRESSION"});
}

void add_config_options(const Command& command, std::filesystem::path& config, ConfigOverrides& overrides) {
  command.option("config", config, "experiment file (.json with comments, or .yaml)",
                 {.required = true, .type = "FILE"});
  add_override_options(command, overrides);
}

void add_output_options(const Command& command, RunCommand& run) {
  command.option("--results", run.results_root, "folder for results", {.shown = true, .type = "DIR"})
      .option("--ui", run.progress, "auto, live, plain, jsonl or quiet",
              {.shown = true, .type = "VIEW", .offers = [] {
                 return std::vector<std::string>{"auto", "live", "plain", "jsonl", "quiet"};
               }});
}

void add_process_option(const Command& command, RunCommand& run) {
  command.flag("--in-process", run.in_process, "run in this process, for debuggers: what kills it then ends the sweep");
}

}  // namespace paceline
