#include "experiments/config/vllm_flags.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "experiments/config/file/compact_json.h"
#include "experiments/config/file/parse.h"
#include "experiments/config/keys/schema.h"
#include "speculative/proposer_entry.h"

namespace paceline {

namespace {

struct Pair {
  std::string_view name, ours;
};

/// Flags, without "--", and our keys. A flag for a boolean key is a switch.
constexpr Pair kFlags[] = {{"model", "engine.target.path"},
                           {"model-path", "engine.target.path"},
                           {"dtype", "engine.target.dtype"},
                           {"load-format", "engine.target.load_format"},
                           {"tensor-parallel-size", "engine.parallel.tp"},
                           {"pipeline-parallel-size", "engine.parallel.pp"},
                           {"device", "engine.backend"},
                           {"gpu-memory-utilization", "engine.kv_cache.memory_fraction"},
                           {"block-size", "engine.kv_cache.block_size"},
                           {"swap-space", "engine.kv_cache.swap_space_gib"},
                           {"kv-cache-dtype", "engine.kv_cache.dtype"},
                           {"enable-prefix-caching", "engine.kv_cache.prefix_caching"},
                           {"max-model-len", "engine.scheduler.max_model_len"},
                           {"max-num-seqs", "engine.scheduler.max_num_seqs"},
                           {"max-num-batched-tokens", "engine.scheduler.max_num_batched_tokens"},
                           {"async-scheduling", "engine.scheduler.run_ahead"},
                           {"enforce-eager", "engine.cuda_graphs"},  // the other way round
                           {"seed", "sampling.seed"}};

/// Fields of --speculative-config and our keys; what has none by itself decides with others.
constexpr Pair kFields[] = {{"method", "speculation.proposer"},
                            {"model", "speculation.draft.path"},
                            {"num_speculative_tokens", "speculation.num_speculative_tokens"},
                            {"draft_tensor_parallel_size", "speculation.draft.tp"},
                            {"prompt_lookup_max", "speculation.ngram.max"},
                            {"prompt_lookup_min", "speculation.ngram.min"},
                            {"rejection_sample_method", "speculation.verifier.rule"},
                            {"draft_sample_method", "speculation.draft.sampling"},
                            {"suffix_decoding_max_tree_depth", "speculation.suffix.depth"},
                            {"suffix_decoding_max_cached_requests", "speculation.suffix.requests"},
                            {"suffix_decoding_max_spec_factor", "speculation.suffix.factor"},
                            {"suffix_decoding_min_token_prob", "speculation.suffix.min_prob"}};

/// Flags of older versions, and the fields that took their place.
constexpr Pair kOldFlags[] = {{"speculative-model", "model"},
                              {"num-speculative-tokens", "num_speculative_tokens"},
                              {"speculative-draft-tensor-parallel-size", "draft_tensor_parallel_size"},
                              {"spec-draft-tp", "draft_tensor_parallel_size"},
                              {"ngram-prompt-lookup-max", "prompt_lookup_max"},
                              {"ngram-prompt-lookup-min", "prompt_lookup_min"}};

constexpr Pair kShort[] = {{"tp", "tensor-parallel-size"},
                           {"pp", "pipeline-parallel-size"},
                           {"sc", "speculative-config"},
                           {"q", "quantization"},
                           {"O", "compilation-config"}};

std::string_view ours(std::span<const Pair> pairs, std::string_view name) {
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) { return pair.name == name; });
  return found == pairs.end() ? std::string_view() : found->ours;
}

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

ConfigNode boolean_node(bool value, const Origin& origin) {
  ConfigNode node;
  node.kind = NodeKind::boolean;
  node.boolean = value;
  node.origin = origin;
  return node;
}

bool is_false(const std::string& value) { return value == "False" || value == "false"; }

bool names_eagle3(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text.find("eagle3") != std::string::npos;
}

struct Assignment {
  std::string key;  // ours, or a field
  ConfigNode value;
};

class Importer {
 public:
  explicit Importer(const std::vector<std::string>& words) : words_(words) {}

  ImportedFlags run() {
    skip_program();
    while (next_ < words_.size()) read_flag();
    diagnostics_.throw_if_any();
    if (!fields_.empty()) resolve_speculation();
    for (const Assignment& field : fields_)
      note(fmt::format("speculative-config {} {}", field.key, field.value.describe()), "no key here");
    fill();
    return std::move(result_);
  }

 private:
  void note(const std::string& what, const std::string& why) { result_.notes.push_back(what + ": " + why); }

  /// `vllm serve MODEL`, `python3 -m vllm.entrypoints.openai.api_server`.
  void skip_program() {
    const auto is = [&](size_t i, std::string_view word) { return i < words_.size() && words_[i] == word; };
    if (words_.size() > 2 && words_[0].starts_with("python") && words_[1] == "-m") next_ = 3;
    if (!is(0, "vllm")) return;
    if (words_.size() > 1 && !is(1, "serve") && !words_[1].starts_with("-"))
      fail_at(origin_of("vllm", words_[1]),
              fmt::format("`vllm {}` is not read: give the server's command, `vllm serve MODEL …`", words_[1]));
    next_ = is(1, "serve") ? 2 : 1;
    if (next_ < words_.size() && !words_[next_].starts_with("-"))
      add(values_, {"engine.target.path", model_node("vllm serve", words_[next_++])});
  }

  /// A path stays; a hub's name becomes a folder below PACELINE_MODELS, and a note says so.
  ConfigNode model_node(const std::string& flag, const std::string& name) {
    const Origin at = origin_of(flag, name);
    if (name.empty() || std::string_view("/.$").find(name[0]) != std::string_view::npos || name.starts_with("builtin:"))
      return ConfigNode::make_string(name, at);
    const std::string folder = name.substr(name.rfind('/') + 1);
    note(name, "nothing is downloaded; put the checkpoint into $PACELINE_MODELS/" + folder);
    return ConfigNode::make_string(fmt::format("${{env:PACELINE_MODELS:-models}}/{}", folder), at);
  }

  /// What is said twice is a contradiction, unless both say the same.
  void add(std::vector<Assignment>& to, Assignment each) {
    for (const Assignment& other : to) {
      if (other.key != each.key) continue;
      if (other.value.describe() != each.value.describe())
        diagnostics_.add(each.value.origin,
                         fmt::format("this says {}, but {} said {} before: give one of the two", each.value.describe(),
                                     other.value.origin.source->name, other.value.describe()));
      return;
    }
    to.push_back(std::move(each));
  }

  bool is_value(size_t at) const {
    if (at >= words_.size()) return false;
    const std::string& word = words_[at];
    return !word.starts_with("-") || (word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1])));
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
    std::string field = dot == std::string::npos ? "" : name.substr(dot + 1);
    name.resize(std::min(dot, name.size()));
    std::replace(name.begin(), name.end(), '_', '-');
    std::replace(field.begin(), field.end(), '-', '_');
    if (const std::string_view whole = ours(kShort, name); !whole.empty()) name = whole;
    const bool off = name.starts_with("no-");
    const std::string_view key = ours(kFlags, off ? std::string_view(name).substr(3) : std::string_view(name));
    const KeySpec* const spec = field.empty() && !key.empty() ? find_key(key) : nullptr;
    if (spec && spec->type == KeyType::boolean) {
      const bool says = !off && !(value && is_false(*value));
      add(values_, {std::string(key), boolean_node(says != (name.ends_with("enforce-eager")), origin_of(word, word))});
      return;
    }
    const bool is_config = name == "speculative-config";
    const std::string_view old = ours(kOldFlags, name);
    const bool is_known = (spec && !off) || is_config || (!old.empty() && field.empty());
    if (!value && is_value(next_)) value = words_[next_++];
    if (!is_known) {
      if (name == "quantization" && value && *value != "None" && *value != "fp8" && *value != "bitsandbytes")
        is_quantised_ = true;
      note(word + (value ? " " + *value : ""), "no key here");
    } else if (!value) {
      diagnostics_.add(origin_of(word, word), "expected a value behind this flag");
    } else if (spec) {
      add_key(*spec, word, *value);
    } else if (!old.empty()) {
      is_old_ = true;
      add(fields_, {std::string(old), value_node(word, *value)});
    } else if (!field.empty()) {
      add(fields_, {field, value_node(word, *value)});
    } else {
      add_config(word, *value);
    }
  }

  void add_key(const KeySpec& key, const std::string& word, const std::string& text) {
    if (key.path == "engine.target.path") return add(values_, {key.path, model_node(word, text)});
    const std::string our = our_word(key.path, text);
    const bool is_quantised_kv = key.path == "engine.kv_cache.dtype" && our.starts_with("fp8");
    if (is_quantised_kv) return note(word + " " + text, "no quantised KV cache here");
    ConfigNode node = value_node(word, our);
    if (convert_value(key, node, diagnostics_)) add(values_, {key.path, std::move(node)});
    if (key.path == "engine.kv_cache.memory_fraction")
      note(word, "there it is a share of the whole GPU with weights, here of what weights and workspace leave free");
  }

  /// --speculative-config '{...}'
  void add_config(const std::string& word, const std::string& text) {
    const auto source = flag_source(word, text);
    const ConfigNode config = parse_jsonc(source, diagnostics_);
    if (config.kind != NodeKind::object) {
      diagnostics_.add({source, 1, 1},
                       fmt::format("expected an object like {{\"method\": \"ngram\", \"num_speculative_tokens\": 5}}, "
                                   "found {}",
                                   config.describe()));
      return;
    }
    for (const ConfigMember& member : config.members) add(fields_, {member.key, member.value});
  }

  /// Takes the field, so that what stays in fields_ has no key.
  std::optional<ConfigNode> take(std::string_view name) {
    const auto found = std::find_if(fields_.begin(), fields_.end(), [&](const Assignment& f) { return f.key == name; });
    if (found == fields_.end()) return std::nullopt;
    const ConfigNode value = found->value;
    fields_.erase(found);
    return value.kind == NodeKind::null ? std::nullopt : std::optional(value);
  }
  void set(const std::string& key, const std::string& text, const Origin& at) {
    values_.push_back({key, ConfigNode::make_string(text, at)});
  }
  bool take_as(std::string_view field) {
    const std::optional<ConfigNode> value = take(field);
    if (value) values_.push_back({std::string(ours(kFields, field)), *value});
    return value.has_value();
  }

  void resolve_speculation() {
    const Origin at = fields_.front().value.origin;
    const std::optional<ConfigNode> method = take("method"), model = take("model");
    if (!method && !model) fail_at(at, "neither a method nor a model is named: who drafts?");
    const bool is_lookup =
        (method && method->text == "ngram") || (model && (model->text == "ngram" || model->text == "[ngram]"));
    const std::string name = is_lookup                   ? "ngram"
                             : method                    ? method->text == "draft_model" ? "draft" : method->text
                             : names_eagle3(model->text) ? "eagle3"
                                                         : "draft";
    const bool has_model = name == "draft" || name == "eagle3";
    if (!has_model && name != "ngram" && name != "suffix")
      return note("method " + name, fmt::format("no key here; the proposers are {}",
                                                fmt::join(proposer_names(ProposerNames::drafting), ", ")));
    set("speculation.proposer", name, at);
    if (has_model && !model) fail_at(at, fmt::format("the method {} needs a model", method->text));
    if (has_model)
      values_.push_back({"speculation." + name + ".path", model_node(model->origin.source->name, model->text)});
    else if (model && !is_lookup)
      note("model " + model->text, name + " drafts without one");
    if (!take_as("num_speculative_tokens")) {
      if (name != "suffix")
        fail_at(at, name + " needs num_speculative_tokens: how many tokens are drafted in one step");
      values_.push_back({"speculation.num_speculative_tokens", value_node("num_speculative_tokens", "24")});
      note("suffix", "vLLM drafts as many tokens as the tree is deep, 24, unless told");
    }
    if (name == "ngram") resolve_ngram(at);
    if (name == "draft") resolve_draft(at);
    if (name == "suffix") resolve_suffix();
    if (const std::optional<ConfigNode> rule = take("rejection_sample_method"); rule && rule->text != "standard") {
      if (rule->text == "block")
        values_.push_back({"speculation.verifier.rule", *rule});
      else
        note("rejection_sample_method " + rule->text, "no key here; speculation.synthetic states acceptance");
    }
  }

  /// The old flags asked for a maximum and took 1 as the minimum; the new fields take one for the other, else 5.
  void resolve_ngram(const Origin& at) {
    const std::optional<ConfigNode> longest = take("prompt_lookup_max"), shortest = take("prompt_lookup_min");
    const ConfigNode fallback = value_node("prompt_lookup_max", "5"), one = value_node("prompt_lookup_min", "1");
    if (!longest && !shortest) note("ngram", "vLLM takes 5 where neither prompt_lookup_min nor _max is given");
    const ConfigNode most = longest.value_or(shortest.value_or(fallback));
    values_.push_back({"speculation.ngram.min", shortest.value_or(is_old_ ? one : most)});
    values_.push_back({"speculation.ngram.max", most});
    set("speculation.ngram.match", "first", at);
    note("speculation.ngram.match", "vLLM continues the first match; \"last\" is the default here");
  }

  void resolve_draft(const Origin& at) {
    const std::optional<ConfigNode> ranks = take("draft_tensor_parallel_size"), how = take("draft_sample_method");
    const auto tp = std::find_if(values_.begin(), values_.end(), [](auto& v) { return v.key == "engine.parallel.tp"; });
    const int64_t num_ranks = tp == values_.end() ? 1 : tp->value.integer;
    if (ranks && (ranks->kind != NodeKind::integer || (ranks->integer != 1 && ranks->integer != num_ranks)))
      fail_at(ranks->origin,
              fmt::format("draft_tensor_parallel_size {}: expected 1 or the target's tensor-parallel size, {}",
                          ranks->describe(), num_ranks));
    if (ranks && ranks->integer == 1)
      values_.push_back({"speculation.draft.tp", *ranks});
    else
      set("speculation.draft.tp", "target", at);
    set("speculation.draft.sampling", how && how->text == "probabilistic" ? "own" : "argmax", at);
    if (!how)
      note("speculation.draft.sampling", "vLLM drafts the most likely tokens unless told; \"own\" is the default here");
  }

  void resolve_suffix() {
    for (const char* const field :
         {"suffix_decoding_max_tree_depth", "suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob"})
      take_as(field);
    const std::optional<ConfigNode> requests = take("suffix_decoding_max_cached_requests");
    if (requests && requests->integer == 0)
      set("speculation.suffix.store", "request", requests->origin);
    else if (requests)
      values_.push_back({"speculation.suffix.requests", *requests});
  }

  /// Checks every value against its key and all of them together, then nests them.
  void fill() {
    // A checkpoint that is read quantised cannot be read here: an experiment on it would only fail.
    if (is_quantised_ && std::erase_if(values_, [](const Assignment& v) { return v.key == "engine.target.path"; }))
      note("engine.target.path", "left out, as it is quantised; name its original with 16- or 32-bit weights");
    ExperimentConfig config;
    std::vector<const KeySpec*> order;
    for (const KeySpec& key : config_keys()) {
      for (const Assignment& each : values_) {
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
    for (const Assignment& each : values_) {
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
  std::vector<Assignment> values_, fields_;
  Diagnostics diagnostics_;
  bool is_quantised_ = false, is_old_ = false;
  ImportedFlags result_;
};

}  // namespace

std::string hint_for_vllm_name(std::string_view name, std::string_view section) {
  std::string folded(name);
  std::replace(folded.begin(), folded.end(), '-', '_');
  const bool in_speculation = section == "speculation" || section.starts_with("speculation.");
  std::string_view key = in_speculation ? ours(kFields, folded) : "";
  std::replace(folded.begin(), folded.end(), '_', '-');
  if (key.empty()) key = ours(kFlags, folded);
  if (key.empty()) key = ours(kFields, ours(kOldFlags, folded));
  if (key.empty() && folded == "speculative-config") key = "speculation";
  return key.empty() ? "" : fmt::format(" (vLLM's name; here: \"{}\")", key);
}

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
