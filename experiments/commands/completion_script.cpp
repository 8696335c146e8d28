#include "experiments/commands/completion_script.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/key_help.h"
#include "experiments/config/schema.h"
#include "experiments/config/templates.h"

namespace paceline {

namespace {

struct CommandOption {
  std::string name;  // "--set", "-k"
  std::string help;
  bool takes_value = false;
};

/// One command as a shell sees it. `path` is empty for the program itself, "config show" for a nested command.
struct Command {
  std::string path, name, help;
  std::vector<CommandOption> options;
  std::vector<const CLI::App*> below;
};

void collect(const CLI::App& app, const std::string& path, std::vector<Command>& commands) {
  Command command{.path = path, .name = app.get_name(), .help = app.get_description(), .below = {}};
  for (const CLI::Option* option : app.get_options()) {
    const bool takes_value = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_lnames())
      command.options.push_back({"--" + name, option->get_description(), takes_value});
    for (const std::string& name : option->get_snames())
      command.options.push_back({"-" + name, option->get_description(), takes_value});
  }
  for (const CLI::App* below : app.get_subcommands({})) command.below.push_back(below);
  const std::vector<const CLI::App*> below = command.below;
  commands.push_back(std::move(command));
  for (const CLI::App* each : below) {
    collect(*each, path.empty() ? each->get_name() : fmt::format("{} {}", path, each->get_name()), commands);
  }
}

/// Keys that --set (or --axis) takes, aliases first.
std::vector<std::string> key_names(bool axes_only) {
  std::vector<std::string> aliases, paths;
  for (const KeySpec& key : config_keys()) {
    if (axes_only ? !can_differ_between_cells(key) : key.type == KeyType::outside && key.path != "name") continue;
    for (std::string& alias : aliases_of(key)) aliases.push_back(std::move(alias));
    paths.push_back(key.path);
  }
  aliases.insert(aliases.end(), paths.begin(), paths.end());
  return aliases;
}

/// The words that a key takes beside numbers: choices, true and false, "auto".
std::vector<std::string> value_words(const KeySpec& key) {
  std::vector<std::string> words = key.canonical_choices();
  if (key.type == KeyType::boolean) words = {"true", "false"};
  if (!key.absent.empty() && std::find(words.begin(), words.end(), key.absent) == words.end()) {
    words.push_back(key.absent);
  }
  return words;
}

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const ExperimentTemplate& each : experiment_templates()) names.emplace_back(each.name);
  return names;
}

std::vector<std::string> explained_names() {
  std::vector<std::string> names = key_names(false);
  for (const KeySection& section : key_sections()) {
    if (!section.name.empty()) names.push_back(section.name);
  }
  names.push_back("exit-codes");
  return names;
}

/// Words in the place of a file name, by command.
std::vector<std::pair<std::string, std::vector<std::string>>> argument_words() {
  return {{"explain", explained_names()}, {"init", template_names()}, {"completion", {"bash", "zsh", "fish"}}};
}

/// Words after an option, by its name.
std::vector<std::pair<std::string, std::vector<std::string>>> option_words() {
  return {{"--ui", {"auto", "live", "plain", "jsonl", "quiet"}},
          {"--proposer", find_key_or_alias("proposer")->canonical_choices()}};
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::string names_of(const std::vector<CommandOption>& options) {
  std::string text;
  for (const CommandOption& option : options) text += (text.empty() ? "" : " ") + option.name;
  return text;
}

/// In single quotes, for bash and zsh.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return fmt::format("'{}'", out);
}

/// `"pattern") NAME='words' ;;` for each entry.
std::string cases(const std::vector<std::pair<std::string, std::vector<std::string>>>& entries, std::string_view name) {
  std::string text;
  for (const auto& [pattern, words] : entries) {
    text += fmt::format("    {}) {}={} ;;\n", quoted(pattern), name, quoted(joined(words)));
  }
  return text;
}

/// Keys that take words, as patterns with their words.
std::vector<std::pair<std::string, std::vector<std::string>>> key_words() {
  std::vector<std::pair<std::string, std::vector<std::string>>> entries;
  for (const KeySpec& key : config_keys()) {
    const std::vector<std::string> words = value_words(key);
    if (words.empty()) continue;
    entries.emplace_back(key.path, words);
    for (const std::string& alias : aliases_of(key)) entries.emplace_back(alias, words);
  }
  return entries;
}

/// What bash and zsh share: the tables, as functions that set `found`. The languages agree on these lines.
std::string shared_tables(const std::vector<Command>& commands) {
  std::vector<std::pair<std::string, std::vector<std::string>>> options, below;
  std::string paths;
  for (const Command& command : commands) {
    options.push_back({command.path, {names_of(command.options)}});
    std::vector<std::string> names;
    for (const CLI::App* each : command.below) names.push_back(each->get_name());
    if (!names.empty()) below.emplace_back(command.path, names);
    if (!command.path.empty()) paths += fmt::format("{}{}", paths.empty() ? "" : " | ", quoted(command.path));
  }
  const auto table = [](std::string_view function, const std::string& lines) {
    return fmt::format("{}() {{\n  found=''\n  case \"$1\" in\n{}  esac\n}}\n", function, lines);
  };
  std::string text =
      "_runexp_is_command() {\n  case \"$1\" in\n    " + paths + ") return 0 ;;\n  esac\n  return 1\n}\n";
  text += table("_runexp_options", cases(options, "found"));
  text += table("_runexp_commands", cases(below, "found"));
  text += table("_runexp_arguments", cases(argument_words(), "found"));
  text += table("_runexp_values", cases(key_words(), "found"));
  auto after = option_words();
  after.insert(after.begin(), {{"--set", key_names(false)}, {"--axis", key_names(true)}});
  return text + table("_runexp_after", cases(after, "found"));
}

constexpr const char* kBashBody = R"sh(
_runexp() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local found path='' next i last=$((COMP_CWORD-1))
  COMPREPLY=()
  if [[ $current == '=' ]]; then  # bash makes '=' a word of its own
    previous='='
    current=''
    last=$COMP_CWORD
  fi
  if [[ $previous == '=' ]]; then
    local key="${COMP_WORDS[last-1]}" option="${COMP_WORDS[last-2]}"
    if [[ $option == --set || $option == --axis ]]; then
      _runexp_values "$key"
      COMPREPLY=($(compgen -W "$found" -- "$current"))
      return
    fi
    previous="$key"
  fi
  if [[ $previous == --profile ]]; then  # a name of the experiment's own, no file
    for next in "${COMP_WORDS[@]:1:COMP_CWORD-2}"; do
      if [[ -f $next ]]; then found="$("${COMP_WORDS[0]}" config profiles "$next" 2>/dev/null)"; fi
    done
    COMPREPLY=($(compgen -W "$found" -- "$current"))
    return
  fi
  _runexp_after "$previous"
  if [[ -n $found ]]; then
    if [[ $previous == --set || $previous == --axis ]]; then
      compopt -o nospace 2>/dev/null
      COMPREPLY=($(compgen -S '=' -W "$found" -- "$current"))
    else
      COMPREPLY=($(compgen -W "$found" -- "$current"))
    fi
    return
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    next="${path:+$path }${COMP_WORDS[i]}"
    if _runexp_is_command "$next"; then
      path="$next"
    elif [[ -z $path && ${COMP_WORDS[i]} == *[./]* ]]; then
      path=run  # a file alone means run
    fi
  done
  if [[ $current == -* ]]; then
    _runexp_options "$path"
    COMPREPLY=($(compgen -W "$found" -- "$current"))
    return
  fi
  _runexp_commands "$path"
  if [[ -z $found ]]; then _runexp_arguments "$path"; fi
  if [[ -n $found ]]; then COMPREPLY=($(compgen -W "$found" -- "$current")); fi
  if [[ -z $found || -z $path ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r next; do COMPREPLY+=("$next"); done < <(compgen -f -- "$current")
  fi
}
complete -F _runexp runexp
)sh";

constexpr const char* kZshBody = R"sh(
_runexp() {
  local current="$words[CURRENT]" previous="$words[CURRENT-1]" path_='' next word
  local -a typed=("${(@)words[2,CURRENT-1]}")
  local found
  if [[ $previous == --set || $previous == --axis ]]; then
    if [[ $current == *=* ]]; then
      _runexp_values "${current%%=*}"
      compset -P '*='
      compadd -- ${=found}
    else
      _runexp_after "$previous"
      compadd -S '=' -- ${=found}
    fi
    return
  fi
  if [[ $previous == --profile ]]; then  # a name of the experiment's own, no file
    for word in $typed; do
      if [[ -f $word ]]; then found="$("$words[1]" config profiles "$word" 2>/dev/null)"; fi
    done
    compadd -- ${=found}
    return
  fi
  _runexp_after "$previous"
  if [[ -n $found ]]; then
    compadd -- ${=found}
    return
  fi
  for word in $typed; do
    next="${path_:+$path_ }$word"
    if _runexp_is_command "$next"; then
      path_="$next"
    elif [[ -z $path_ && $word == *[./]* ]]; then
      path_=run  # a file alone means run
    fi
  done
  if [[ $current == -* ]]; then
    _runexp_options "$path_"
    compadd -- ${=found}
    return
  fi
  _runexp_commands "$path_"
  if [[ -z $found ]]; then _runexp_arguments "$path_"; fi
  if [[ -n $found ]]; then compadd -- ${=found}; fi
  if [[ -z $found || -z $path_ ]]; then _files; fi
}
if [[ $funcstack[1] == _runexp ]]; then
  _runexp "$@"
elif (( $+functions[compdef] )); then
  compdef _runexp runexp
fi
)sh";

/// In single quotes, for fish.
std::string fish_quoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
  return fmt::format("'{}'", out);
}

/// `key=`, and `key=word` for the words that a key takes.
std::vector<std::string> fish_assignments(bool axes_only) {
  std::vector<std::string> words;
  for (const std::string& name : key_names(axes_only)) {
    words.push_back(name + "=");
    for (const std::string& value : value_words(*find_key_or_alias(name))) words.push_back(name + "=" + value);
  }
  return words;
}

std::string fish_script(const std::vector<Command>& commands) {
  std::string text = "# fish completion of runexp: runexp completion fish > ~/.config/fish/completions/runexp.fish\n";
  std::string paths;
  for (const Command& command : commands) {
    if (!command.path.empty()) paths += " " + fish_quoted(command.path);
  }
  text += "set -g __runexp_commands" + paths + "\n";
  text += R"sh(function __runexp_command
    set -l typed (commandline -opc)
    set -l path ''
    for word in $typed[2..-1]
        set -l next (string trim -- "$path $word")
        if contains -- $next $__runexp_commands
            set path $next
        else if test -z "$path"; and string match -q -r -- '[./]' $word
            set path run
        end
    end
    test "$path" = "$argv[1]"
end
function __runexp_profiles
    set -l typed (commandline -opc)
    for word in $typed[2..-1]
        if test -f "$word"
            $typed[1] config profiles $word 2>/dev/null
        end
    end
end
)sh";
  const auto words = argument_words();
  for (const Command& command : commands) {
    const std::string when = fish_quoted(fmt::format("__runexp_command \"{}\"", command.path));
    for (const CLI::App* below : command.below) {
      text += fmt::format("complete -c runexp -n {} -a {} -d {}\n", when, fish_quoted(below->get_name()),
                          fish_quoted(below->get_description()));
    }
    for (const auto& [path, names] : words) {
      if (path == command.path) text += fmt::format("complete -c runexp -n {} -f -a {}\n", when, quoted(joined(names)));
    }
    for (const CommandOption& option : command.options) {
      const bool is_long = option.name.starts_with("--");
      std::string value = option.takes_value ? " -r" : "";
      for (const auto& [name, names] : option_words()) {
        if (name == option.name) value = " -x -a " + quoted(joined(names));
      }
      if (option.name == "--profile") value = " -x -a '(__runexp_profiles)'";  // names of the experiment's own
      if (option.name == "--set" || option.name == "--axis") {
        value = " -x -a " + quoted(joined(fish_assignments(option.name == "--axis")));
      }
      text += fmt::format("complete -c runexp -n {} {} {}{} -d {}\n", when, is_long ? "-l" : "-s",
                          option.name.substr(is_long ? 2 : 1), value, fish_quoted(option.help));
    }
  }
  return text;
}

}  // namespace

std::string completion_script(const CLI::App& app, Shell shell) {
  std::vector<Command> commands;
  collect(app, "", commands);
  switch (shell) {
    case Shell::bash:
      return "# bash completion of runexp: source <(runexp completion bash)\n" + shared_tables(commands) + kBashBody;
    case Shell::zsh:
      return "#compdef runexp\n# zsh completion of runexp: runexp completion zsh > ~/.zfunc/_runexp\n" +
             shared_tables(commands) + kZshBody;
    case Shell::fish: return fish_script(commands);
  }
  return {};
}

}  // namespace paceline
