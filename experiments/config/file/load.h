#pragma once
// From files and command line to an ExperimentConfig.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/config.h"
#include "experiments/config/file/tree.h"
#include "experiments/config/keys/expression.h"

namespace paceline {

/// What the command line adds; each entry as typed, without its option's name.
struct ConfigOverrides {
  std::vector<std::string> set;        // "speculation.ngram.max=5", "k=3"
  std::string profile;                 // "quick"
  std::vector<std::string> axis;       // "k=1..8", "proposer=none,ngram"
  std::string only;                    // "tp==2 && k>3"; empty: every cell
  std::filesystem::path builtin_root;  // configs/ folder behind builtin: names; empty: sought from the file upwards
  bool takes_one_cell = false;         // by --cell: there is no --axis and no --only, and no complaint advises them
  bool is_recorded = false;  // a run's experiment.json, perhaps of an older program: keys without effect are no mistake
};

/// A value written as `=expression`, evaluated for each cell.
struct DeferredValue {
  Expression expression;
  Origin origin;
};

/// A loaded experiment. Immutable after load_config().
struct LoadedConfig {
  std::filesystem::path file;
  ExperimentConfig config;                        // with the values outside of sweep.axes
  std::map<std::string, DeferredValue> deferred;  // by key path
  std::optional<Expression> only;
  std::string profile;
  std::vector<std::string> profiles;                       // names that --profile takes
  std::vector<std::shared_ptr<const SourceText>> sources;  // every file read, inherited ones first
  ConfigNode tree;                                         // merged, substituted: where each value was written
  std::map<std::string, std::string> variables;            // of the environment, that gave values
  std::string hash;                                        // config_hash(config_to_json(config))
  bool is_as_written = true;  // no profile, --axis or --set changed it, and it is no record that names every key

  /// The value of a key path as it was written, or null when it has its default.
  const ConfigNode* written(std::string_view path) const;
  /// The values of a key in sweep.axes as they were written, or null.
  const ConfigNode* written_axis(std::string_view path) const;
  /// No name and no cells of its own: a part for other files to extend, or one cell alone.
  bool is_fragment() const;
  /// Where the value of a key path stands; the top of the file when it has its default.
  Origin origin_of(std::string_view path) const;
  /// Of two places: files come behind those that they extend, the command line behind all.
  Origin written_last(const Origin& a, const Origin& b) const;
};

/// Reads `file` (.json, .jsonc, .yaml, .yml) and everything it extends, applies profile, --set and --axis in this
/// order, substitutes ${...}, checks every value and fills the structs. Throws ConfigError with all complaints (exit
/// code 2). Does not look at models or data sets beyond the names behind builtin:.
LoadedConfig load_config(const std::filesystem::path& file, const ConfigOverrides& overrides = {});

/// True for a file that says it is a JSON Schema, as configs/experiment.schema.json does. Throws Error(usage): no such
/// file.
bool is_json_schema_file(const std::filesystem::path& file);

/// The whole experiment as JSON that load_config() reads as the same sweep, without the files that it came from: what
/// was written as `=expression` stands as such. `--only` is not in it.
ConfigJson experiment_json(const LoadedConfig& loaded);

/// Sets every deferred key of `config` from its expression. `devices` is the value of that name.
void evaluate_deferred(const LoadedConfig& loaded, int devices, ExperimentConfig& config);

/// Names of expressions for `config`: key paths, aliases and `devices`. The references must outlive the result.
ExpressionNames names_for(const ExperimentConfig& config, int devices);

}  // namespace paceline
