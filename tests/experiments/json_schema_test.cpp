// The JSON Schema agrees with the loader, and the file that editors read is the one that the program prints.

#include <cmath>
#include <regex>

#include <gtest/gtest.h>

#include "experiments/config/file/tree.h"
#include "experiments/config/keys/key_help.h"
#include "experiments/config/view.h"
#include "tests/experiments/config_files.h"
#include "tests/support/holds.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

ConfigJson json_of(const ConfigNode& node) {
  switch (node.kind) {
    case NodeKind::null: return nullptr;
    case NodeKind::boolean: return node.boolean;
    case NodeKind::integer: return node.integer;
    case NodeKind::number: return node.number;
    case NodeKind::string: return node.text;
    case NodeKind::list: {
      ConfigJson list = ConfigJson::array();
      for (const ConfigNode& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case NodeKind::object: {
      ConfigJson object = ConfigJson::object();
      for (const ConfigMember& member : node.members) object[member.key] = json_of(member.value);
      return object;
    }
  }
  return {};
}

/// The words of JSON Schema that ours uses; a word that it does not know fails the test.
class Validator {
 public:
  explicit Validator(ConfigJson schema) : root_(std::move(schema)) {}
  bool accepts(const ConfigJson& value) const { return accepts(root_, value); }

 private:
  static bool has_type(const std::string& type, const ConfigJson& value) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }

  bool accepts(const ConfigJson& schema, const ConfigJson& value) const {
    for (const auto& [word, rule] : schema.items()) {
      if (!obeys(schema, word, rule, value)) return false;
    }
    return true;
  }

  bool obeys(const ConfigJson& schema, const std::string& word, const ConfigJson& rule, const ConfigJson& value) const {
    if (word == "$schema" || word == "$defs" || word == "title" || word == "description" || word == "default")
      return true;
    if (word == "type") {
      if (rule.is_string()) return has_type(rule, value);
      return std::any_of(rule.begin(), rule.end(), [&](const ConfigJson& type) { return has_type(type, value); });
    }
    if (word == "const") return value == rule;
    if (word == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (word == "minimum") return !value.is_number() || value.get<double>() >= rule.get<double>();
    if (word == "exclusiveMinimum") return !value.is_number() || value.get<double>() > rule.get<double>();
    if (word == "maximum") return !value.is_number() || value.get<double>() <= rule.get<double>();
    if (word == "minLength") return !value.is_string() || value.get<std::string>().size() >= rule.get<size_t>();
    if (word == "minItems") return !value.is_array() || value.size() >= rule.get<size_t>();
    if (word == "pattern") return !value.is_string() || std::regex_search(value.get<std::string>(), std::regex(rule));
    if (word == "items") {
      return !value.is_array() ||
             std::all_of(value.begin(), value.end(), [&](const ConfigJson& item) { return accepts(rule, item); });
    }
    if (word == "anyOf") {
      return std::any_of(rule.begin(), rule.end(), [&](const ConfigJson& choice) { return accepts(choice, value); });
    }
    if (word == "$ref") return accepts(root_.at("$defs").at(rule.get<std::string>().substr(8)), value);
    if (word == "required") {
      return !value.is_object() ||
             std::all_of(rule.begin(), rule.end(), [&](const std::string& name) { return value.contains(name); });
    }
    if (word == "properties" || word == "patternProperties") return true;  // with additionalProperties
    if (word == "additionalProperties") return !value.is_object() || members_obey(schema, rule, value);
    ADD_FAILURE() << "unknown word " << word;
    return false;
  }

  bool members_obey(const ConfigJson& schema, const ConfigJson& others, const ConfigJson& object) const {
    for (const auto& [name, value] : object.items()) {
      bool known = false;
      if (schema.contains("properties") && schema["properties"].contains(name)) {
        known = true;
        if (!accepts(schema["properties"][name], value)) return false;
      }
      if (schema.contains("patternProperties")) {
        for (const auto& [pattern, rule] : schema["patternProperties"].items()) {
          if (!std::regex_search(name, std::regex(pattern))) continue;
          known = true;
          if (!accepts(rule, value)) return false;
        }
      }
      if (known) continue;
      if (others.is_boolean() ? !others.get<bool>() : !accepts(others, value)) return false;
    }
    return true;
  }

  ConfigJson root_;
};

ConfigJson parsed(const std::filesystem::path& file) {
  auto source = std::make_shared<SourceText>();
  source->text = test::read_file(file);
  Diagnostics diagnostics;
  const ConfigNode node = parse_jsonc(source, diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << file;
  return json_of(node);
}

TEST(JsonSchema, TheCommittedFileIsCurrent) {
  EXPECT_EQ(test::first_difference(test::read_file(source_dir() / "configs/experiment.schema.json"),
                                   compact_json(experiment_json_schema()) + "\n"),
            "")
      << "write it anew: build/release/runexp config schema > configs/experiment.schema.json";
}

TEST(JsonSchema, ShippedConfigurationsConformAndNameIt) {
  const Validator validator(experiment_json_schema());
  size_t num_files = 0;
  for (const char* folder : {"configs", "configs/base", "configs/workloads"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() / folder)) {
      const std::filesystem::path& file = entry.path();
      if (file.extension() != ".json" || file.filename() == "experiment.schema.json") continue;
      ++num_files;
      const ConfigJson json = parsed(file);
      EXPECT_TRUE(validator.accepts(json)) << file;
      ASSERT_TRUE(json.contains("$schema")) << file;
      EXPECT_TRUE(std::filesystem::equivalent(file.parent_path() / json["$schema"].get<std::string>(),
                                              source_dir() / "configs/experiment.schema.json"));
    }
  }
  EXPECT_GE(num_files, 5u);
}

/// What the loader says of one file, the schema says as well.
TEST(JsonSchema, AgreesWithTheLoader) {
  const Validator validator(experiment_json_schema());
  const ConfigFiles files;
  const char* const good[] = {
      R"({"$schema": "x.json", "schema_version": 1, "name": "n", "vars": {"a": "b", "n": 2}})",
      R"({"engine": {"parallel": {"tp": 2, "threads_per_rank": "auto"}, "target": {"dtype": "bf16", "inflate": null}}})",
      R"({"measure": {"warmup_requests": "=2*k"}, "vars": {"t": 4}, "sampling": {"max_tokens": "${t}"}})",
      R"({"sweep": {"axes": {"k": "1..16*2", "engine.parallel.tp": [1, 2], "proposer": ["none", "ngram"]},
          "zip": [["tp", "k"]], "exclude": [{"k": [1, 2], "pp": 1}], "baseline": {"tp": 1}}})",
      R"({"sweep": {"include": [{"label": "a", "tp": 1, "proposer": "none", "published": {"over": "a", "speedup": 2}}]}})",
      R"({"profiles": {"quick": {"sampling": {"+stop_token_ids": [3]}, "report": {"-facet": true}}}})",
      R"({"report": {"slo": {"ttft_ms": 200}}, "sweep": {"constraints": ["tp*pp <= 4"]}})",
  };
  for (const char* text : good) {
    const bool zips = std::string(text).find("zip") != std::string::npos;  // of unequal lengths: a matter of two keys
    if (!zips) {
      EXPECT_EQ(files.complaints(text), "") << text;
    }
    EXPECT_TRUE(validator.accepts(ConfigJson::parse(text))) << text;
  }
  const char* const bad[] = {
      R"({"engin": {}})",
      R"({"engine": {"tp": 2}})",
      R"({"engine": {"parallel": {"tp": 0}}})",
      R"({"engine": {"parallel": {"tp": "2"}}})",
      R"({"engine": {"kv_cache": {"memory_fraction": 0}}})",
      R"({"engine": {"kv_cache": {"memory_fraction": 1.5}}})",
      R"({"engine": {"kv_cache": {"prefix_caching": "no"}}})",
      R"({"engine": {"target": {"dtype": "int3"}}})",
      R"({"speculation": {"draft": {"inflate": 8}}})",
      R"({"sampling": {"stop_token_ids": [1, "2"]}})",
      R"({"sampling": {"-seed": false}})",
      R"({"sweep": {"axes": {"tpp": [1]}}})",
      R"({"sweep": {"axes": {"k": []}}})",
      R"({"sweep": {"axes": {"sweep.max_failures": [1]}}})",
      R"({"sweep": {"include": [{"proposr": "none"}]}})",
      R"({"profiles": {"quick": {"samplng": {}}}})",
      R"({"profiles": {"quick": {"extends": "x"}}})",
      R"({"schema_version": 2})",
  };
  for (const char* text : bad) {
    EXPECT_NE(files.complaints(text), "") << text;
    EXPECT_FALSE(validator.accepts(ConfigJson::parse(text))) << text;
  }
}

TEST(JsonSchema, TakesEveryDefaultAndRefusesWhatIsOutOfRange) {
  const Validator validator(experiment_json_schema());
  const auto nested = [](const std::string& path, ConfigJson value) {
    std::string rest = path;
    for (size_t dot; (dot = rest.rfind('.')) != std::string::npos; rest.resize(dot))
      value = ConfigJson::object({{rest.substr(dot + 1), value}});
    return ConfigJson::object({{rest, value}});
  };
  for (const KeySpec& key : config_keys()) {
    if (const auto initial = default_of(key)) {
      EXPECT_TRUE(validator.accepts(nested(key.path, *initial))) << key.path;
      EXPECT_FALSE(validator.accepts(nested(key.path, ConfigJson::array({nullptr})))) << key.path;
    }
    if (key.range().empty() || key.type == KeyType::integer_list) continue;
    EXPECT_FALSE(validator.accepts(nested(key.path, key.above_min ? key.min : key.min - 1))) << key.path;
    if (key.max < 2e9) {
      const bool is_whole = key.max == std::floor(key.max);
      const ConfigJson most = is_whole ? ConfigJson(static_cast<int64_t>(key.max)) : ConfigJson(key.max);
      EXPECT_TRUE(validator.accepts(nested(key.path, most))) << key.path;
      EXPECT_FALSE(validator.accepts(nested(key.path, static_cast<int64_t>(key.max) + 1))) << key.path;
    }
  }
}

}  // namespace
}  // namespace paceline
