#pragma once
// The tree that every configuration format is read into: each key and each value knows where it was written.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/error.h"

namespace paceline {

/// One file (or one command-line argument) that configuration came from. Immutable; shared by the nodes read from it.
struct SourceText {
  std::string name;  // as messages print it: a path, or "--set"
  std::string text;
  std::filesystem::path directory;  // relative paths written in this text start here
  bool is_argument = false;         // command line: messages show no line number
};

/// A line of a text without its end, counted from 1; empty where there is none.
std::string_view line_of(std::string_view text, int line);

/// A place in a text. Lines and columns count from 1; columns count code points. line 0: nowhere (a default).
struct Origin {
  std::shared_ptr<const SourceText> source;
  int line = 0;
  int column = 0;
};

/// One complaint. str() is `file:line:col: error: message`, then the source line, then a caret below the place.
struct Diagnostic {
  Origin origin;
  std::string message;
  std::string headline() const;
  std::string str() const;
};

/// Thrown for a configuration that cannot be used: every complaint found in one pass. what() prints up to 20 of them
/// and names the command that prints all.
class ConfigError : public Error {
 public:
  explicit ConfigError(std::vector<Diagnostic> diagnostics);
  /// Every complaint, however many there are.
  std::string full_text() const;
  const std::vector<Diagnostic>& diagnostics() const noexcept { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Collects complaints so that one run names them all.
class Diagnostics {
 public:
  void add(const Origin& origin, std::string message);
  void add(const std::vector<Diagnostic>& others);
  bool empty() const noexcept { return list_.empty(); }
  const std::vector<Diagnostic>& list() const noexcept { return list_; }
  /// Throws ConfigError, in the order of file and position, when anything was added. What was said twice of one place
  /// is said once: a value is read in its file and again where it is used.
  void throw_if_any() const;

 private:
  std::vector<Diagnostic> list_;
};

/// Throws a ConfigError with one complaint.
[[noreturn]] void fail_at(const Origin& origin, std::string message);

struct ConfigMember;

enum class NodeKind : uint8_t { null, boolean, integer, number, string, list, object };

/// A value. Integers are those written without '.' and exponent that fit in 64 bits; every other numeral is `number`.
struct ConfigNode {
  NodeKind kind = NodeKind::null;
  bool boolean = false;
  bool is_plain = false;    // a string that stands without quotes, as YAML allows
  bool is_untyped = false;  // a string of the environment: a number, true or false where the key is one
  bool unreadable = false;  // null in place of what was no value, which the reader has complained about
  int64_t integer = 0;
  double number = 0;                  // set for integers as well
  std::string text;                   // string: its value; numerals: as written
  std::vector<ConfigNode> items;      // list
  std::vector<ConfigMember> members;  // object, in the order of the file
  Origin origin;
  std::shared_ptr<const SourceText> path_base;  // relative paths start from its folder; null: origin.source

  const ConfigNode* find(std::string_view key) const;
  const ConfigMember* find_member(std::string_view key) const;
  ConfigNode* find(std::string_view key);
  /// Replaces the value of `key` or appends it.
  void set(ConfigMember member);
  void erase(std::string_view key);
  /// For messages: `"ngrm"`, `3.5`, `true`, `a list`, `an object`.
  std::string describe() const;

  static ConfigNode make_string(std::string value, Origin where);
  static ConfigNode make_boolean(bool value, Origin where);
  /// An integer where the value is one that a double holds exactly.
  static ConfigNode make_number(double value, Origin where);
  static ConfigNode make_object(Origin where, std::vector<ConfigMember> members);
};

struct ConfigMember {
  std::string key;
  Origin key_origin;
  ConfigNode value;
};

/// The value of a key path below `root`, or null.
const ConfigNode* find_path(const ConfigNode& root, std::string_view path);

/// Limits that keep a hostile file from costing more than it is worth.
constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr int kMaxConfigDepth = 64;
constexpr size_t kMaxConfigNodes = 200'000;

/// Whether "+key" and "-key" act, or are kept as they are for a later merge (the profiles of an inherited file).
enum class MergeMarks : uint8_t { apply, keep };

/// Lays `overlay` over `base`: objects merge key by key, everything else replaces. In objects `"+key": [..]` appends
/// to the inherited list and `"-key": true` deletes an inherited key. A merged object stands where it was written into
/// last. Complaints go to `diagnostics`.
void merge_config(ConfigNode& base, const ConfigNode& overlay, Diagnostics& diagnostics,
                  MergeMarks marks = MergeMarks::apply);

// A text read into a tree: JSON with comments (`//`, `#`, `/* */`) and trailing commas, or YAML. Complaints go to
// `diagnostics`; bad text never throws. Bounded: kMaxConfigBytes, kMaxConfigDepth, kMaxConfigNodes.

/// Reads one JSON value that fills `source`. Mistakes that leave the structure readable (a duplicate key, a missing
/// comma, a numeral that is not JSON, an unquoted word, ...) are complained about and reading goes on, so that one pass
/// names them all; at the first mistake after which the structure is a guess it stops. What was read until then is
/// returned either way.
ConfigNode parse_jsonc(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics);

/// Reads one YAML document. Plain scalars follow YAML 1.2's core schema: true/false are booleans, `yes` and `no` are
/// strings. Aliases are copied within kMaxConfigNodes in all, so that an alias bomb is an error.
ConfigNode parse_yaml(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics);

}  // namespace paceline
