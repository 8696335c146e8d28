#pragma once
// Values of chat templates: Python's, as far as templates can see them. Immutable except namespaces, generators and
// loop counters.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline::jinja {

class Value;
struct Statement;

struct Undefined {};
struct None {};

struct List;
using ListPtr = std::shared_ptr<const List>;

struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;  // 1 + the deepest item
};

/// What `map`, `select` and the like give: true even when empty, and gone once looped over.
struct Generator {
  ListPtr items;
  size_t next = 0;  // items before it were taken
};

/// Insertion-ordered. Entries have their keys' texts (key_text).
struct Dict {
  std::vector<std::pair<std::string, Value>> entries;
  std::vector<Value> keys;                             // [entry]; empty: all are strings, their texts
  std::unordered_map<std::string_view, size_t> index;  // filled for more than 16 entries
  int depth = 1;

  const Value* find(std::string_view text) const;
  /// The key of an entry where that is no string; null: it is the entry's text.
  const Value* other_key(size_t entry) const;
};

/// Made by namespace(); the one value that templates change. The evaluator breaks cycles through it at the end.
struct Namespace {
  std::vector<std::pair<std::string, Value>> entries;

  const Value* find(std::string_view key) const;
  void set(std::string_view key, Value value);
};

/// The `loop` variable.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index0 = 0;
};

/// Functions that every template sees.
enum class Function { range, make_dict, make_namespace, raise_exception, strftime_now };

/// A macro, or the body of a call block. It sees the variables of the scopes around it: while the innermost one is open
/// as they are, later as they were when it was made.
struct Macro {
  const Statement* statement = nullptr;  // owned by the parsed template
  uint64_t scope = 0;                    // that it was made in; 0: all it sees is global
  size_t frame_begin = 0;                // of the evaluator's local variables those from here on, up to the scope's end
  std::vector<std::pair<int, Value>> around;
  int depth = 0;
};
using MacroPtr = std::shared_ptr<const Macro>;

using StringPtr = std::shared_ptr<const std::string>;
using GeneratorPtr = std::shared_ptr<Generator>;
using DictPtr = std::shared_ptr<const Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using LoopPtr = std::shared_ptr<Loop>;

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, StringPtr, ListPtr, GeneratorPtr, DictPtr,
                            NamespacePtr, LoopPtr, Function, MacroPtr>;

  Value() = default;  // undefined
  template <class T>
  requires(!std::is_same_v<T, Value>) && std::is_constructible_v<Data, std::in_place_type_t<T>, T> Value(T data)
      : data_(std::in_place_type<T>, std::move(data)) {}
  Value(int) = delete;
  Value(const char*) = delete;

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  /// REQUIRES is<T>().
  template <class T>
  const T& as() const {
    return *std::get_if<T>(&data_);
  }
  bool is_string() const { return is<StringPtr>(); }
  bool is_list() const { return is<ListPtr>(); }
  bool is_generator() const { return is<GeneratorPtr>(); }
  bool is_dict() const { return is<DictPtr>(); }
  bool is_callable() const { return is<Function>() || is<MacroPtr>(); }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_number() const { return is<int64_t>() || is<double>() || is<bool>(); }
  /// REQUIRES is_string().
  const std::string& string() const { return *as<StringPtr>(); }
  /// REQUIRES is_list().
  const std::vector<Value>& items() const { return as<ListPtr>()->items; }

  /// bool counts as 0 or 1. REQUIRES is_number().
  double number() const;
  /// REQUIRES is<int64_t>() or is<bool>().
  int64_t integer() const { return is<bool>() ? as<bool>() : as<int64_t>(); }
  bool is_integer() const { return is<int64_t>() || is<bool>(); }

  bool truth() const;
  /// Nesting of lists and dicts, of a loop those it goes over, of a macro what it holds; 0 for everything else. Bounds
  /// the recursion of whatever walks values, their destructors too. Namespaces end it: the evaluator empties them one
  /// by one.
  int depth() const;
  /// "str", "list", … for messages.
  const char* type_name() const;

 private:
  Data data_;
};

/// Callers check sizes and nesting (evaluator limits).
Value make_string(std::string text);
Value make_list(std::vector<Value> items, bool tuple = false);
/// `keys`: as Dict::keys.
Value make_dict(std::vector<std::pair<std::string, Value>> entries, std::vector<Value> keys = {});
Value make_generator(std::vector<Value> items);
Value make_macro(Macro macro);

/// The text by which an entry is found: a string is its own; of numbers, bools and None one that no UTF-8 text is equal
/// to, the same for 1, 1.0 and true. Empty: nothing else can be a key.
std::optional<std::string> key_text(const Value& key);

/// REQUIRES nesting of at most 64 (checked by the caller with json_depth).
Value from_json(const nlohmann::ordered_json& json);
/// Nesting of arrays and objects, counted no further than `limit` + 1.
int json_depth(const nlohmann::ordered_json& json, int limit);

/// Python's repr(float).
std::string float_repr(double value);
/// Python's repr(str).
std::string string_repr(std::string_view text);

}  // namespace paceline::jinja
