#pragma once
// A JSON Schema, read and checked: what each of its schemas asks of a value, and that a text which is begun has an end.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/grammar/grammar_builder.h"

namespace paceline {

/// Kinds of values, a bit each. Numbers include integers.
enum ValueKind : uint8_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kNumber = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kEveryKind = kNull | kBoolean | kNumber | kString | kArray | kObject
};

struct SchemaProperty {
  std::string name;
  int schema = 0;
  bool is_required = false;
};

/// One schema. Schemas are named by their index in SchemaTree::nodes; 0 is the whole, 1 the schema `true`.
struct SchemaNode {
  using Json = nlohmann::ordered_json;
  enum class Form : uint8_t {
    branches,  // a value of one of `branches`: anyOf, allOf of one, $ref
    literals,  // one of `literals`: enum, const
    kinds      // a value of one of `kinds` that keeps to the rules below; of none: nothing
  };
  static constexpr int kUnbounded = -1;

  int parent = -1;        // the schema around it
  std::string place;      // behind the parent's, as a JSON pointer: "/properties/a"
  bool is_named = false;  // a $ref leads here
  Form form = Form::kinds;

  std::vector<int> branches;
  std::vector<const Json*> literals;

  uint8_t kinds = kEveryKind;
  std::vector<SchemaProperty> properties;  // in their order; required ones without a schema of their own behind them
  int other_properties = 1;                // a schema
  std::vector<int> prefix_items;
  int items = 1;  // behind those
  int least_items = 0, most_items = kUnbounded;
  int least_length = 0, most_length = kUnbounded;  // in code points
  const std::string* pattern = nullptr;
  int64_t least = INT64_MIN, most = INT64_MAX;  // of an integer
};

/// Threads: one.
class SchemaTree {
 public:
  using Json = nlohmann::ordered_json;

  /// REQUIRES that both outlive it. Throws GrammarError, for the time of `clock`, too.
  SchemaTree(const Json& schema, const GrammarBuilder& clock);

  const std::vector<SchemaNode>& nodes() const { return nodes_; }
  /// Where a schema stands, and a keyword in it: a JSON pointer, cut for display.
  std::string pointer(int node, std::string_view keyword = {}) const;

 private:
  int read(const Json& schema, int parent, std::string place, int depth);
  void read_keywords(const Json& schema, int node, int depth);
  void read_kinds(const Json& schema, int node, int depth);
  void read_objects(const Json& schema, int node, int depth);
  void read_arrays(const Json& schema, int node, int depth);
  void read_strings(const Json& schema, int node);
  void read_integers(const Json& schema, int node);
  void read_literals(const Json& schema, int node);
  void read_branches(const Json& schema, int node, const char* keyword, int depth);
  uint8_t kinds_of(const Json& schema, int node) const;
  int limit_of(const Json& schema, int node, const char* keyword, int absent) const;
  void check_order(int node, int least, int most, const char* least_name, const char* most_name) const;
  void resolve_references();
  void check_loops() const;
  void check_ends() const;
  [[noreturn]] void refuse_endless(const std::vector<bool>& has_end) const;
  bool has_end(const SchemaNode& node, const std::vector<bool>& known) const;
  [[noreturn]] void reject(int node, std::string_view keyword, const std::string& reason) const;

  struct Reference {
    int node;
    const std::string* target;
  };

  const Json& whole_;
  const GrammarBuilder& clock_;
  std::vector<SchemaNode> nodes_;
  std::unordered_map<const Json*, int> node_of_;
  std::vector<Reference> references_;
};

}  // namespace paceline
