// runexp completion, and what its scripts ask: runexp __complete SHELL WORD…, the last word being the one at the
// cursor.

#include <algorithm>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "experiments/commands/command_line.h"
#include "experiments/config/keys/schema.h"

namespace paceline {
namespace {

constexpr const char* kFiles = ":files";  // a line that asks the shell for file names, too

const std::map<std::string, const char*> kScripts = {
    {"bash", R"sh(# bash completion of runexp: source <(runexp completion bash)
_runexp() {
  local IFS=$'\n' found current="${COMP_WORDS[COMP_CWORD]}"
  found=($("${COMP_WORDS[0]}" __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  COMPREPLY=(${found[@]#:files})
  if [[ ${found[*]} == *:files ]]; then compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$current")); fi
  if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -F _runexp runexp
)sh"},
    {"zsh", R"sh(#compdef runexp
# zsh completion of runexp: runexp completion zsh > ~/.zfunc/_runexp
_runexp() {
  local -a found=("${(@f)$("$words[1]" __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ $words[CURRENT-1] == --(set|axis) ]]; then compset -P '*='; fi
  local -a open=(${(M)found:#*=}) whole=(${${found:#*=}:#:files})
  if (( $#open )); then compadd -S '' -- $open; fi
  if (( $#whole )); then compadd -- $whole; fi
  if (( $found[(Ie):files] )); then _files; fi
}
if [[ $funcstack[1] == _runexp ]]; then _runexp "$@"; elif (( $+functions[compdef] )); then compdef _runexp runexp; fi
)sh"},
    {"fish", R"sh(# fish completion of runexp: runexp completion fish > ~/.config/fish/completions/runexp.fish
function __runexp_complete
    set -l typed (commandline -opc)
    for line in ($typed[1] __complete fish $typed[2..-1] (commandline -ct) 2>/dev/null)
        if test $line = :files; __fish_complete_path (commandline -ct); else; echo $line; end
    end
end
complete -c runexp -f -a '(__runexp_complete)'
)sh"},
};

/// Words, each with its help where it has one.
using Candidates = std::vector<std::pair<std::string, std::string>>;

Candidates plain(const std::vector<std::string>& words, const std::string& before = {},
                 const std::string& behind = {}) {
  Candidates out;
  for (const std::string& word : words) out.emplace_back(before + word + behind, "");
  return out;
}

/// The words that a key takes beside numbers: choices, true and false, "auto".
std::vector<std::string> value_words(const std::string& name) {
  const KeySpec* const key = find_key_or_alias(name);
  if (!key) return {};
  std::vector<std::string> words = key->canonical_choices();
  if (key->type == KeyType::boolean) words = {"true", "false"};
  if (!key->absent.empty() && std::find(words.begin(), words.end(), key->absent) == words.end())
    words.push_back(key->absent);
  return words;
}

Candidates profiles_of(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(word, ignored)) return plain(load_config(word, {}).profiles);
  }
  return {};
}

bool takes_keys(const std::string& option) { return option == "--set" || option == "--axis"; }

/// What was typed. bash makes '=' a word of its own: `--set k = 3` is `--set k=3` with the cursor behind '='.
struct TypedLine {
  std::vector<std::string> words;  // before the cursor's
  std::string current, key;        // key: of a --set whose value is wanted
  std::string before;              // what a value begins with, as the shell takes whole words

  TypedLine(const std::string& shell, std::vector<std::string> typed) : words(std::move(typed)) {
    if (words.empty() || (shell == "bash" && words.back() == "=")) words.emplace_back();
    current = words.back();
    words.pop_back();
    if (words.size() > 2 && words.back() == "=") {
      words.pop_back();
      if (takes_keys(words[words.size() - 2])) {
        key = words.back();
        words.pop_back();
      }
    } else if (const size_t equals = current.find('='); equals != std::string::npos && takes_keys(previous())) {
      key = current.substr(0, equals);
      if (shell == "fish") before = key + "=";
      if (shell == "zsh") current = current.substr(equals + 1);
    }
  }
  std::string previous() const { return words.empty() ? "" : words.back(); }
};

/// The command that the words name; a file alone means run.
Command command_of(const Command& program, const std::vector<std::string>& words) {
  Command at = program;
  for (const std::string& word : words) {
    const bool is_file = at.name() == program.name() && word.find_first_of("./") != std::string::npos;
    for (const Command& below : at.commands()) {
      if (below.name() != (is_file ? "run" : word)) continue;
      at = below;
      break;
    }
  }
  return at;
}

Candidates candidates(const Command& program, const TypedLine& line) {
  if (!line.key.empty()) return plain(value_words(line.key), line.before);
  if (line.previous() == "--profile") return profiles_of(line.words);
  if (takes_keys(line.previous())) return plain(key_names(line.previous() == "--axis"), "", "=");
  const Command command = command_of(program, line.words);
  const bool is_option = line.current.starts_with("-");
  Candidates out;
  for (const auto& [names, help, takes_value, words] : command.options()) {
    const bool is_before = std::find(names.begin(), names.end(), line.previous()) != names.end();
    if (is_before && takes_value) return words.empty() ? plain({kFiles}) : plain(words);
    if (is_option)
      for (const std::string& name : names) out.emplace_back(name, help);
    else if (names.empty())
      for (const std::string& word : words) out.emplace_back(word, "");
  }
  if (is_option) return out;
  const bool has_words = !out.empty();
  const std::vector<Command> below = command.commands();
  for (const Command& one : below) out.emplace_back(one.name(), one.help());
  if ((below.empty() && !has_words) || command.name() == program.name()) out.emplace_back(kFiles, "");
  return out;
}

ExitCode complete_command(const Command& program, const std::vector<std::string>& words) {
  if (words.empty()) return ExitCode::usage;
  const std::string& shell = words.front();
  const TypedLine line(shell, {words.begin() + 1, words.end()});
  for (const auto& [text, help] : candidates(program, line))
    if (text == kFiles || text.starts_with(line.current))
      fmt::print("{}{}\n", text, shell == "fish" && !help.empty() ? "\t" + help : "");
  return ExitCode::ok;
}

}  // namespace

void add_completion_command(const Command& program) {
  const auto shell = std::make_shared<std::string>();
  program.below("completion", "print a completion script for a shell")
      .option("shell", shell.get(), "", {.required = true, .words = {"bash", "zsh", "fish"}})
      .calls([shell] {
        fmt::print("{}", kScripts.at(*shell));
        return ExitCode::ok;
      });
  const auto words = std::make_shared<std::vector<std::string>>();
  program.below("__complete", "").rest(words.get()).calls([program, words] {
    return complete_command(program, *words);
  });
}

}  // namespace paceline
