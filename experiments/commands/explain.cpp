// runexp explain

#include "engine/util/suggest.h"
#include "experiments/commands/command_line.h"
#include "experiments/config/keys/key_help.h"
#include "experiments/config/vllm_flags.h"
#include "experiments/ui/output_columns.h"
#include "experiments/ui/progress_events.h"

namespace paceline {
namespace {

constexpr const char* kExitCodes =
    "0    ok\n"
    "1    finished, some cells failed\n"
    "2    usage or config, what a model's config.json says included\n"
    "3    model, tokenizer or data file that is missing or damaged\n"
    "4    device or memory\n"
    "5    rank or communication\n"
    "6    results store\n"
    "7    a correctness gate said no\n"
    "8    a timing gate said no\n"
    "9    inconclusive under --strict\n"
    "10   a check of Paceline's own failed: a bug, please report it\n"
    "130  SIGINT\n"
    "143  SIGTERM\n";

/// What a typed name can have meant: topics, sections, keys, aliases and parts of keys.
std::vector<std::string> known_names() {
  std::vector<std::string> names = {"exit-codes", "jsonl"};
  for (const KeySection& section : key_sections()) {
    if (!section.name.empty()) names.push_back(section.name);
  }
  for (std::string& name : key_names_for_hints()) names.push_back(std::move(name));
  for (const KeySpec& key : config_keys()) {
    for (std::string_view path = key.path; !path.empty();) {  // "kv_cache" of "engine.kv_cache.dtype", too
      names.emplace_back(last_part(path));
      path = path.substr(0, path.size() > names.back().size() ? path.size() - names.back().size() - 1 : 0);
    }
  }
  return names;
}

std::string hint_for(const std::string& name) {
  if (name.find('.') != std::string::npos) return hint_for_unknown_key(name);
  const std::string of_vllm = hint_for_vllm_name(name, "");
  return of_vllm.empty() ? did_you_mean(name, known_names()) : of_vllm;
}

/// Throws Error(usage) with the nearest name for an unknown one.
ExitCode explain_command(const std::string& name) {
  std::optional<std::string> text;
  if (name.empty()) {
    text = fmt::format("{}\nTopics: exit-codes, jsonl. `runexp explain KEY` says more about one key or section.\n",
                       describe_section(""));
  } else if (name == "exit-codes" || name == "exit_codes") {
    text = kExitCodes;
  } else if (name == "jsonl") {
    text = progress_events_markdown();
  } else {
    text = explain_name(name);
  }
  if (!text) {
    fail(ExitCode::usage,
         "explain: \"{}\" is no key, section or topic{}; `runexp explain` lists the keys, and the topics exit-codes "
         "and jsonl",
         name, hint_for(name));
  }
  print_wrapped_lines(*text);
  return ExitCode::ok;
}

}  // namespace

void add_explain_command(const Command& program) {
  const auto name = std::make_shared<std::string>();
  program.below("explain", "explain a configuration key, a section, or a topic: exit-codes, jsonl")
      .option("key", *name, "key, alias or section; without one, all keys are listed", {.offers = explained_names})
      .calls([name] { return explain_command(*name); });
}

}  // namespace paceline
