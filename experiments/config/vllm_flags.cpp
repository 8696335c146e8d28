#include "experiments/config/vllm_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/util/suggest.h"
#include "experiments/config/compact_json.h"
#include "experiments/config/jsonc.h"
#include "experiments/config/schema.h"
#include "experiments/config/vllm_speculation.h"

namespace paceline {

namespace {

std::shared_ptr<const SourceText> flag_source(const std::string& flag, const std::string& text) {
  auto source = std::make_shared<SourceText>();
  source->name = flag;
  source->text = text;
  source->is_argument = true;
  return source;
}

Origin origin_of(const std::string& flag, const std::string& text) { return {flag_source(flag, text), 1, 1}; }

/// "8k" is 8000 and "8K" 8192, as vLLM reads lengths; nothing for other texts.
std::optional<int64_t> scaled_integer(const std::string& text) {
  constexpr std::pair<char, int64_t> kScales[] = {{'k', 1000},    {'K', 1 << 10},       {'m', 1'000'000},
                                                  {'M', 1 << 20}, {'g', 1'000'000'000}, {'G', 1 << 30}};
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr + 1 != text.data() + text.size()) return std::nullopt;
  for (const auto& [letter, scale] : kScales) {
    const double product = value * static_cast<double>(scale);
    if (letter == *parsed.ptr && std::abs(product) < 9e15 && product == std::floor(product)) {
      return static_cast<int64_t>(product);
    }
  }
  return std::nullopt;
}

/// A number where the text is one, else the text.
ConfigNode value_node(const std::string& flag, const std::string& text) {
  const Origin origin = origin_of(flag, text);
  ConfigNode node = ConfigNode::make_string(text, origin);
  Diagnostics ignored;
  const ConfigNode parsed = parse_jsonc(origin.source, ignored);
  if (ignored.empty() && (parsed.kind == NodeKind::integer || parsed.kind == NodeKind::number)) {
    node = parsed;
  } else if (const std::optional<int64_t> integer = scaled_integer(text)) {
    node.kind = NodeKind::integer;
    node.integer = *integer;
    node.number = static_cast<double>(*integer);
  }
  node.origin = origin;
  return node;
}

/// vLLM's word for a value of `key` as ours.
std::string our_word(std::string_view key, const std::string& word) {
  if (key.ends_with(".dtype")) return word == "half" ? "float16" : word == "float" ? "float32" : word;
  if (key == "engine.target.load_format" && word == "auto") return "safetensors";
  if (key == "engine.scheduler.max_model_len" && word == "-1") return "auto";
  return word;
}

/// Why a value that vLLM has is missing here; empty: it is not known to be vLLM's.
std::string_view reason_of_value(std::string_view key, std::string_view word) {
  if (key == "engine.kv_cache.dtype" && word.starts_with("fp8")) return "no quantised KV cache here";
  constexpr std::string_view kFormats[] = {"pt", "npcache", "bitsandbytes", "gguf", "tensorizer", "sharded_state"};
  if (key == "engine.target.load_format" &&
      std::find(std::begin(kFormats), std::end(kFormats), word) != std::end(kFormats))
    return "weights are read from safetensors";
  return "";
}

class Importer {
 public:
  explicit Importer(const std::vector<std::string>& words) : words_(words) {}

  ImportedFlags run() {
    skip_program();
    while (next_ < words_.size()) read_flag();
    diagnostics_.throw_if_any();
    const auto tp = std::find_if(values_.begin(), values_.end(), [](auto& v) { return v.key == "engine.parallel.tp"; });
    const int64_t num_shards = tp == values_.end() ? 1 : tp->value.integer;
    for (VllmSpeculation::Assignment& each : speculation_.resolve(num_shards, result_.notes)) {
      values_.push_back(std::move(each));
    }
    leave_out_quantised_path();
    fill();
    return std::move(result_);
  }

  /// A checkpoint that was named to be read quantised cannot be read here: an experiment on it would only fail.
  void leave_out_quantised_path() {
    const auto is_path = [](const VllmSpeculation::Assignment& each) { return each.key == "engine.target.path"; };
    const auto path = std::find_if(values_.begin(), values_.end(), is_path);
    if (!saw_quantization_ || path == values_.end()) return;
    result_.notes.push_back(
        fmt::format("engine.target.path: left out: {} is quantised; write the path of its original "
                    "with 16- or 32-bit weights",
                    path->value.text));
    values_.erase(path);
  }

 private:
  /// `vllm serve MODEL`, `python3 -m vllm.entrypoints.openai.api_server`.
  void skip_program() {
    const auto is = [&](size_t i, std::string_view word) { return i < words_.size() && words_[i] == word; };
    if (is(0, "vllm")) {
      constexpr std::string_view kOtherCommands[] = {"bench", "chat", "complete", "run-batch", "collect-env"};
      if (words_.size() > 1 &&
          std::find(std::begin(kOtherCommands), std::end(kOtherCommands), words_[1]) != std::end(kOtherCommands))
        fail_at(origin_of("vllm", words_[1]),
                fmt::format("`vllm {}` is not read: give the server's command, `vllm serve MODEL …`; the load of a "
                            "benchmark is load.mode, load.rate_per_s and workload.requests here",
                            words_[1]));
      next_ = is(1, "serve") ? 2 : 1;
      if (next_ < words_.size() && !words_[next_].starts_with("-")) add_model("vllm serve", words_[next_++]);
    } else if (words_.size() > 2 && words_[0].starts_with("python") && words_[1] == "-m") {
      next_ = 3;
    }
  }

  void add_model(const std::string& flag, const std::string& name) {
    add_value("engine.target.path",
              ConfigNode::make_string(local_model_path(name, result_.notes), origin_of(flag, name)));
  }

  /// A key that is set twice is a contradiction, unless both say the same.
  void add_value(std::string_view key, ConfigNode value) {
    for (const VllmSpeculation::Assignment& each : values_) {
      if (each.key != key || each.value.describe() == value.describe()) continue;
      diagnostics_.add(value.origin,
                       fmt::format("this says {}, but {} said {} before: give one of the two", value.describe(),
                                   each.value.origin.source->name, each.value.describe()));
      return;
    }
    values_.push_back({std::string(key), std::move(value)});
  }

  void read_flag() {
    std::string word = words_[next_++];
    if (!word.starts_with("-") || word.size() < 2) {
      diagnostics_.add(origin_of("import-flags", word), fmt::format("expected a flag, found \"{}\"", word));
      return;
    }
    std::optional<std::string> value;
    if (const size_t equals = word.find('='); equals != std::string::npos) {
      value = word.substr(equals + 1);
      word.resize(equals);
    }
    std::string name = word.substr(word.starts_with("--") ? 2 : 1);
    const size_t dot = name.find('.');
    const std::string field = dot == std::string::npos ? "" : name.substr(dot + 1);
    name.resize(std::min(dot, name.size()));
    std::replace(name.begin(), name.end(), '_', '-');
    if (name == "sc") name = "speculative-config";
    if (word == "-tp") name = "tensor-parallel-size";
    if (word == "-pp") name = "pipeline-parallel-size";
    if (word == "-q") name = "quantization";
    if (word == "-O") name = "compilation-config";
    if (word == "-spec-draft-tp" || name == "spec-draft-tp") name = "speculative-draft-tensor-parallel-size";
    const bool off = name.starts_with("no-");
    const VllmFlag* flag = find(off ? std::string_view(name).substr(3) : std::string_view(name));
    const bool takes_fields = flag && (flag->kind == VllmFlagKind::config || flag->kind == VllmFlagKind::dropped);
    if (!flag || (!field.empty() && !takes_fields)) {
      unknown(word, name, value);
    } else if (!field.empty() && flag->kind == VllmFlagKind::config) {
      add_speculative_field(word, field, value);
    } else {
      known(*flag, word, off, value);
    }
  }

  /// The value of a flag that takes one: behind its "=", else the next word. Nothing, with a complaint, without.
  std::optional<std::string> value_of(const std::string& word, const std::optional<std::string>& value) {
    if (value) return value;
    if (next_ < words_.size() && !(words_[next_].starts_with("--") && words_[next_].size() > 2)) return words_[next_++];
    diagnostics_.add(origin_of(word, word), "expected a value behind this flag");
    return std::nullopt;
  }

  /// --speculative-config.num_speculative_tokens 4
  void add_speculative_field(const std::string& word, std::string field, const std::optional<std::string>& value) {
    const std::optional<std::string> text = value_of(word, value);
    if (!text) return;
    std::replace(field.begin(), field.end(), '-', '_');
    speculation_.add_field({field, origin_of(word, word), value_node(word, *text)}, diagnostics_);
  }

  static const VllmFlag* find(std::string_view name) {
    for (const VllmFlag& flag : vllm_flags()) {
      if (flag.name == name) return &flag;
    }
    return nullptr;
  }

  /// A flag of SGLang: read where it is the model, else left out as any that is not known; nothing for other names.
  bool of_sglang(const std::string& word, const std::string& name, const std::optional<std::string>& value) {
    constexpr std::string_view kModel = "model-path";
    constexpr std::string_view kOthers[] = {"speculative-algorithm",
                                            "speculative-draft-model-path",
                                            "speculative-num-draft-tokens",
                                            "speculative-num-steps",
                                            "speculative-eagle-topk",
                                            "mem-fraction-static",
                                            "context-length",
                                            "tp-size",
                                            "pp-size",
                                            "max-running-requests",
                                            "chunked-prefill-size",
                                            "attention-backend",
                                            "disable-radix-cache"};
    const bool is_model = name == kModel;
    if (!is_model && std::find(std::begin(kOthers), std::end(kOthers), name) == std::end(kOthers)) return false;
    if (!saw_sglang_) result_.notes.push_back("these look like SGLang's flags: vLLM's are read here, and --model-path");
    saw_sglang_ = true;
    std::optional<std::string> text = value;
    if (!text && next_ < words_.size() && !words_[next_].starts_with("-")) text = words_[next_++];
    if (!is_model) {
      result_.notes.push_back(fmt::format("{}: left out: a flag of SGLang", word));
    } else if (!text) {
      diagnostics_.add(origin_of(word, word), "expected a value behind this flag");
    } else {
      add_model(word, *text);
    }
    return true;
  }

  void unknown(const std::string& word, const std::string& name, std::optional<std::string> value) {
    if (of_sglang(word, name, value)) return;
    constexpr std::string_view kModelNames[] = {"model-name", "model-id", "model-dir", "model-name-or-path",
                                                "hf-model"};
    if (std::find(std::begin(kModelNames), std::end(kModelNames), name) != std::end(kModelNames)) {
      diagnostics_.add(origin_of(word, name), "unknown flag (did you mean \"--model\"?)");
      if (!value && next_ < words_.size() && !words_[next_].starts_with("-")) ++next_;
      return;
    }
    for (const VllmFlag& flag : vllm_flags()) {
      if (edit_distance(name, flag.name) > 2 || name.size() < 5) continue;
      diagnostics_.add(origin_of(word, name), fmt::format("unknown flag (did you mean \"--{}\"?)", flag.name));
      if (!value && next_ < words_.size() && !words_[next_].starts_with("-")) ++next_;
      return;
    }
    if (!value && next_ < words_.size() && !words_[next_].starts_with("-")) ++next_;
    result_.notes.push_back(fmt::format("{}: left out: not known here", word));
  }

  void known(const VllmFlag& flag, const std::string& word, bool off, std::optional<std::string> value) {
    const bool is_switch = flag.kind == VllmFlagKind::enabled || flag.kind == VllmFlagKind::dropped_switch;
    if (off && !is_switch) {
      diagnostics_.add(origin_of(word, word), fmt::format("--{} takes a value and has no \"--no-\"", flag.name));
      return;
    }
    if (!is_switch && !(value = value_of(word, value))) return;
    switch (flag.kind) {
      case VllmFlagKind::value: add_key(flag, word, *value); break;
      case VllmFlagKind::model: add_model(word, *value); break;
      case VllmFlagKind::enabled: {
        ConfigNode node;
        node.kind = NodeKind::boolean;
        node.boolean = !off && !is_false(value);
        node.origin = origin_of(word, word);
        add_value(flag.target, std::move(node));
        break;
      }
      case VllmFlagKind::speculation: speculation_.add_flag(flag.target, value_node(word, *value)); break;
      case VllmFlagKind::config: {
        const auto source = flag_source(word, *value);
        speculation_.add_config(parse_jsonc(source, diagnostics_), {source, 1, 1}, diagnostics_);
        break;
      }
      case VllmFlagKind::dropped:
      case VllmFlagKind::dropped_switch: drop(flag, word, off || is_false(value)); break;
    }
    // fp8 and bitsandbytes also quantise a plain checkpoint while it is read.
    if (flag.name == "quantization" && value && *value != "None" && *value != "fp8" && *value != "bitsandbytes")
      saw_quantization_ = true;
    if (flag.is_old) add_old_note(flag);
  }

  static bool is_false(const std::optional<std::string>& value) {
    return value && (*value == "False" || *value == "false");
  }

  void add_key(const VllmFlag& flag, const std::string& word, const std::string& text) {
    const std::string ours = our_word(flag.target, text);
    if (const std::string_view reason = reason_of_value(flag.target, ours); !reason.empty()) {
      result_.notes.push_back(fmt::format("{} {}: left out: {}", word, text, reason));
      return;
    }
    ConfigNode node = value_node(word, ours);
    const KeySpec& key = *find_key(flag.target);
    if (convert_value(key, node, diagnostics_)) add_value(flag.target, std::move(node));
    if (!flag.note.empty()) result_.notes.push_back(fmt::format("{}: {}", word, flag.note));
  }

  void drop(const VllmFlag& flag, const std::string& word, bool off) {
    if (flag.name == "enforce-eager") {
      ConfigNode node;
      node.kind = NodeKind::boolean;
      node.boolean = off;
      node.origin = origin_of(word, word);
      add_value(flag.target, std::move(node));
      return;
    }
    result_.notes.push_back(fmt::format("{}: left out: {}", word, flag.note));
  }

  void add_old_note(const VllmFlag& flag) {
    const bool speculative = flag.kind == VllmFlagKind::speculation;
    result_.notes.push_back(speculative ? fmt::format("--{}: an old spelling; vLLM now has --speculative-config "
                                                      "'{{\"{}\": ...}}'",
                                                      flag.name, flag.target)
                                        : fmt::format("--{}: an old flag, which newer vLLM does not take", flag.name));
  }

  /// Checks every value against its key and all of them together, then nests them.
  void fill() {
    ExperimentConfig config;
    std::vector<const KeySpec*> order;
    for (const KeySpec& key : config_keys()) {
      for (const VllmSpeculation::Assignment& each : values_) {
        if (each.key != key.path || std::find(order.begin(), order.end(), &key) != order.end()) continue;
        std::optional<ConfigJson> value = convert_value(key, each.value, diagnostics_);
        if (!value) continue;
        key.assign(config, *value);
        if (key.type == KeyType::path) value = each.value.text;  // as written: the file may move
        put(key.path, std::move(*value));
        order.push_back(&key);
      }
    }
    diagnostics_.throw_if_any();
    const std::optional<ConfigConflict> conflict = find_conflict(config);
    if (!conflict) return;
    for (const VllmSpeculation::Assignment& each : values_) {
      if (each.key == conflict->key) fail_at(each.value.origin, conflict->message);
    }
    fail(ExitCode::usage, "import-flags: {}", conflict->message);
  }

  void put(std::string_view path, ConfigJson value) {
    ConfigJson* at = &result_.config;
    for (size_t dot; (dot = path.find('.')) != std::string_view::npos; path.remove_prefix(dot + 1)) {
      at = &(*at)[std::string(path.substr(0, dot))];
    }
    (*at)[std::string(path)] = std::move(value);
  }

  const std::vector<std::string>& words_;
  size_t next_ = 0;
  std::vector<VllmSpeculation::Assignment> values_;
  VllmSpeculation speculation_;
  Diagnostics diagnostics_;
  bool saw_sglang_ = false, saw_quantization_ = false;
  ImportedFlags result_;
};

}  // namespace

ImportedFlags import_vllm_flags(const std::vector<std::string>& words) { return Importer(words).run(); }

std::string imported_text(const ImportedFlags& imported) {
  std::string text = "// Made from vLLM's flags by `runexp import-flags`. Save it in configs/.\n";
  const ConfigJson* const speculation =
      imported.config.contains("speculation") ? &imported.config["speculation"] : nullptr;
  if (speculation && speculation->contains("proposer")) {
    text += fmt::format("// Set beside plain decoding: runexp run FILE --axis proposer=none,{}\n",
                        (*speculation)["proposer"].get<std::string>());
  }
  const ConfigJson::json_pointer model("/engine/target/path");
  if (!imported.config.contains(model)) text += "// No model was given: the built-in one runs.\n";
  for (const std::string& note : imported.notes) text += fmt::format("// - {}\n", note);
  ConfigJson file = {{"$schema", "experiment.schema.json"},
                     {"extends", {"base/defaults.json", "workloads/reading_qa.json"}},
                     {"name", "imported"}};
  file.update(imported.config);
  std::string body;
  for (const auto& [name, value] : file.items()) {
    body += fmt::format("{}  {}: ", body.empty() ? "" : ",\n", ConfigJson(name).dump());
    const std::string printed = compact_json(value);
    for (const char c : printed) body += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  return fmt::format("{}{{\n{},\n}}\n", text, body);
}

std::vector<std::string> split_shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;  // a word has begun, an empty one too
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\'' ? c == '\'' : quote == '"' && c == '"') {
      quote = '\0';
    } else if (quote == '\'') {
      word += c;
    } else if (c == '\\' && i + 1 < text.size() && (quote == '\0' || text[i + 1] == '"' || text[i + 1] == '\\')) {
      if (text[++i] != '\n') word += text[i];
      open = open || text[i] != '\n';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
      open = true;
    } else if (quote == '\0' && (c == ' ' || c == '\t' || c == '\n')) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (quote) fail(ExitCode::usage, "import-flags: a {} in the flags is never closed", quote);
  if (open) words.push_back(std::move(word));
  return words;
}

}  // namespace paceline
