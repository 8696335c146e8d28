#pragma once
// A configuration to look at: JSON for people, every value of a loaded one, where it was written, and how two differ.
// Pure functions.

#include <optional>
#include <string>
#include <vector>

#include "experiments/config/file/load.h"

namespace paceline {

/// `{ "a": [1, 2] }`.
std::string one_line_json(const ConfigJson& json);

/// `json` printed with indents of two blanks; an object or list that fits into 120 columns stays on one line. Ends
/// without a newline.
std::string compact_json(const ConfigJson& json);

/// One value of a loaded configuration. Members of sweep.axes and sweep.baseline are values of their own:
/// "sweep.axes.engine.parallel.tp".
struct ResolvedValue {
  std::string path;
  ConfigJson value;
  std::optional<std::string> expression;  // "=2*load.concurrency" where the value is computed
  std::string origin;                     // "configs/x.json:12", "--set", "--axis", or "default"
  /// The expression where there is one, else the value, as JSON.
  std::string text() const;
  /// The origin, and the expression where there is one: "configs/x.json:12, =2*load.concurrency".
  std::string place() const;
};

/// Every value, in the order of the table of keys.
std::vector<ResolvedValue> resolved_values(const LoadedConfig& loaded);

enum class ShowOrigins : uint8_t { no, yes };

/// The configuration as JSON that loads back to itself, ending in a newline. With origins each value is followed by a
/// comment that says where it was written.
std::string resolved_text(const LoadedConfig& loaded, ShowOrigins origins);

/// Where each value was written that does not have its default: key path -> "configs/x.json:12", with the expression of
/// a computed one behind it.
ConfigJson value_origins(const LoadedConfig& loaded);

/// A key whose values differ; a side that lacks it (an axis of one sweep only) is empty.
struct ConfigDifference {
  std::string path;
  std::optional<ResolvedValue> left, right;
};

/// In the order of the table of keys, what only the right side has last. Expressions are compared as written,
/// everything else by value.
std::vector<ConfigDifference> config_differences(const LoadedConfig& left, const LoadedConfig& right);

}  // namespace paceline
