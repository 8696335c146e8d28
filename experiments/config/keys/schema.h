#pragma once
// The one table of configuration keys: validation, defaults, help, resolved JSON and sweeps are all driven by it.
// A new setting is a member in config.h and a row in keys.cpp.

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/config/config.h"
#include "experiments/config/file/tree.h"

namespace paceline {

enum class KeyType : uint8_t {
  boolean,
  integer,
  number,
  text,
  choice,  // one of `choices`
  path,    // builtin:NAME or a file name, made absolute from the file where it is written
  shape,   // NAME of configs/shapes or the name of a .json file, made absolute likewise
  integer_list,
  text_list,
  fields,       // object of any JSON values
  axes,         // object: key path or alias -> list of values, or a range "1..8", "1..9+2", "1..16*2"
  assignment,   // object: key path or alias -> value
  assignments,  // list of such objects (include; may carry "label")
  patterns,     // list of such objects whose values may be lists (exclude)
  groups,       // list of lists of key paths (zip)
  constraints,  // list of expressions
  outside,      // $schema, schema_version, extends, name, vars, profiles: handled by the loader
};

/// When a key has any effect: where another key has one of these values; where it has none, it does not tell cells
/// apart. No key: always.
struct KeyScope {
  std::string key = {};
  std::vector<std::string> words = {};
};

/// What of a cell another value may change; each holds those before it.
enum class KeyEffect : uint8_t {
  times,  // how fast it runs
  steps,  // the steps to the same tokens: counters, KV blocks, collectives
  text,   // the tokens
};

struct KeySpec {
  std::string path = {};  // "engine.parallel.tp"
  KeyType type = KeyType::text;
  std::string help = {};
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  bool above_min = false;                                         // min itself is excluded
  std::string unit = {};                                          // "tokens", "s"; empty for plain counts
  std::vector<std::pair<std::string, std::string>> choices = {};  // spelling -> canonical spelling
  std::string absent = {};  // word for "no value": "auto", "target", or "null"; empty: a value is required
  bool is_newer = false;    // runs were recorded without it: at its default it is no part of a cell's identity
  std::string hint = {};    // what to write for a number out of range, or for a word that is like no choice
  std::string form = {};    // of an outside key: what it takes, in words
  KeyScope scope = {};
  const ProposerEntry* proposer = nullptr;  // whose key it is; null: that of no proposer
  bool names_second_model = false;          // says which model that proposer runs beside the target
  bool is_void_for_self = false;            // and has no effect where that is the target itself
  bool reload = false;                      // another value needs another engine load
  bool in_identity = false;                 // decides the numbers of a cell
  std::optional<KeyEffect> effect = {};     // none: of no cell
  std::function<void(ExperimentConfig&, const ConfigJson&)> assign = {};  // takes what convert_value() gave
  std::function<ConfigJson(const ExperimentConfig&)> read = {};

  /// "an integer from 1 to 64 (ranks), or \"auto\"".
  std::string expectation() const;
  /// "from 1 to 64", "of at least 0", "above 0, at most 1"; empty for a type without limits.
  std::string range() const;
  /// Canonical spellings of a choice.
  std::vector<std::string> canonical_choices() const;
};

/// All keys, in the order in which resolved configurations print them. Built once; immutable.
const std::vector<KeySpec>& config_keys();

/// The row of a full path, or null.
const KeySpec* find_key(std::string_view path);
/// The row meant by a full path or an alias (tp, pp, proposer, k, num_speculative_tokens, concurrency, c,
/// gpu_memory_utilization), '-' read as '_'; or null.
const KeySpec* find_key_or_alias(std::string_view name);
/// The row of a `--set` "KEY=VALUE", or null.
const KeySpec* key_of_setting(std::string_view setting);
/// Short names of a key: {"k", "num_speculative_tokens"}; mostly none.
std::vector<std::string> aliases_of(const KeySpec& key);
/// Keys that --set (or --axis) takes, aliases first.
std::vector<std::string> key_names(bool axes_only);
/// What a name that is no key may stand for, as full paths or aliases: the keys that end in it, else the nearest of its
/// section, else those that end in its last part, else the alias behind a section ("speculation.k"), else the nearest
/// of all. Mostly one, or none.
std::vector<std::string> names_meant_by(std::string_view name);
/// ` (did you mean "sampling.seed"?)` for a name that is no key: names_meant_by(), but what vLLM calls so before those
/// that are only near; where there are none, the section whose keys `runexp explain` lists; or "".
std::string hint_for_unknown_key(std::string_view name);
/// True for a key within a section, at any depth; all are below "".
bool is_below(std::string_view path, std::string_view section);
/// True for "engine", "engine.parallel", ...: a path with keys below it.
bool is_section(std::string_view path);
/// Names directly below a section, each once, in table order.
std::vector<std::string> names_below(std::string_view section);
/// Last part of a path: "tp" of "engine.parallel.tp".
std::string_view last_part(std::string_view path);

/// True for the NAME of a shape, false for a file name.
bool is_shape_name(std::string_view shape);

/// True when cells of one sweep can differ in the key: sweep.axes, include, exclude, zip and baseline may name it.
bool can_differ_between_cells(const KeySpec& key);
/// True for the types that "=expression" can compute: boolean, integer, number.
bool is_computable(const KeySpec& key);

/// "integer", "number", "boolean", "one of several words", "list of strings", ...
std::string type_text(const KeySpec& key);

/// By its scope; a proposer's key applies where that is a stage of the one chosen, too.
bool key_applies(const KeySpec& key, const ExperimentConfig& config);

/// Checks `node` against the key and gives the canonical value, or complains and gives nothing. Paths become absolute,
/// choices get their canonical spelling, ranges of axes are expanded. REQUIRES: no "${...}" left in the node.
std::optional<ConfigJson> convert_value(const KeySpec& key, const ConfigNode& node, Diagnostics& diagnostics);

/// True for a string "=..." where a boolean, an integer or a number belongs.
bool is_deferred_expression(const KeySpec& key, const ConfigNode& node);

/// Checks one file's tree as written, before merging: unknown keys everywhere, types and ranges of every literal.
/// Values that still hold "${...}" are left to the check after merging. Rewrites the keys of sweep.axes, include,
/// exclude, baseline and zip from aliases to full paths, so that inherited and overriding ones meet.
void validate_tree(ConfigNode& root, Diagnostics& diagnostics);

/// True when some string under `node` contains "${".
bool has_substitution(const ConfigNode& node);

/// Checks that the expression parses and that its names are keys, aliases or "devices".
void check_expression(const ConfigNode& node, std::string_view text, size_t text_offset, Diagnostics& diagnostics);

}  // namespace paceline
