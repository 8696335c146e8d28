#include "experiments/config/file/load.h"

#include <algorithm>
#include <set>

#include "engine/util/json_io.h"
#include "engine/util/suggest.h"
#include "engine/util/user_file.h"
#include "engine/util/utf8_chars.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/config/file/load_steps.h"
#include "experiments/config/file/tree.h"
#include "experiments/config/keys/schema.h"

namespace paceline {

namespace {

constexpr size_t kMaxExtendsDepth = 16;
constexpr size_t kMaxFiles = 256;

/// The experiment file in `folder` whose name is nearest to `word`.
std::optional<std::string> nearest_file(const std::filesystem::path& folder, const std::string& word) {
  return nearest_name(word, file_names_in(folder, {".json", ".yaml", ".yml"}));
}

/// ` (did you mean "configs/ngram_tp2.json"?)` for a file that is not there: the nearest name beside it, or in configs/
/// (here, or what ships with the program) where no folder was named, or none that is there; else empty.
std::string hint_for_missing_file(const std::filesystem::path& missing) {
  std::error_code ignored;
  const std::string word = missing.filename().string() + (missing.has_extension() ? "" : ".json");
  std::vector<std::filesystem::path> folders = {missing.parent_path()};
  if (!std::filesystem::is_directory(missing.parent_path(), ignored)) {
    const std::filesystem::path here = "configs";
    const std::filesystem::path root = std::filesystem::is_directory(here, ignored) ? here : find_builtin_root(missing);
    if (!root.empty()) folders.push_back(root);
  }
  for (const std::filesystem::path& folder : folders)
    if (const auto name = nearest_file(folder, word))
      return fmt::format(" (did you mean \"{}\"?)", (folder / *name).string());
  return "";
}

std::shared_ptr<const SourceText> read_source(const std::filesystem::path& file) {
  auto source = std::make_shared<SourceText>();
  source->name = file.string();
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(file, ignored);
  // What comes from a pipe (runexp <(...)) lies nowhere: its paths count from the current folder.
  source->directory = std::filesystem::is_fifo(status) ? std::filesystem::current_path()
                                                       : std::filesystem::absolute(file).parent_path();
  if (std::filesystem::is_directory(status))
    fail(ExitCode::usage, "{}: is a folder: name an experiment file in it", file.string());
  if (status.type() == std::filesystem::file_type::not_found)
    fail(ExitCode::usage, "{}: no such configuration file{}", file.string(), hint_for_missing_file(file));
  source->text = read_user_file(file, {.code = ExitCode::usage, .max_bytes = kMaxConfigBytes, .takes_pipes = true});
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
      is_complete_ = false;
      diagnostics_.add(wanted_by,
                       std::filesystem::exists(file, ignored)
                           ? fmt::format("{} is {}: expected a file", file.string(),
                                         std::filesystem::is_directory(file, ignored) ? "a folder" : "no regular file")
                           : fmt::format("there is no file {}{}", file.string(), hint_for_missing(file, wanted_by)));
      return ConfigNode::make_object(wanted_by, {});
    }
    stack_.push_back(canonical);
    const std::shared_ptr<const SourceText> source = read_source(file);
    const std::string extension = file.extension().string();
    Diagnostics of_syntax;
    ConfigNode own =
        extension == ".yaml" || extension == ".yml" ? parse_yaml(source, of_syntax) : parse_jsonc(source, of_syntax);
    is_complete_ = is_complete_ && of_syntax.empty() && own.kind == NodeKind::object;
    diagnostics_.add(of_syntax.list());
    if (is_json_schema(own))
      fail_at(own.find("$schema")->origin,
              "this is a JSON Schema, which editors check experiments with; expected an experiment");
    if (own.kind == NodeKind::object || of_syntax.empty()) validate_tree(own, diagnostics_);
    ConfigNode merged = ConfigNode::make_object(own.origin, {});
    if (const ConfigNode* extends = own.find("extends")) {
      const std::vector<ConfigNode> one = {*extends};
      const std::filesystem::path folder =
          std::filesystem::is_fifo(file, ignored) ? source->directory : file.parent_path();
      for (const ConfigNode& parent : extends->kind == NodeKind::list ? extends->items : one) {
        if (parent.kind != NodeKind::string) {  // complained about already
          is_complete_ = false;
          continue;
        }
        merge(merged, read(path_of(parent.text, folder), parent.origin));
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

  /// False where a file is missing or its text is a guess: then a value may be one that nobody wrote.
  bool is_complete() const { return is_complete_; }

 private:
  /// Of what a file in `folder` extends: from there, or behind builtin: of what ships with the program.
  std::filesystem::path path_of(const std::string& name, const std::filesystem::path& folder) const {
    constexpr std::string_view kBuiltin = "builtin:";
    if (!name.starts_with(kBuiltin)) return (folder / name).lexically_normal();
    const std::filesystem::path& root = loaded_.config.builtin_root;
    if (root.empty()) fail_without_builtin_root(name);
    return (root / name.substr(kBuiltin.size())).lexically_normal();
  }

  /// Profiles keep their "+key" and "-key" for the moment when they are applied.
  void merge(ConfigNode& base, ConfigNode overlay) {
    overlay.erase("extends");
    overlay.erase("$schema");
    if (const ConfigMember* profiles = overlay.find_member("profiles")) {
      if (!base.find("profiles"))
        base.set({"profiles", profiles->key_origin, ConfigNode::make_object(profiles->value.origin, {})});
      merge_config(*base.find("profiles"), profiles->value, diagnostics_, MergeMarks::keep);
      overlay.erase("profiles");
    }
    // A file that is wrong by itself gets no second complaint about what it inherits.
    Diagnostics repeated;
    merge_config(base, overlay, diagnostics_.empty() ? diagnostics_ : repeated);
  }

  /// A file beside it with almost this name, or the one of this name in the folder that ships with the program.
  std::string hint_for_missing(const std::filesystem::path& file, const Origin& wanted_by) const {
    if (const auto near = nearest_file(file.parent_path(), file.filename().string()))
      return fmt::format(" (did you mean \"{}\"?)", *near);
    const std::filesystem::path& root = loaded_.config.builtin_root;
    if (root.empty()) return "";
    const std::filesystem::path written =
        std::filesystem::absolute(file).lexically_normal().lexically_relative(wanted_by.source->directory);
    const std::filesystem::path there = (root / written).lexically_normal();
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(there, ignored)) return "";
    return fmt::format(" (paths count from this file's folder; {} is there: write builtin:{})", there.string(),
                       written.lexically_normal().string());
  }

  LoadedConfig& loaded_;
  Diagnostics& diagnostics_;
  std::vector<std::filesystem::path> stack_;
  size_t num_files_ = 0;
  bool is_complete_ = true;
};

/// Names behind builtin: are known, so a wrong one is a typo.
void check_builtin(const KeySpec& key, const ConfigNode& node, const std::filesystem::path& root, Diagnostics& out) {
  if (root.empty() || (key.type != KeyType::path && key.type != KeyType::shape)) return;
  for (const ConfigNode& item : node.items) check_builtin(key, item, root, out);
  const bool is_shape = key.type == KeyType::shape;
  if (node.kind != NodeKind::string || (is_shape ? !is_shape_name(node.text) : !node.text.starts_with("builtin:")))
    return;
  if (key.path == "load.trace" || (key.proposer && !key.names_second_model)) {
    out.add(node.origin,
            fmt::format("\"{}\": no {} is built in: write the path of a file", node.text, last_part(key.path)));
    return;
  }
  struct Builtins {
    const char *what, *folder, *extension;
  };
  const Builtins those = is_shape                         ? Builtins{"shape", "shapes", ".json"}
                         : key.path == "workload.dataset" ? Builtins{"data set", "workloads", ".jsonl"}
                                                          : Builtins{"model", "models", ""};
  const std::string name = is_shape ? node.text : node.text.substr(8);
  std::vector<std::string> known = file_names_in(root / those.folder, {those.extension});
  for (std::string& each : known) each.resize(each.size() - std::string_view(those.extension).size());
  if (known.empty() || std::find(known.begin(), known.end(), name) != known.end()) return;
  out.add(node.origin, fmt::format("\"{}\": no {} of that name is built in{}: there are {}", node.text, those.what,
                                   did_you_mean(name, known), fmt::join(known, ", ")));
}

/// The axes of a sweep that can be read; the others become unsound.
ConfigJson readable_axes(const KeySpec& key, const ConfigNode& node, UnsoundKeys& unsound, Diagnostics& diagnostics) {
  ConfigJson axes = ConfigJson::object();
  for (const ConfigMember& axis : node.members) {
    if (const auto alone = convert_value(key, ConfigNode::make_object(node.origin, {axis}), diagnostics))
      axes.update(*alone);
    else
      unsound.insert(axis.key);
  }
  return axes;
}

constexpr size_t kMostNameBytes = 100;

bool may_be_in_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
}

/// Of an experiment that has none: "my_run" of "my run.json".
std::string name_of_file(const std::filesystem::path& file) {
  std::string name;
  for (const char c : file.stem().string())
    if (!is_utf8_continuation(c)) name += may_be_in_name(c) ? c : '_';
  if (name.empty() || name[0] == '.') name.insert(0, "_");
  return name.substr(0, kMostNameBytes);
}

/// The name becomes part of a folder's name.
void check_name(const LoadedConfig& loaded, Diagnostics& diagnostics) {
  const std::string& name = loaded.config.name;
  const bool plain = !name.empty() && name.size() <= kMostNameBytes && name[0] != '.' &&
                     std::all_of(name.begin(), name.end(), may_be_in_name);
  if (!plain) {
    diagnostics.add(loaded.origin_of("name"),
                    fmt::format("\"name\" is \"{}\": expected up to {} letters, digits, '_', '-' and '.', no '.' first",
                                name, kMostNameBytes));
  }
}

/// Sets every key that can be read, and gives those that cannot.
UnsoundKeys fill_config(LoadedConfig& loaded, Diagnostics& diagnostics) {
  ExperimentConfig& config = loaded.config;
  UnsoundKeys unsound = keys_in_doubt(loaded.tree);
  for (const KeySpec& key : config_keys()) {
    const ConfigNode* node = loaded.written(key.path);
    if (!node || !key.assign) continue;
    if (is_deferred_expression(key, *node)) {
      Diagnostics of_expression;
      check_expression(*node, std::string_view(node->text).substr(1), 1, of_expression);
      if (of_expression.empty())
        loaded.deferred.emplace(key.path, DeferredValue{Expression::parse(node->text.substr(1)), node->origin});
      else
        unsound.insert(key.path);
      diagnostics.add(of_expression.list());
      continue;
    }
    const bool has_axes = key.type == KeyType::axes && node->kind == NodeKind::object;
    if (const std::optional<ConfigJson> value =
            has_axes ? readable_axes(key, *node, unsound, diagnostics) : convert_value(key, *node, diagnostics)) {
      key.assign(config, *value);
    } else {
      unsound.insert(key.path);
      for (const ConfigNode& row : node->items)
        for (const ConfigMember& member : row.members) unsound.insert(member.key);
    }
    check_builtin(key, *node, config.builtin_root, diagnostics);
    if (!has_axes) continue;
    for (const ConfigMember& axis : node->members)
      if (const KeySpec* const named = find_key(axis.key))
        check_builtin(*named, axis.value, config.builtin_root, diagnostics);
  }
  const ConfigNode* name = loaded.tree.find("name");
  config.name = name && name->kind == NodeKind::string ? name->text : name_of_file(loaded.file);
  if (!name || !name->unreadable) check_name(loaded, diagnostics);
  return unsound;
}

ExpressionValue value_of(const ConfigJson& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return json.get<double>();
  return bare_text(json);
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
    try {
      const ExpressionValue result = value.expression.evaluate(names);
      if (const bool* truth = std::get_if<bool>(&result))
        node = ConfigNode::make_boolean(*truth, value.origin);
      else if (const double* number = std::get_if<double>(&result))
        node = ConfigNode::make_number(*number, value.origin);
      else
        node = ConfigNode::make_string(std::get<std::string>(result), value.origin);
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

/// As a resolved configuration does, of which not every key has an effect.
bool names_every_key(const LoadedConfig& loaded) {
  const std::vector<KeySpec>& keys = config_keys();
  return std::all_of(keys.begin(), keys.end(),
                     [&](const KeySpec& key) { return !key.assign || loaded.written(key.path); });
}

/// Makes each key unsound that is computed from an unsound one.
void spread_doubt(const LoadedConfig& loaded, UnsoundKeys& unsound) {
  const size_t before = unsound.size();
  for (const auto& [path, value] : loaded.deferred)
    for (const auto& [name, offset] : value.expression.names())
      if (const KeySpec* const key = find_key_or_alias(name); key && unsound.contains(key->path)) unsound.insert(path);
  if (unsound.size() > before) spread_doubt(loaded, unsound);
}

/// Sets the computed keys. One that cannot be computed becomes unsound.
void evaluate_sound(LoadedConfig& loaded, UnsoundKeys& unsound, Diagnostics& diagnostics) {
  spread_doubt(loaded, unsound);
  for (const auto& [path, value] : loaded.deferred) {
    if (unsound.contains(path)) continue;
    try {
      DeferredEvaluator(loaded, 1, loaded.config).evaluate(path);
    } catch (const ConfigError& error) {
      diagnostics.add(error.diagnostics());
      unsound.insert(path);
      spread_doubt(loaded, unsound);
    }
  }
}

}  // namespace

const ConfigNode* LoadedConfig::written(std::string_view path) const { return find_path(tree, path); }

const ConfigNode* LoadedConfig::written_axis(std::string_view path) const {
  const ConfigNode* const axes = written("sweep.axes");
  return axes ? axes->find(path) : nullptr;
}

bool LoadedConfig::is_fragment() const {
  return !written("name") && !written("sweep.axes") && !written("sweep.include");
}

Origin LoadedConfig::origin_of(std::string_view path) const {
  const ConfigNode* node = written(path);
  return node ? node->origin : tree.origin;
}

Origin LoadedConfig::written_last(const Origin& a, const Origin& b) const {
  const auto place = [&](const Origin& of) { return std::find(sources.begin(), sources.end(), of.source); };
  return place(a) < place(b) ? b : a;
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
  for (const auto& [path, value] : loaded.deferred) set_key(root, path, "=" + value.expression.text());
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
  loaded.config.builtin_root = overrides.builtin_root.empty() ? find_builtin_root(file) : overrides.builtin_root;
  FileReader reader(loaded, diagnostics);
  loaded.tree = reader.read(file, {});
  if (!reader.is_complete()) diagnostics.throw_if_any();
  if (!apply_overrides(loaded, overrides, diagnostics)) diagnostics.throw_if_any();
  loaded.variables = substitute_variables(loaded.tree, diagnostics);
  UnsoundKeys unsound = fill_config(loaded, diagnostics);
  evaluate_sound(loaded, unsound, diagnostics);
  derive_paths(loaded.config);
  check_values_together(loaded, unsound, diagnostics);
  const bool is_record = overrides.is_recorded || names_every_key(loaded);
  if (!is_record) check_void_keys(loaded, unsound, diagnostics);
  diagnostics.throw_if_any();
  loaded.is_as_written = !is_record && overrides.profile.empty() && overrides.axis.empty() && overrides.set.empty();
  loaded.hash = config_hash(config_to_json(loaded.config));
  return loaded;
}

}  // namespace paceline
