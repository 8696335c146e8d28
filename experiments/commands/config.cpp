// runexp config: look at experiment files without running them.

#include <cstdio>
#include <set>

#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "experiments/commands/command_line.h"
#include "experiments/config/file/compact_json.h"
#include "experiments/config/keys/key_help.h"
#include "experiments/config/keys/schema.h"
#include "experiments/config/view.h"
#include "experiments/report/documents.h"
#include "experiments/run/plan/sweep.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

/// One file and what changes it.
struct Source {
  std::filesystem::path file;
  ConfigOverrides overrides;
};

std::vector<Cell> cells_of(const LoadedConfig& loaded) { return expand(loaded, machine_context(loaded.config.engine)); }

ExitCode show_command(const Source& source, bool origin) {
  const LoadedConfig loaded = load_config(source.file, source.overrides);
  fmt::print("{}", resolved_text(loaded, origin ? ShowOrigins::yes : ShowOrigins::no));
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

ExitCode expand_command(const Source& source, bool json) {
  const std::vector<Cell> cells = cells_of(load_config(source.file, source.overrides));
  if (json) {
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

/// What a file is that names no experiment of its own.
const char* kind_note(const LoadedConfig& loaded) {
  return loaded.is_fragment() ? "; no name and no axes: a part for other files to extend, or one cell alone" : "";
}

/// Complaints of all files go to stderr; files without any are named on stdout.
ExitCode validate_command(const std::vector<std::filesystem::path>& files, const ConfigOverrides& overrides) {
  ExitCode code = ExitCode::ok;
  for (const std::filesystem::path& file : files) {
    try {
      if (is_json_schema_file(file)) {
        fmt::print("{}: skipped: a JSON Schema, not an experiment\n", file.string());
        continue;
      }
      const LoadedConfig loaded = load_config(file, overrides);
      const std::vector<Cell> cells = cells_of(loaded);
      check_splits(loaded, cells, SplitRule::every_cell);
      fmt::print("{}: ok, {}{}{}\n", file.string(), counted(int64_t(cells.size()), "cell"), kind_note(loaded),
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

std::string side_text(const std::optional<ResolvedValue>& value, bool origin) {
  if (!value) return "absent";
  return origin ? fmt::format("{} ({})", value->text(), value->origin) : value->text();
}

/// With one file: what the overrides change in it. With two they hold for both.
ExitCode diff_command(const Source& left, const std::filesystem::path& right, bool origin) {
  const bool one_file = right.empty();
  const LoadedConfig before = load_config(left.file, one_file ? ConfigOverrides{} : left.overrides);
  const LoadedConfig after = load_config(one_file ? left.file : right, left.overrides);
  for (const ConfigDifference& difference : config_differences(before, after)) {
    fmt::print("{}: {} -> {}\n", difference.path, side_text(difference.left, origin),
               side_text(difference.right, origin));
  }
  return ExitCode::ok;
}

void add_show(const Command& config) {
  struct Options {
    Source source;
    bool origin = false;
  };
  const auto options = std::make_shared<Options>();
  const Command command = config.below("show", "print the resolved configuration as JSON");
  add_config_options(command, options->source.file, options->source.overrides);
  command.flag("--origin", options->origin, "say where each value was written: file:line, --set or default")
      .calls([options] { return show_command(options->source, options->origin); });
}

void add_expand(const Command& config) {
  struct Options {
    Source source;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  const Command command = config.below("expand", "list the cells: id, identity, axes");
  add_config_options(command, options->source.file, options->source.overrides);
  command.flag("--json", options->json, "as JSON, with baselines and reasons of skips").calls([options] {
    return expand_command(options->source, options->json);
  });
}

/// For completion of --profile.
void add_profiles(const Command& config) {
  const auto file = std::make_shared<std::filesystem::path>();
  config.below("profiles", "name the profiles that --profile takes, one a line")
      .option("config", *file, "experiment file", {.required = true})
      .calls([file] {
        for (const std::string& name : load_config(*file, {}).profiles) fmt::print("{}\n", name);
        return ExitCode::ok;
      });
}

void add_validate(const Command& config) {
  struct Options {
    std::vector<std::filesystem::path> files;
    ConfigOverrides overrides;
  };
  const auto options = std::make_shared<Options>();
  const Command command = config.below("validate", "check files and print every complaint, or ok");
  command.option("configs", options->files, "experiment files", {.required = true});
  add_override_options(command, options->overrides);
  command.calls([options] { return validate_command(options->files, options->overrides); });
}

void add_diff(const Command& config) {
  struct Options {
    Source left;
    std::filesystem::path right;
    bool origin = false;
  };
  const auto options = std::make_shared<Options>();
  const Command command = config.below(
      "diff", "name the keys that differ between two files, or that --set, --profile and --axis change in one");
  command.option("left", options->left.file, "experiment file", {.required = true})
      .option("right", options->right, "another; without it, the first one with the options below");
  add_override_options(command, options->left.overrides);
  command.flag("--origin", options->origin, "say where each value was written").calls([options] {
    return diff_command(options->left, options->right, options->origin);
  });
}

void add_printer(const Command& config, const char* name, const char* help, std::string (*text)()) {
  config.below(name, help).calls([text] {
    fmt::print("{}", text());
    return ExitCode::ok;
  });
}

}  // namespace

void add_config_commands(const Command& program) {
  const Command config = program.below("config", "look at experiment files without running them").needs_one_below();
  add_show(config);
  add_expand(config);
  add_profiles(config);
  add_validate(config);
  add_diff(config);
  add_printer(config, "schema", "print the JSON Schema of experiment files, for editors",
              [] { return compact_json(experiment_json_schema()) + "\n"; });
  add_printer(config, "docs", "print the reference of all keys as Markdown", [] { return key_reference_markdown(); });
  add_printer(config, "records", "print the fields of a run's files as Markdown", [] { return record_docs(); });
}

}  // namespace paceline
