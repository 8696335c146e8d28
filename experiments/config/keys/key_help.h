#pragma once
// What the table of keys says about one key or one section, in words: `runexp explain`, docs/experiments.md and the
// JSON Schema read the same sentences; and the settings of a run by what they decide. Pure functions.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/keys/schema.h"

namespace paceline {

/// A group of keys with a common first part, in the order of the table. "" holds the keys without a section.
struct KeySection {
  std::string name;  // "engine"
  std::string help;
  std::vector<const KeySpec*> keys;
};
std::vector<KeySection> key_sections();

/// "proposer ngram or draft": where alone the key has an effect; empty: everywhere.
std::string scope_text(const KeySpec& key);

/// The value where no file sets the key; none for keys that the loader handles ("extends").
std::optional<ConfigJson> default_of(const KeySpec& key);

/// One key as `runexp explain` prints it, several lines.
std::string describe_key(const KeySpec& key);

/// All keys below a section ("engine", "engine.parallel") with type and help, one a line; "" lists every key.
std::string describe_section(std::string_view section);

/// The text about a key (full path or alias), a section ("engine.kv_cache" or "kv_cache"), or every key whose path ends
/// in `name`; '-' is read as '_'. Nothing for an unknown name.
std::optional<std::string> explain_name(std::string_view name);

/// What `runexp explain` explains: keys, sections and topics.
std::vector<std::string> explained_names();

/// The reference of keys in docs/experiments.md. Markdown: a heading and a table for each section, a row for each key.
std::string key_reference_markdown();

/// {path: value} of the keys in `resolved` (nested by path, as config_to_json() writes it) whose effect is at least
/// `least`; keys that it lacks, as files of older programs do, are left out. Files stand by their names alone: their
/// folders differ between machines. Empty for what is no object.
std::map<std::string, nlohmann::json> settings_that_change(KeyEffect least, const nlohmann::json& resolved);

/// A JSON Schema (draft 2020-12) of experiment files: editors complete and check with it.
/// Accepts what the loader accepts of one file as written, so "+key", "-key", aliases in sweep, "=expression" and
/// "${...}" too. It knows nothing of several keys at once (find_conflict()) nor of inherited values.
ConfigJson experiment_json_schema();

}  // namespace paceline
