// runexp explain, init, config, import-flags: experiment files, without running them

#include <cstdio>
#include <set>
#include <unistd.h>

#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "engine/util/suggest.h"
#include "experiments/commands/command_line.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/config/keys/key_help.h"
#include "experiments/config/keys/schema.h"
#include "experiments/config/shell_words.h"
#include "experiments/config/view.h"
#include "experiments/config/vllm_flags.h"
#include "experiments/report/documents.h"
#include "experiments/run/plan/sweep.h"
#include "experiments/ui/output_columns.h"
#include "experiments/ui/progress_events.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

struct ConfigCommand {
  std::filesystem::path file, other;
  std::vector<std::filesystem::path> files;
  ConfigOverrides overrides;
  std::string name;  // of a template or a key
  bool origin = false, json = false, list = false;
};

std::vector<Cell> cells_of(const LoadedConfig& loaded) { return expand(loaded, machine_context(loaded.config.engine)); }

ExitCode show_config_command(const ConfigCommand& command) {
  const LoadedConfig loaded = load_config(command.file, command.overrides);
  fmt::print("{}", resolved_text(loaded, command.origin ? ShowOrigins::yes : ShowOrigins::no));
  return ExitCode::ok;
}

ConfigJson cell_json(const std::vector<Cell>& cells, const Cell& cell) {
  ConfigJson json = {{"id", cell.id}};
  if (!cell.label.empty()) json["label"] = cell.label;
  json["axes"] = cell.axes;
  json["identity"] = cell.config_hash;
  json["baseline"] = cell.baseline ? ConfigJson(cells[*cell.baseline].id) : ConfigJson(nullptr);
  json["skip_reason"] = cell.skip_reason ? ConfigJson(*cell.skip_reason) : ConfigJson(nullptr);
  return json;
}

std::string axes_text(const ConfigJson& axes) {
  const bool drafts = axes.at("proposer") != kNoProposer;
  std::string text;
  for (const auto& [name, value] : axes.items()) {
    if (value.is_null() || (name == "num_speculative_tokens" && !drafts)) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, bare_text(value));
  }
  return text;
}

ExitCode expand_command(const ConfigCommand& command) {
  const std::vector<Cell> cells = cells_of(load_config(command.file, command.overrides));
  if (command.json) {
    ConfigJson list = ConfigJson::array();
    for (const Cell& cell : cells) list.push_back(cell_json(cells, cell));
    fmt::print("{}\n", compact_json(list));
    return ExitCode::ok;
  }
  size_t width = 0;
  for (const Cell& cell : cells) width = std::max(width, cell.id.size());
  for (const Cell& cell : cells) {
    fmt::print("{:<{}}  {}  {}{}\n", cell.id, width, cell.config_hash, axes_text(cell.axes),
               cell.skip_reason ? fmt::format("  # skipped: {}", *cell.skip_reason) : "");
  }
  return ExitCode::ok;
}

/// Data sets and models that cells name and that are not on this machine: "; not here: speculation.draft.path /x". The
/// file is right all the same; `plan` and `run` refuse the cells.
std::string missing_files_text(const std::vector<Cell>& cells) {
  std::set<std::string> missing;
  const auto look_for = [&](const std::string& key, const std::filesystem::path& path) {
    std::error_code ignored;
    if (!path.empty() && !std::filesystem::exists(path, ignored))
      missing.insert(fmt::format("{} {}", key, path.string()));
  };
  for (const Cell& cell : cells) {
    if (cell.skip_reason) continue;
    const ExperimentConfig& config = cell.config;
    look_for("workload.dataset", config.workload.file);
    look_for("engine.target.path", config.engine.target.directory);
    if (const SecondModelConfig* const model = config.speculation.second_model())
      look_for(config.speculation.key_of_model("path"), model->directory);
  }
  return missing.empty() ? "" : fmt::format("; not here: {}", fmt::join(missing, ", "));
}

/// Complaints of all files go to stderr; files without any are named on stdout.
ExitCode validate_command(const ConfigCommand& command) {
  ExitCode code = ExitCode::ok;
  for (const std::filesystem::path& file : command.files) {
    try {
      if (is_json_schema_file(file)) {
        fmt::print("{}: skipped: a JSON Schema, not an experiment\n", file.string());
        continue;
      }
      const LoadedConfig loaded = load_config(file, command.overrides);
      const std::vector<Cell> cells = cells_of(loaded);
      check_splits(loaded, cells, SplitRule::every_cell);
      fmt::print(
          "{}: ok, {}{}{}\n", file.string(), counted(int64_t(cells.size()), "cell"),
          loaded.is_fragment() ? "; no name and no axes: a part for other files to extend, or one cell alone" : "",
          missing_files_text(cells));
    } catch (const ConfigError& error) {
      fmt::print(stderr, "{}\n", error.full_text());
      code = error.code();
    } catch (const Error& error) {
      fmt::print(stderr, "runexp: error: {}\n", error.what());
      code = error.code();
    }
  }
  return code;
}

/// With one file: what the overrides change in it. With two they hold for both.
ExitCode diff_command(const ConfigCommand& command) {
  const bool one_file = command.other.empty();
  const LoadedConfig before = load_config(command.file, one_file ? ConfigOverrides{} : command.overrides);
  const LoadedConfig after = load_config(one_file ? command.file : command.other, command.overrides);
  const auto side = [&](const std::optional<ResolvedValue>& value) {
    if (!value) return std::string("absent");
    return command.origin ? fmt::format("{} ({})", value->text(), value->origin) : value->text();
  };
  for (const ConfigDifference& difference : config_differences(before, after))
    fmt::print("{}: {} -> {}\n", difference.path, side(difference.left), side(difference.right));
  return ExitCode::ok;
}

constexpr const char* kExitCodes =
    "0    ok\n"
    "1    finished, some cells failed\n"
    "2    usage or configuration, a model's config.json included\n"
    "3    model, tokenizer or data file that is missing or damaged\n"
    "4    device or memory\n"
    "5    rank or communication\n"
    "6    results store\n"
    "7    correctness check failed\n"
    "8    timing check failed\n"
    "9    regress --strict: times were disturbed\n"
    "10   a check of Paceline's own failed: a bug, please report it\n"
    "130  SIGINT\n"
    "143  SIGTERM\n";

/// What a typed name can have meant: topics, sections, keys, aliases and parts of keys.
std::vector<std::string> known_names() {
  std::vector<std::string> names = {"exit-codes", "jsonl"};
  for (const KeySection& section : key_sections()) {
    if (!section.name.empty()) names.push_back(section.name);
  }
  for (std::string& name : key_names(false)) names.push_back(std::move(name));
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

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const ExperimentTemplate& each : experiment_templates()) names.emplace_back(each.name);
  return names;
}

/// Throws Error(usage) for an unknown name and for none.
ExitCode init_command(const std::string& name, bool list) {
  for (const ExperimentTemplate& each : experiment_templates()) {
    if (list) fmt::print("{:<18} {}\n", each.name, each.purpose);
    if (list || each.name != name) continue;
    fmt::print("{}", template_text(each));
    return ExitCode::ok;
  }
  if (list) return ExitCode::ok;
  const std::vector<std::string> names = template_names();
  const std::string known = fmt::format("there are {}", fmt::join(names, ", "));
  if (name.empty())
    fail(ExitCode::usage, "init: name a template, as in `runexp init minimal > configs/mine.json`; {}", known);
  fail(ExitCode::usage, "init: unknown template \"{}\"{}; {}", name, did_you_mean(name, names), known);
}

ExitCode import_command(const std::vector<std::string>& arguments) {
  // One quoted text, or the flags as the shell has split them.
  const ShellWords split = arguments.size() == 1 ? split_shell_words(arguments.front()) : ShellWords{arguments};
  if (split.open_quote) fail(ExitCode::usage, "import-flags: a {} in the flags is never closed", split.open_quote);
  const std::vector<std::string>& words = split.words;
  if (words.empty()) {
    fail(ExitCode::usage,
         "import-flags: expected the flags of a vLLM or SGLang server, as in runexp import-flags "
         "\"--tensor-parallel-size 2 --seed 1\"");
  }
  const ImportedFlags imported = import_vllm_flags(words);
  fmt::print("{}", imported_text(imported));
  if (!isatty(STDOUT_FILENO))  // else the comments say it
    for (const auto& [flag, hint] : imported.unsupported)
      std::fputs(fmt::format("runexp: left out: {}{}\n", flag, hint).c_str(), stderr);
  return ExitCode::ok;
}

/// A command below `config` that prints a text.
void add_printer(const Command& config, const char* name, const char* help, std::string (*text)()) {
  config.below(name, help).calls([text] {
    fmt::print("{}", text());
    return ExitCode::ok;
  });
}

void add_config_command(const Command& program) {
  const Command config = program.below("config", "look at experiment files without running them");
  const auto show = std::make_shared<ConfigCommand>();
  add_config_options(config.below("show", "print the resolved configuration as JSON"), show->file, show->overrides)
      .option("--origin", &show->origin, "say where each value was written: file:line, --set or default")
      .calls([show] { return show_config_command(*show); });

  const auto expand = std::make_shared<ConfigCommand>();
  add_config_options(config.below("expand", "list the cells: id, hash, axes"), expand->file, expand->overrides)
      .option("--json", &expand->json, "as JSON, with baselines and reasons of skips")
      .calls([expand] { return expand_command(*expand); });

  const auto profiles = std::make_shared<ConfigCommand>();
  config.below("profiles", "name the profiles that --profile takes, one a line")
      .option("config", &profiles->file, "experiment file", {.required = true, .type = "FILE"})
      .calls([profiles] {
        for (const std::string& name : load_config(profiles->file, {}).profiles) fmt::print("{}\n", name);
        return ExitCode::ok;
      });

  const auto validate = std::make_shared<ConfigCommand>();
  add_override_options(config.below("validate", "check files and print every complaint, or ok"), validate->overrides)
      .option("configs", &validate->files, "experiment files", {.required = true, .type = "FILE"})
      .calls([validate] { return validate_command(*validate); });

  const auto diff = std::make_shared<ConfigCommand>();
  add_override_options(config.below("diff", "name the keys that two files differ in, or that --set changes in a file"),
                       diff->overrides)
      .option("left", &diff->file, "experiment file", {.required = true, .type = "FILE"})
      .option("right", &diff->other, "another; without it, the first one as the options change it", {.type = "FILE"})
      .option("--origin", &diff->origin, "say where each value was written")
      .footer(
          "Examples:\n"
          "  runexp config diff configs/ngram_tp2.json configs/tp_pp_speculative.json --origin\n"
          "  runexp config diff configs/ngram_tp2.json --profile quick")
      .calls([diff] { return diff_command(*diff); });

  add_printer(config, "schema", "print the JSON Schema of experiment files, for editors",
              [] { return compact_json(experiment_json_schema()) + "\n"; });
  add_printer(config, "docs", "print the reference of all keys as Markdown", [] { return key_reference_markdown(); });
  add_printer(config, "records", "print the fields of a run's files as Markdown", [] { return record_docs(); });
}

}  // namespace

void add_config_commands(const Command& program) {
  const auto key = std::make_shared<std::string>();
  program.below("explain", "explain a configuration key, a section, or a topic: exit-codes, jsonl")
      .option("key", key.get(), "key, alias or section; without one, all keys are listed",
              {.offers = explained_names()})
      .calls([key] { return explain_command(*key); });

  const auto init = std::make_shared<ConfigCommand>();
  program.below("init", "print a commented experiment to start from")
      .option("template", &init->name, "one of --list", {.offers = template_names()})
      .option("--list", &init->list, "list the templates, each with its question")
      .footer(
          "Examples:\n"
          "  runexp init --list\n"
          "  runexp init tp-vs-pp > configs/mine.json")
      .calls([init] { return init_command(init->name, init->list); });

  add_config_command(program);

  const auto words = std::make_shared<std::vector<std::string>>();
  program.below("import-flags", "print an experiment for the flags of a vLLM or SGLang server")
      .rest(words.get(), "FLAGS...")
      .footer(
          "FLAGS: quoted as one text or as they are. What has no equal here becomes a comment.\n\n"
          "Example:\n"
          "  runexp import-flags \"--tensor-parallel-size 2 --num-speculative-tokens 5\" > configs/mine.json")
      .calls([words] { return import_command(*words); });
}

}  // namespace paceline
