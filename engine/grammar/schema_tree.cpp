#include "engine/grammar/schema_tree.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "engine/util/percent.h"
#include "engine/util/printable.h"
#include "engine/util/suggest.h"
#include "engine/util/utf8_chars.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

struct Keyword {
  const char* name;
  uint8_t kinds;  // of values that it is about; 0: any
  enum Use : uint8_t { none, rules, literals, branches, schemas } use;
};

constexpr Keyword kKeywords[] = {
    {"type", 0, Keyword::rules},
    {"properties", kObject, Keyword::rules},
    {"required", kObject, Keyword::rules},
    {"additionalProperties", kObject, Keyword::rules},
    {"items", kArray, Keyword::rules},
    {"prefixItems", kArray, Keyword::rules},
    {"minItems", kArray, Keyword::rules},
    {"maxItems", kArray, Keyword::rules},
    {"pattern", kString, Keyword::rules},
    {"minLength", kString, Keyword::rules},
    {"maxLength", kString, Keyword::rules},
    {"minimum", kNumber, Keyword::rules},
    {"maximum", kNumber, Keyword::rules},
    {"exclusiveMinimum", kNumber, Keyword::rules},
    {"exclusiveMaximum", kNumber, Keyword::rules},
    {"enum", 0, Keyword::literals},
    {"const", 0, Keyword::literals},
    {"anyOf", 0, Keyword::branches},
    {"allOf", 0, Keyword::branches},
    {"$ref", 0, Keyword::branches},
    {"$defs", 0, Keyword::schemas},
    {"definitions", 0, Keyword::schemas},
    {"title", 0, Keyword::none},
    {"description", 0, Keyword::none},
    {"default", 0, Keyword::none},
    {"examples", 0, Keyword::none},
    {"deprecated", 0, Keyword::none},
    {"readOnly", 0, Keyword::none},
    {"writeOnly", 0, Keyword::none},
    {"$schema", 0, Keyword::none},
    {"$comment", 0, Keyword::none},
    {"$id", 0, Keyword::none},
};

/// Keywords of JSON Schema, draft 7 to 2020-12, that are not supported: no typos of others.
constexpr std::string_view kOtherKeywords[] = {"$anchor",
                                               "$dynamicAnchor",
                                               "$dynamicRef",
                                               "$recursiveAnchor",
                                               "$recursiveRef",
                                               "$vocabulary",
                                               "additionalItems",
                                               "contains",
                                               "contentEncoding",
                                               "contentMediaType",
                                               "contentSchema",
                                               "dependencies",
                                               "dependentRequired",
                                               "dependentSchemas",
                                               "else",
                                               "format",
                                               "if",
                                               "maxContains",
                                               "maxProperties",
                                               "minContains",
                                               "minProperties",
                                               "multipleOf",
                                               "not",
                                               "oneOf",
                                               "patternProperties",
                                               "propertyNames",
                                               "then",
                                               "unevaluatedItems",
                                               "unevaluatedProperties",
                                               "uniqueItems"};

struct KindName {
  const char* name;
  uint8_t kind;
};
constexpr KindName kKindNames[] = {{"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger},
                                   {"number", kNumber}, {"string", kString},   {"array", kArray},
                                   {"object", kObject}};

const Keyword* keyword_of(std::string_view name) {
  for (const Keyword& keyword : kKeywords)
    if (keyword.name == name) return &keyword;
  return nullptr;
}

template <class Names>
std::vector<std::string> names_of(const Names& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

/// What to do about a keyword that is not supported: ": write anyOf".
std::string fix_of(const std::string& name) {
  if (name == "$id") return ": only the whole schema may have one";
  if (name == "oneOf") return ": write anyOf";
  if (std::ranges::find(kOtherKeywords, name) != std::end(kOtherKeywords)) return "";
  return did_you_mean(user_text(name), names_of(kKeywords));
}

const Json* find(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found == schema.end() ? nullptr : &*found;
}

std::string shown(const Json& value) {
  if (value.is_string()) return json_literal(value.get_ref<const std::string&>());
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.empty() ? "an empty list" : "a list";
  return value.dump();
}

/// A name as a token of a JSON pointer.
std::string pointer_token(std::string_view name) {
  std::string token = "/";
  for (const char byte : name) {
    if (byte == '~')
      token += "~0";
    else if (byte == '/')
      token += "~1";
    else
      token += byte;
  }
  return token;
}

/// What a reference within the document names; null: nothing.
const Json* target_of(const Json& whole, std::string_view reference) {
  const std::string path = percent_decoded(reference.substr(1));
  const Json* at = &whole;
  for (size_t begin = 0; begin < path.size();) {
    if (path[begin] != '/') return nullptr;
    const size_t end = std::min(path.find('/', begin + 1), path.size());
    std::string name;
    for (size_t i = begin + 1; i < end; ++i) {
      const bool escaped = path[i] == '~' && i + 1 < end && (path[i + 1] == '0' || path[i + 1] == '1');
      name += !escaped ? path[i] : path[i + 1] == '0' ? '~' : '/';
      i += escaped;
    }
    begin = end;
    if (at->is_array()) {
      const bool is_index = !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
      if (!is_index || std::stoul(name) >= at->size()) return nullptr;
      at = &(*at)[std::stoul(name)];
    } else {
      if (!at->is_object()) return nullptr;
      const auto found = at->find(name);
      if (found == at->end()) return nullptr;
      at = &*found;
    }
  }
  return at;
}

/// 3 and 3.0, in JSON Schema, are integers.
bool is_whole(const Json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() && std::floor(value.get<double>()) == value.get<double>();
}

uint8_t kind_of(const Json& value) {
  if (value.is_number()) return is_whole(value) ? kInteger | kNumber : kNumber;
  if (value.is_string()) return kString;
  if (value.is_boolean()) return kBoolean;
  if (value.is_array()) return kArray;
  return value.is_object() ? kObject : kNull;
}

/// A bound as the nearest integer that keeps it; nothing where none of 64 bits does.
std::optional<int64_t> integer_bound(const Json& bound, bool is_least, bool is_exclusive) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  int64_t value = 0;
  bool on_bound = true;
  if (bound.is_number_unsigned()) {
    if (bound.get<uint64_t>() > uint64_t(kMost)) return is_least ? std::nullopt : std::optional(kMost);
    value = bound.get<int64_t>();
  } else if (bound.is_number_integer()) {
    value = bound.get<int64_t>();
  } else {
    const double number = bound.get<double>();
    const double rounded = is_least ? std::ceil(number) : std::floor(number);
    if (rounded >= 0x1p63) return is_least ? std::nullopt : std::optional(kMost);
    if (rounded < -0x1p63) return is_least ? std::optional(kLeast) : std::nullopt;
    value = int64_t(rounded);
    on_bound = rounded == number;
  }
  if (!is_exclusive || !on_bound) return value;
  if (value == (is_least ? kMost : kLeast)) return std::nullopt;
  return is_least ? value + 1 : value - 1;
}

}  // namespace

SchemaTree::SchemaTree(const Json& schema, const GrammarBuilder& clock) : whole_(schema), clock_(clock) {
  nodes_.resize(2);
  nodes_[1].is_named = true;
  node_of_.emplace(&schema, 0);
  if (schema.is_boolean())
    nodes_[0].kinds = schema.get<bool>() ? kEveryKind : 0;
  else
    read_keywords(schema, 0, 1);
  resolve_references();
  check_loops();
  check_ends();
}

std::string SchemaTree::pointer(int node, std::string_view keyword) const {
  std::vector<const std::string*> places;
  for (int at = node; at >= 0; at = nodes_[size_t(at)].parent) places.push_back(&nodes_[size_t(at)].place);
  std::string pointer;
  for (auto place = places.rbegin(); place != places.rend(); ++place) pointer += **place;
  if (!keyword.empty()) pointer += pointer_token(keyword);
  return user_text(pointer);
}

void SchemaTree::reject(int node, std::string_view keyword, const std::string& reason) const {
  throw GrammarError(pointer(node, keyword), reason);
}

int SchemaTree::read(const Json& schema, int parent, std::string place, int depth) {
  clock_.check_time();
  const auto [found, is_new] = node_of_.emplace(&schema, int(nodes_.size()));
  if (!is_new) return found->second;
  const int node = found->second;
  nodes_.emplace_back();
  nodes_.back().parent = parent;
  nodes_.back().place = std::move(place);
  if (depth > clock_.limits().max_depth)
    reject(node, {}, fmt::format("found schemas nested deeper than {}", clock_.limits().max_depth));
  if (schema.is_boolean())
    nodes_[size_t(node)].kinds = schema.get<bool>() ? kEveryKind : 0;
  else
    read_keywords(schema, node, depth);
  return node;
}

void SchemaTree::read_keywords(const Json& schema, int node, int depth) {
  if (!schema.is_object())
    reject(node, {}, fmt::format("found {}, expected a schema: an object, true or false", shown(schema)));
  const char* branches = nullptr;
  const char* literals = nullptr;
  const char* rules = nullptr;
  for (const auto& [name, value] : schema.items()) {
    clock_.check_time();
    const Keyword* const keyword = keyword_of(name);
    if (!keyword || (name == "$id" && node != 0))
      reject(node, user_text(name), "this keyword is not supported" + fix_of(name));
    switch (keyword->use) {
      case Keyword::none: break;
      case Keyword::rules: rules = keyword->name; break;
      case Keyword::literals: literals = keyword->name; break;
      case Keyword::branches:
        if (branches) reject(node, name, fmt::format("found beside {}, expected one of them", branches));
        branches = keyword->name;
        break;
      case Keyword::schemas:
        if (!value.is_object())
          reject(node, name, fmt::format("found {}, expected an object of schemas", shown(value)));
        for (const auto& [key, definition] : value.items())
          read(definition, node, pointer_token(keyword->name) + pointer_token(key), depth + 1);
        break;
    }
  }
  if (branches && (literals || rules))
    reject(node, branches, fmt::format("found beside {}, expected alone", literals ? literals : rules));
  if (branches) return read_branches(schema, node, branches, depth);
  read_kinds(schema, node, depth);
  if (literals) read_literals(schema, node);
}

void SchemaTree::read_branches(const Json& schema, int node, const char* keyword, int depth) {
  const Json& value = *find(schema, keyword);
  nodes_[size_t(node)].form = SchemaNode::Form::branches;
  if (keyword == std::string_view("$ref")) {
    if (!value.is_string() || !value.get_ref<const std::string&>().starts_with('#'))
      reject(node, keyword, fmt::format("found {}, expected a place in this schema, as \"#/$defs/x\"", shown(value)));
    references_.push_back({node, &value.get_ref<const std::string&>()});
    return;
  }
  const bool is_any = keyword == std::string_view("anyOf");
  if (!value.is_array() || value.empty() || (!is_any && value.size() > 1))
    reject(node, keyword,
           fmt::format("found {}, expected a list of {}",
                       !value.is_array() || value.empty() ? shown(value) : fmt::format("{} schemas", value.size()),
                       is_any ? "schemas" : "one schema"));
  std::vector<int> branches;
  for (size_t i = 0; i < value.size(); ++i)
    branches.push_back(read(value[i], node, fmt::format("/{}/{}", keyword, i), depth + 1));
  nodes_[size_t(node)].branches = std::move(branches);
}

uint8_t SchemaTree::kinds_of(const Json& schema, int node) const {
  const auto kind_named = [&](const Json& name, const std::string& place) {
    for (const KindName& kind : kKindNames)
      if (name == kind.name) return kind.kind;
    const std::string near =
        name.is_string() ? did_you_mean(name.get_ref<const std::string&>(), names_of(kKindNames)) : "";
    throw GrammarError(
        place, fmt::format("found {}, expected {}{}", shown(name), fmt::join(names_of(kKindNames), ", "), near));
  };
  uint8_t kinds = 0;
  if (const Json* const type = find(schema, "type")) {
    if (!type->is_array()) {
      kinds = kind_named(*type, pointer(node, "type"));
    } else {
      constexpr size_t kNumTypes = 7;
      if (type->empty() || type->size() > kNumTypes)
        reject(node, "type", fmt::format("found a list of {}, expected one to seven names of types", type->size()));
      for (size_t i = 0; i < type->size(); ++i)
        kinds |= kind_named((*type)[i], pointer(node, "type") + fmt::format("/{}", i));
    }
  } else {
    for (const auto& [name, value] : schema.items()) kinds |= keyword_of(name)->kinds;
    if (kinds == 0) kinds = kEveryKind;
  }
  return kinds & kNumber ? uint8_t(kinds & ~kInteger) : kinds;
}

void SchemaTree::read_kinds(const Json& schema, int node, int depth) {
  nodes_[size_t(node)].kinds = kinds_of(schema, node);
  read_objects(schema, node, depth);
  read_arrays(schema, node, depth);
  read_strings(schema, node);
  read_integers(schema, node);
}

void SchemaTree::read_objects(const Json& schema, int node, int depth) {
  std::vector<SchemaProperty> properties;
  std::unordered_map<std::string_view, size_t> index;
  if (const Json* const named = find(schema, "properties")) {
    if (!named->is_object())
      reject(node, "properties", fmt::format("found {}, expected an object of schemas", shown(*named)));
    for (const auto& [name, property] : named->items()) {
      index.emplace(name, properties.size());  // the schema's own key: it stays
      properties.push_back({name, read(property, node, "/properties" + pointer_token(name), depth + 1)});
    }
  }
  if (const Json* const others = find(schema, "additionalProperties")) {
    const int read_others = read(*others, node, "/additionalProperties", depth + 1);
    nodes_[size_t(node)].other_properties = read_others;
  }
  if (const Json* const required = find(schema, "required")) {
    if (!required->is_array())
      reject(node, "required", fmt::format("found {}, expected a list of names", shown(*required)));
    for (size_t i = 0; i < required->size(); ++i) {
      clock_.check_time();
      const Json& name = (*required)[i];
      const auto refuse = [&](const char* expected) {
        throw GrammarError(pointer(node, "required") + fmt::format("/{}", i),
                           fmt::format("found {}, {}", shown(name), expected));
      };
      if (!name.is_string()) refuse("expected a name");
      const std::string& text = name.get_ref<const std::string&>();
      const auto [found, is_new] = index.emplace(text, properties.size());
      if (is_new && nodes_[size_t(nodes_[size_t(node)].other_properties)].kinds == 0)
        refuse("which is not in properties, and additionalProperties is false");
      if (is_new) properties.push_back({text, nodes_[size_t(node)].other_properties});
      properties[found->second].is_required = true;
    }
  }
  nodes_[size_t(node)].properties = std::move(properties);
}

void SchemaTree::read_arrays(const Json& schema, int node, int depth) {
  std::vector<int> prefix;
  if (const Json* const first = find(schema, "prefixItems")) {
    if (!first->is_array() || first->empty())
      reject(node, "prefixItems", fmt::format("found {}, expected a list of schemas", shown(*first)));
    for (size_t i = 0; i < first->size(); ++i)
      prefix.push_back(read((*first)[i], node, fmt::format("/prefixItems/{}", i), depth + 1));
  }
  int items = 1;
  if (const Json* const rest = find(schema, "items")) {
    if (rest->is_array()) reject(node, "items", "found a list, expected a schema; prefixItems takes a list");
    items = read(*rest, node, "/items", depth + 1);
  }
  SchemaNode& read_node = nodes_[size_t(node)];
  read_node.prefix_items = std::move(prefix);
  read_node.items = items;
  read_node.least_items = limit_of(schema, node, "minItems", 0);
  read_node.most_items = limit_of(schema, node, "maxItems", SchemaNode::kUnbounded);
  check_order(node, read_node.least_items, read_node.most_items, "minItems", "maxItems");
}

void SchemaTree::read_strings(const Json& schema, int node) {
  SchemaNode& read_node = nodes_[size_t(node)];
  read_node.least_length = limit_of(schema, node, "minLength", 0);
  read_node.most_length = limit_of(schema, node, "maxLength", SchemaNode::kUnbounded);
  check_order(node, read_node.least_length, read_node.most_length, "minLength", "maxLength");
  const Json* const pattern = find(schema, "pattern");
  if (!pattern) return;
  if (!pattern->is_string())
    reject(node, "pattern", fmt::format("found {}, expected a regular expression", shown(*pattern)));
  for (const char* length : {"minLength", "maxLength"})
    if (schema.contains(length))
      reject(node, length, "found beside pattern, expected one of them; a pattern can bound its length");
  read_node.pattern = &pattern->get_ref<const std::string&>();
}

void SchemaTree::read_integers(const Json& schema, int node) {
  struct Bound {
    const char* name;
    bool is_least, is_exclusive;
  };
  SchemaNode& read_node = nodes_[size_t(node)];
  for (const Bound& bound : {Bound{"minimum", true, false}, Bound{"exclusiveMinimum", true, true},
                             Bound{"maximum", false, false}, Bound{"exclusiveMaximum", false, true}}) {
    const Json* const value = find(schema, bound.name);
    if (!value) continue;
    if (!value->is_number()) reject(node, bound.name, fmt::format("found {}, expected a number", shown(*value)));
    if (schema.contains("enum") || schema.contains("const")) continue;  // judged value by value
    if (read_node.kinds & kNumber) reject(node, bound.name, "bounds are supported of \"type\": \"integer\" alone");
    const auto nearest = integer_bound(*value, bound.is_least, bound.is_exclusive);
    if (!nearest) reject(node, bound.name, fmt::format("found {}, which no integer of 64 bits keeps", shown(*value)));
    if (bound.is_least)
      read_node.least = std::max(read_node.least, *nearest);
    else
      read_node.most = std::min(read_node.most, *nearest);
    if (read_node.least > read_node.most)
      reject(node, bound.name, fmt::format("found {}, no integer lies between the bounds", shown(*value)));
  }
}

void SchemaTree::read_literals(const Json& schema, int node) {
  for (const auto& [name, value] : schema.items()) {
    const Keyword& keyword = *keyword_of(name);
    const bool is_checked = name == "type" || name == "minLength" || name == "maxLength" || keyword.kinds == kNumber;
    if (keyword.use == Keyword::rules && !is_checked)
      reject(node, name, "found beside enum or const, expected type, bounds or lengths alone");
  }
  const Json* const fixed = find(schema, "const");
  const Json* const list = find(schema, "enum");
  if (list && (!list->is_array() || list->empty()))
    reject(node, "enum", fmt::format("found {}, expected a list of values", shown(*list)));
  SchemaNode& read_node = nodes_[size_t(node)];
  read_node.form = SchemaNode::Form::literals;
  const auto keeps = [&](const Json& value) {
    clock_.check_time();
    if (fixed && value != *fixed) return false;
    if (schema.contains("type") && (kind_of(value) & read_node.kinds) == 0) return false;
    if (value.is_string()) {
      const auto length = int64_t(utf8_length(value.get_ref<const std::string&>()));
      return length >= read_node.least_length && (read_node.most_length < 0 || length <= read_node.most_length);
    }
    if (!value.is_number()) return true;
    const double number = value.get<double>();
    const auto bound = [&](const char* name) {
      return schema.contains(name) ? std::optional(schema[name].get<double>()) : std::nullopt;
    };
    const auto least = bound("minimum"), above = bound("exclusiveMinimum");
    const auto most = bound("maximum"), below = bound("exclusiveMaximum");
    return !(least && number < *least) && !(above && number <= *above) && !(most && number > *most) &&
           !(below && number >= *below);
  };
  if (list) {
    for (const Json& value : *list)
      if (keeps(value)) read_node.literals.push_back(&value);
  } else if (keeps(*fixed)) {
    read_node.literals.push_back(fixed);
  }
  if (read_node.literals.empty()) reject(node, list ? "enum" : "const", "no value of it keeps to the other keywords");
}

int SchemaTree::limit_of(const Json& schema, int node, const char* keyword, int absent) const {
  const Json* const value = find(schema, keyword);
  if (!value) return absent;
  constexpr int kMost = 1 << 30;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (!is_whole(*value) || number < 0 || number > kMost)
    reject(node, keyword, fmt::format("found {}, expected an integer from 0 to {}", shown(*value), kMost));
  return int(number);
}

void SchemaTree::check_order(int node, int least, int most, const char* least_name, const char* most_name) const {
  if (most != SchemaNode::kUnbounded && most < least)
    reject(node, most_name, fmt::format("found {}, which is below {} {}", most, least_name, least));
}

void SchemaTree::resolve_references() {
  for (size_t i = 0; i < references_.size(); ++i) {  // what is read may have references
    const Reference reference = references_[i];
    const Json* const target = target_of(whole_, *reference.target);
    if (!target)
      reject(reference.node, "$ref",
             fmt::format("found {}, which is no place in this schema", json_literal(*reference.target)));
    const int named = read(*target, -1, percent_decoded(std::string_view(*reference.target).substr(1)), 1);
    nodes_[size_t(named)].is_named = true;
    nodes_[size_t(reference.node)].branches = {named};
  }
}

/// A schema that stands for itself, with nothing around it.
void SchemaTree::check_loops() const {
  enum State : uint8_t { unseen, open, done };
  std::vector<State> states(nodes_.size(), unseen);
  struct Step {
    int node;
    size_t next;
  };
  for (size_t start = 0; start < nodes_.size(); ++start) {
    std::vector<Step> path;
    if (states[start] == unseen) path.push_back({int(start), 0});
    while (!path.empty()) {
      clock_.check_time();
      Step& step = path.back();
      const SchemaNode& node = nodes_[size_t(step.node)];
      states[size_t(step.node)] = open;
      if (step.next == node.branches.size()) {
        states[size_t(step.node)] = done;
        path.pop_back();
        continue;
      }
      const int next = node.branches[step.next++];
      if (states[size_t(next)] == open)
        reject(step.node, {}, "this schema stands for itself, by $ref, anyOf or allOf alone");
      if (states[size_t(next)] == unseen) path.push_back({next, 0});
    }
  }
}

bool SchemaTree::has_end(const SchemaNode& node, const std::vector<bool>& known) const {
  const auto ends = [&](int schema) { return bool(known[size_t(schema)]); };
  if (node.form == SchemaNode::Form::literals) return true;
  if (node.form == SchemaNode::Form::branches) return std::any_of(node.branches.begin(), node.branches.end(), ends);
  if (node.kinds & ~(kArray | kObject)) return true;
  if (node.kinds & kObject) {
    const auto keeps = [&](const SchemaProperty& property) { return !property.is_required || ends(property.schema); };
    if (std::all_of(node.properties.begin(), node.properties.end(), keeps)) return true;
  }
  if (!(node.kinds & kArray)) return false;
  const auto stop = std::find_if_not(node.prefix_items.begin(), node.prefix_items.end(), ends);
  return node.least_items <= stop - node.prefix_items.begin() || (stop == node.prefix_items.end() && ends(node.items));
}

void SchemaTree::check_ends() const {
  std::vector<bool> known(nodes_.size(), false);
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (known[i] || !has_end(nodes_[i], known)) continue;
      known[i] = grows = true;
      clock_.check_time();
    }
  }
  if (!known[0]) refuse_endless(known);
}

/// Follows what has no end to the schema where it is seen.
void SchemaTree::refuse_endless(const std::vector<bool>& known) const {
  std::vector<bool> seen(nodes_.size(), false);
  const auto ends = [&](int schema) { return bool(known[size_t(schema)]); };
  int at = 0;
  while (!seen[size_t(at)]) {
    seen[size_t(at)] = true;
    const SchemaNode& node = nodes_[size_t(at)];
    if (node.form == SchemaNode::Form::branches) {
      at = node.branches.front();
    } else if (node.kinds == 0) {
      reject(at, {}, "no value matches this schema");
    } else if (node.kinds & kObject) {
      at = std::find_if(node.properties.begin(), node.properties.end(), [&](const SchemaProperty& property) {
             return property.is_required && !ends(property.schema);
           })->schema;
    } else {
      const auto stop = std::find_if_not(node.prefix_items.begin(), node.prefix_items.end(), ends);
      at = stop == node.prefix_items.end() ? node.items : *stop;
    }
  }
  reject(at, {}, "this schema asks for itself without an end");
}

}  // namespace paceline
