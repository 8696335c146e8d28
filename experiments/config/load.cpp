#include "experiments/config/load.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "experiments/config/builtin_root.h"
#include "experiments/config/jsonc.h"
#include "experiments/config/schema.h"
#include "experiments/config/substitute.h"
#include "experiments/config/suggest.h"
#include "experiments/config/void_keys.h"
#include "experiments/config/yaml.h"

namespace paceline {

namespace {

constexpr size_t kMaxExtendsDepth = 16;
constexpr size_t kMaxFiles = 256;

std::shared_ptr<const SourceText> read_source(const std::filesystem::path& file) {
  auto source = std::make_shared<SourceText>();
  source->name = file.string();
  std::error_code ignored;
  // What comes from a pipe (runexp <(...)) lies nowhere: its paths count from the current folder.
  source->directory = std::filesystem::is_fifo(file, ignored) ? std::filesystem::current_path()
                                                              : std::filesystem::absolute(file).parent_path();
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file, ignored)) {
    fail(ExitCode::usage, "{}: no such configuration file", file.string());
  }
  source->text.resize(kMaxConfigBytes + 1);
  stream.read(source->text.data(), static_cast<std::streamsize>(source->text.size()));
  source->text.resize(static_cast<size_t>(stream.gcount()));
  return source;
}

bool is_json_schema(const ConfigNode& root) {
  const ConfigNode* const schema = root.find("$schema");
  return schema && schema->kind == NodeKind::string && schema->text.find("json-schema.org/") != std::string::npos;
}

/// Reads a file and what it extends, and lays them over each other.
class FileReader {
 public:
  FileReader(LoadedConfig& loaded, Diagnostics& diagnostics) : loaded_(loaded), diagnostics_(diagnostics) {}

  ConfigNode read(const std::filesystem::path& file, const Origin& wanted_by) {
    std::error_code ignored;
    std::filesystem::path canonical = std::filesystem::weakly_canonical(file, ignored);
    if (ignored) canonical = std::filesystem::absolute(file);  // a pipe has no place
    const auto open = std::find(stack_.begin(), stack_.end(), canonical);
    if (open != stack_.end()) {
      std::string circle;
      for (auto it = open; it != stack_.end(); ++it) circle += it->filename().string() + " -> ";
      fail_at(wanted_by, fmt::format("\"extends\" goes in a circle: {}{}", circle, canonical.filename().string()));
    }
    if (stack_.size() >= kMaxExtendsDepth) {
      fail_at(wanted_by, fmt::format("\"extends\" goes more than {} files deep", kMaxExtendsDepth));
    }
    if (++num_files_ > kMaxFiles) fail_at(wanted_by, fmt::format("\"extends\" reads more than {} files", kMaxFiles));
    if (wanted_by.source && !std::filesystem::is_regular_file(file, ignored)) {
      diagnostics_.add(wanted_by,
                       fmt::format("there is no file {}{}", file.string(), hint_for_missing(file, wanted_by)));
      return ConfigNode::make_object(wanted_by);
    }
    stack_.push_back(canonical);
    const std::shared_ptr<const SourceText> source = read_source(file);
    const std::string extension = file.extension().string();
    ConfigNode own = extension == ".yaml" || extension == ".yml" ? parse_yaml(source, diagnostics_)
                                                                 : parse_jsonc(source, diagnostics_);
    if (is_json_schema(own))
      fail_at(own.find("$schema")->origin,
              "this is a JSON Schema, which editors check experiments with; expected an experiment");
    if (own.kind == NodeKind::object || diagnostics_.empty()) validate_tree(own, diagnostics_);
    ConfigNode merged = ConfigNode::make_object(own.origin);
    if (const ConfigNode* extends = own.find("extends")) {
      const std::vector<ConfigNode> one = {*extends};
      const std::filesystem::path folder =
          std::filesystem::is_fifo(file, ignored) ? source->directory : file.parent_path();
      for (const ConfigNode& parent : extends->kind == NodeKind::list ? extends->items : one) {
        if (parent.kind != NodeKind::string) continue;  // complained about already
        merge(merged, read((folder / parent.text).lexically_normal(), parent.origin));
      }
    }
    if (std::none_of(loaded_.sources.begin(), loaded_.sources.end(),
                     [&](const auto& s) { return s->name == source->name; })) {
      loaded_.sources.push_back(source);
    }
    merge(merged, own);
    stack_.pop_back();
    return merged;
  }

 private:
  /// Profiles keep their "+key" and "-key" for the moment when they are applied.
  void merge(ConfigNode& base, ConfigNode overlay) {
    overlay.erase("extends");
    overlay.erase("$schema");
    if (const ConfigMember* profiles = overlay.find_member("profiles")) {
      if (!base.find("profiles"))
        base.set({"profiles", profiles->key_origin, ConfigNode::make_object(profiles->value.origin)});
      merge_config(*base.find("profiles"), profiles->value, diagnostics_, MergeMarks::keep);
      overlay.erase("profiles");
    }
    // A file that is wrong by itself gets no second complaint about what it inherits.
    Diagnostics repeated;
    merge_config(base, overlay, diagnostics_.empty() ? diagnostics_ : repeated);
  }

  /// A file beside it with almost this name, or the one of this name in the folder that ships with the program.
  static std::string hint_for_missing(const std::filesystem::path& file, const Origin& wanted_by) {
    const std::string near = neighbour(file);
    const std::filesystem::path root = near.empty() ? find_builtin_root(file) : std::filesystem::path();
    if (root.empty()) return near;
    const std::filesystem::path written =
        std::filesystem::absolute(file).lexically_normal().lexically_relative(wanted_by.source->directory);
    const std::filesystem::path there = (root / written).lexically_normal();
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(there, ignored)) return "";
    return fmt::format(" (paths count from this file's folder; {} is there: save this file in {}, or write that path)",
                       there.string(), root.string());
  }

  static std::string neighbour(const std::filesystem::path& file) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(file.parent_path(), ignored)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return did_you_mean(file.filename().string(), names);
  }

  LoadedConfig& loaded_;
  Diagnostics& diagnostics_;
  std::vector<std::filesystem::path> stack_;
  size_t num_files_ = 0;
};

std::shared_ptr<const SourceText> argument(const std::string& option, const std::string& text) {
  auto source = std::make_shared<SourceText>();
  source->name = option;
  source->text = text;
  source->directory = std::filesystem::current_path();
  source->is_argument = true;
  return source;
}

void move_origin(ConfigNode& node, const Origin& origin) {
  node.origin = origin;
  for (ConfigNode& item : node.items) move_origin(item, origin);
  for (ConfigMember& member : node.members) {
    member.key_origin = origin;
    move_origin(member.value, origin);
  }
}

/// A value on the command line: JSON where it is JSON and the key is not a text, else the text itself.
ConfigNode argument_value(const std::string& text, bool is_text, const Origin& origin) {
  if (!is_text || text.starts_with("\"")) {
    Diagnostics problems;
    ConfigNode node = parse_jsonc(argument("", text), problems);
    if (problems.empty()) {
      move_origin(node, origin);
      return node;
    }
  }
  return ConfigNode::make_string(text, origin);
}

bool is_text_key(const KeySpec& key) {
  return key.type == KeyType::text || key.type == KeyType::choice || key.type == KeyType::path ||
         key.type == KeyType::shape || key.path == "name";
}

/// {"a": {"b": value}} for the path a.b.
ConfigNode nested(const std::string& path, ConfigNode value) {
  const size_t dot = path.find('.');
  ConfigNode object = ConfigNode::make_object(value.origin);
  const Origin origin = value.origin;
  if (dot == std::string::npos) {
    object.members.push_back({path, origin, std::move(value)});
  } else {
    object.members.push_back({path.substr(0, dot), origin, nested(path.substr(dot + 1), std::move(value))});
  }
  return object;
}

struct Argument {
  std::string name;
  std::string value;
  Origin name_origin, value_origin;
};

Argument split_argument(const std::string& option, const std::string& text) {
  const auto source = argument(option, text);
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    fail_at({source, 1, 1}, fmt::format("expected key=value, found \"{}\"", text));
  }
  return {text.substr(0, equals), text.substr(equals + 1), {source, 1, 1}, {source, 1, static_cast<int>(equals) + 2}};
}

const KeySpec& key_of(const Argument& argument) {
  const KeySpec* key = find_key_or_alias(argument.name);
  if (!key || (key->type == KeyType::outside && key->path != "name")) {
    fail_at(argument.name_origin,
            fmt::format("unknown key \"{}\"{}", argument.name, hint_for_unknown_key(argument.name)));
  }
  return *key;
}

ConfigNode overlay_of_set(const std::string& text) {
  const Argument argument = split_argument("--set", text);
  if (argument.name.starts_with("vars.")) {
    const std::string variable = argument.name.substr(5);
    ConfigNode vars = ConfigNode::make_object(argument.name_origin);
    vars.members.push_back(
        {variable, argument.name_origin, argument_value(argument.value, false, argument.value_origin)});
    return nested("vars", std::move(vars));
  }
  const KeySpec& key = key_of(argument);
  return nested(key.path, argument_value(argument.value, is_text_key(key), argument.value_origin));
}

ConfigNode overlay_of_axis(const std::string& text) {
  const Argument argument = split_argument("--axis", text);
  const KeySpec& key = key_of(argument);
  ConfigNode value;
  if (argument.value.starts_with("[") || argument.value.find("..") != std::string::npos) {
    value = argument_value(argument.value, false, argument.value_origin);
  } else {
    value.kind = NodeKind::list;
    value.origin = argument.value_origin;
    std::istringstream items(argument.value);
    for (std::string item; std::getline(items, item, ',');) {
      value.items.push_back(argument_value(item, is_text_key(key), argument.value_origin));
    }
  }
  ConfigNode axes = ConfigNode::make_object(argument.name_origin);
  axes.members.push_back({key.path, argument.name_origin, std::move(value)});
  return nested("sweep.axes", std::move(axes));
}

const ConfigNode* find_path(const ConfigNode& root, std::string_view path) {
  const ConfigNode* node = &root;
  while (node && !path.empty()) {
    const size_t dot = path.find('.');
    node = node->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return node;
}

void apply_profile(LoadedConfig& loaded, const std::string& name, Diagnostics& diagnostics) {
  if (const ConfigNode* profiles = loaded.tree.find("profiles")) {
    for (const ConfigMember& member : profiles->members) loaded.profiles.push_back(member.key);
  }
  if (name.empty()) return;
  const ConfigNode* profile = find_path(loaded.tree, "profiles");
  profile = profile ? profile->find(name) : nullptr;
  if (!profile) {
    fail_at({argument("--profile", name), 1, 1},
            loaded.profiles.empty()
                ? fmt::format("{} has no profiles", loaded.file.string())
                : fmt::format("{} has no profile \"{}\"{}: there are {}", loaded.file.string(), name,
                              did_you_mean(name, loaded.profiles), fmt::join(loaded.profiles, ", ")));
  }
  const ConfigNode changes = *profile;
  merge_config(loaded.tree, changes, diagnostics);
}

void apply_arguments(LoadedConfig& loaded, const ConfigOverrides& overrides, Diagnostics& diagnostics) {
  for (const std::string& text : overrides.axis) {
    ConfigNode overlay = overlay_of_axis(text);
    validate_tree(overlay, diagnostics);
    merge_config(loaded.tree, overlay, diagnostics);
  }
  for (const std::string& text : overrides.set) {
    ConfigNode overlay = overlay_of_set(text);
    validate_tree(overlay, diagnostics);
    const Argument parts = split_argument("--set", text);
    const KeySpec* key = find_key_or_alias(parts.name);
    const ConfigNode* axes = find_path(loaded.tree, "sweep.axes");
    const ConfigNode* const value = key ? find_path(overlay, key->path) : nullptr;
    Diagnostics of_value;  // has been complained about
    const bool fits = value && (parts.value.find("${") != std::string::npos || is_deferred_expression(*key, *value) ||
                                convert_value(*key, *value, of_value));
    if (fits && axes && axes->find(key->path)) {
      diagnostics.add(parts.name_origin, fmt::format("\"{0}\" is an axis of the sweep, which would overrule --set: use "
                                                     "--axis {0}={1}",
                                                     parts.name, parts.value));
    }
    merge_config(loaded.tree, overlay, diagnostics);
  }
  if (overrides.only.empty()) return;
  const ConfigNode node = ConfigNode::make_string(overrides.only, {argument("--only", overrides.only), 1, 1});
  check_expression(node, node.text, 0, diagnostics);
  if (diagnostics.empty()) loaded.only = Expression::parse(overrides.only);
}

/// Names behind builtin: are known, so a wrong one is a typo.
void check_builtin(const KeySpec& key, const ConfigNode& node, const std::filesystem::path& root, Diagnostics& out) {
  if (root.empty() || (key.type != KeyType::path && key.type != KeyType::shape)) return;
  for (const ConfigNode& item : node.items) check_builtin(key, item, root, out);
  const bool is_shape = key.type == KeyType::shape;
  if (node.kind != NodeKind::string || (is_shape ? !is_shape_name(node.text) : !node.text.starts_with("builtin:")))
    return;
  if (key.path == "load.trace") {
    out.add(node.origin, fmt::format("\"{}\": no trace is built in: write the path of a file", node.text));
    return;
  }
  const bool is_data = key.path == "workload.dataset";
  const std::string name = is_shape ? node.text : node.text.substr(8);
  const char* const folder = is_shape ? "shapes" : is_data ? "workloads" : "models";
  const char* const extension = is_shape ? ".json" : is_data ? ".jsonl" : "";
  std::vector<std::string> known;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root / folder, ignored)) {
    if (*extension ? entry.path().extension() == extension : entry.is_directory(ignored)) {
      known.push_back(*extension ? entry.path().stem().string() : entry.path().filename().string());
    }
  }
  std::sort(known.begin(), known.end());
  if (known.empty() || std::find(known.begin(), known.end(), name) != known.end()) return;
  out.add(node.origin, fmt::format("\"{}\": no {} of that name is built in{}: there are {}", node.text,
                                   is_shape  ? "shape"
                                   : is_data ? "data set"
                                             : "model",
                                   did_you_mean(name, known), fmt::join(known, ", ")));
}

void check_zip(const LoadedConfig& loaded, Diagnostics& out) {
  std::set<std::string> used;
  const Origin at = loaded.origin_of("sweep.zip");
  for (const std::vector<std::string>& group : loaded.config.sweep.zip) {
    std::optional<size_t> length;
    for (const std::string& path : group) {
      const auto& axes = loaded.config.sweep.axes;
      const auto axis = std::find_if(axes.begin(), axes.end(), [&](const SweepAxis& a) { return a.path == path; });
      if (!used.insert(path).second) out.add(at, fmt::format("\"{}\" stands in sweep.zip twice", path));
      if (axis == axes.end()) {
        out.add(at, fmt::format("sweep.zip names \"{}\", which is not an axis", path));
      } else if (length && *length != axis->values.size()) {
        out.add(at, fmt::format("zipped axes have equal lengths: \"{}\" has {} values, \"{}\" has {}", group[0],
                                *length, path, axis->values.size()));
      } else {
        length = axis->values.size();
      }
    }
  }
}

/// A value that stands twice on an axis would make the same cell twice; zipped axes may repeat theirs.
void check_repeated_values(const LoadedConfig& loaded, Diagnostics& out) {
  const ConfigNode* axes = find_path(loaded.tree, "sweep.axes");
  for (const SweepAxis& axis : loaded.config.sweep.axes) {
    const auto& zip = loaded.config.sweep.zip;
    const bool zipped = std::any_of(zip.begin(), zip.end(), [&](const std::vector<std::string>& group) {
      return std::find(group.begin(), group.end(), axis.path) != group.end();
    });
    const ConfigNode* node = axes ? axes->find(axis.path) : nullptr;
    if (zipped || !node || node->kind != NodeKind::list) continue;
    std::set<std::string> seen;
    for (size_t i = 0; i < axis.values.size(); ++i) {
      if (!seen.insert(axis.values[i].dump()).second) {
        out.add(node->items[i].origin,
                fmt::format("the axis \"{}\" holds {} twice", axis.path, node->items[i].describe()));
      }
    }
  }
}

/// A contradiction is named here unless cells may resolve it.
void check_conflict(const LoadedConfig& loaded, Diagnostics& out) {
  const auto varies = [&](const std::string& path) {
    const SweepConfig& sweep = loaded.config.sweep;
    return std::any_of(sweep.axes.begin(), sweep.axes.end(),
                       [&](const SweepAxis& axis) { return axis.path == path; }) ||
           std::any_of(sweep.include.begin(), sweep.include.end(),
                       [&](const ConfigJson& row) { return row.contains(path); });
  };
  const auto check = [&](const ExperimentConfig& config, const std::string& given) {
    const std::optional<ConfigConflict> conflict = find_conflict(config);
    if (!conflict) return;
    for (const std::string& path : conflict->involved) {
      if (path != given && varies(path)) return;
    }
    out.add(loaded.origin_of(conflict->key), conflict->message);
  };
  const std::string proposer = "speculation.proposer";
  if (!varies(proposer)) {
    check(loaded.config, "");
    return;
  }
  // A proposer of the sweep that could run in no cell is a mistake, not a list of skipped cells.
  for (const SweepAxis& axis : loaded.config.sweep.axes) {
    if (axis.path != proposer) continue;
    for (const ConfigJson& value : axis.values) {
      if (!value.is_string()) continue;
      ExperimentConfig config = loaded.config;
      config.speculation.proposer = value.get<std::string>();
      check(config, proposer);
      if (!out.empty()) return;
    }
  }
}

void fill_config(LoadedConfig& loaded, Diagnostics& diagnostics) {
  ExperimentConfig& config = loaded.config;
  for (const KeySpec& key : config_keys()) {
    const ConfigNode* node = find_path(loaded.tree, key.path);
    if (!node || !key.assign) continue;
    if (is_deferred_expression(key, *node)) {
      check_expression(*node, std::string_view(node->text).substr(1), 1, diagnostics);
      if (diagnostics.empty()) {
        loaded.deferred.emplace(key.path, DeferredValue{Expression::parse(node->text.substr(1)), node->origin});
      }
      continue;
    }
    const std::optional<ConfigJson> value = convert_value(key, *node, diagnostics);
    if (value) key.assign(config, *value);
    check_builtin(key, *node, config.builtin_root, diagnostics);
  }
  if (const ConfigNode* axes = find_path(loaded.tree, "sweep.axes")) {
    for (const ConfigMember& axis : axes->members) {
      if (const KeySpec* key = find_key(axis.key)) check_builtin(*key, axis.value, config.builtin_root, diagnostics);
    }
  }
  const ConfigNode* name = loaded.tree.find("name");
  config.name = name && name->kind == NodeKind::string ? name->text : loaded.file.stem().string();
  // The name becomes part of a folder's name.
  const bool plain = !config.name.empty() && config.name.size() <= 100 && config.name[0] != '.' &&
                     std::all_of(config.name.begin(), config.name.end(),
                                 [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; });
  if (!plain) {
    diagnostics.add(name ? name->origin : loaded.tree.origin,
                    fmt::format("\"name\" is \"{}\": expected letters, digits, '_', '-' and '.'", config.name));
  }
}

ExpressionValue value_of(const ConfigJson& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return json.get<double>();
  return json.is_string() ? json.get<std::string>() : json.dump();
}

/// Evaluates one deferred key after those that it names.
class DeferredEvaluator {
 public:
  DeferredEvaluator(const LoadedConfig& loaded, int devices, ExperimentConfig& config)
      : loaded_(loaded), devices_(devices), config_(config) {}

  void evaluate(const std::string& path) {
    if (done_.contains(path)) return;
    const DeferredValue& value = loaded_.deferred.at(path);
    if (!open_.insert(path).second) fail_at(value.origin, fmt::format("the value of \"{}\" depends on itself", path));
    const ExpressionNames names = [&](const std::string& name) {
      if (const KeySpec* key = find_key_or_alias(name); key && loaded_.deferred.contains(key->path))
        evaluate(key->path);
      return names_for(config_, devices_)(name);
    };
    const KeySpec& key = *find_key(path);
    ConfigNode node;
    node.origin = value.origin;
    try {
      const ExpressionValue result = value.expression.evaluate(names);
      if (const bool* truth = std::get_if<bool>(&result)) {
        node.kind = NodeKind::boolean;
        node.boolean = *truth;
      } else if (const double* number = std::get_if<double>(&result)) {
        const bool whole = *number == std::floor(*number) && std::abs(*number) < 9e15;
        node.kind = whole ? NodeKind::integer : NodeKind::number;
        node.number = *number;
        node.integer = whole ? static_cast<int64_t>(*number) : 0;
        node.text = whole ? fmt::format("{}", node.integer) : fmt::format("{}", *number);
      } else {
        node = ConfigNode::make_string(std::get<std::string>(result), value.origin);
      }
    } catch (const ExpressionError& error) {
      fail_at(value.origin, fmt::format("in \"={}\": {}", value.expression.text(), error.message));
    }
    Diagnostics diagnostics;
    const std::optional<ConfigJson> checked = convert_value(key, node, diagnostics);
    diagnostics.throw_if_any();
    key.assign(config_, *checked);
    done_.insert(path);
  }

 private:
  const LoadedConfig& loaded_;
  int devices_;
  ExperimentConfig& config_;
  std::set<std::string> open_, done_;
};

}  // namespace

const ConfigNode* LoadedConfig::written(std::string_view path) const { return find_path(tree, path); }

bool LoadedConfig::is_fragment() const {
  return !written("name") && !written("sweep.axes") && !written("sweep.include");
}

Origin LoadedConfig::origin_of(std::string_view path) const {
  const ConfigNode* node = written(path);
  return node ? node->origin : tree.origin;
}

ExpressionNames names_for(const ExperimentConfig& config, int devices) {
  return [&config, devices](const std::string& name) -> std::optional<ExpressionValue> {
    if (name == "devices") return static_cast<double>(devices);
    const KeySpec* key = find_key_or_alias(name);
    if (!key || !key->read) return std::nullopt;
    return value_of(key->read(config));
  };
}

void evaluate_deferred(const LoadedConfig& loaded, int devices, ExperimentConfig& config) {
  DeferredEvaluator evaluator(loaded, devices, config);
  for (const auto& [path, value] : loaded.deferred) evaluator.evaluate(path);
}

ConfigJson experiment_json(const LoadedConfig& loaded) {
  ConfigJson root = config_to_json(loaded.config);
  root["name"] = loaded.config.name;
  for (const auto& [path, value] : loaded.deferred) {
    ConfigJson* at = &root;
    std::string_view rest = path;
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      at = &(*at)[std::string(rest.substr(0, dot))];
      rest.remove_prefix(dot + 1);
    }
    (*at)[std::string(rest)] = "=" + value.expression.text();
  }
  return root;
}

bool is_json_schema_file(const std::filesystem::path& file) {
  std::error_code ignored_error;  // what comes from a pipe can be read once
  if (file.extension() != ".json" || std::filesystem::is_fifo(file, ignored_error)) return false;
  Diagnostics ignored;
  return is_json_schema(parse_jsonc(read_source(file), ignored));
}

LoadedConfig load_config(const std::filesystem::path& file, const ConfigOverrides& overrides) {
  LoadedConfig loaded;
  loaded.file = file;
  loaded.profile = overrides.profile;
  Diagnostics diagnostics;
  loaded.tree = FileReader(loaded, diagnostics).read(file, {});
  diagnostics.throw_if_any();
  apply_profile(loaded, overrides.profile, diagnostics);
  apply_arguments(loaded, overrides, diagnostics);
  diagnostics.throw_if_any();
  substitute_variables(loaded.tree, diagnostics);
  diagnostics.throw_if_any();
  loaded.config.builtin_root = overrides.builtin_root.empty() ? find_builtin_root(file) : overrides.builtin_root;
  fill_config(loaded, diagnostics);
  diagnostics.throw_if_any();
  check_zip(loaded, diagnostics);
  check_repeated_values(loaded, diagnostics);
  diagnostics.throw_if_any();
  evaluate_deferred(loaded, 1, loaded.config);
  derive_paths(loaded.config);
  check_conflict(loaded, diagnostics);
  if (!overrides.is_recorded) check_void_keys(loaded, diagnostics);
  diagnostics.throw_if_any();
  loaded.hash = config_hash(config_to_json(loaded.config));
  return loaded;
}

}  // namespace paceline
