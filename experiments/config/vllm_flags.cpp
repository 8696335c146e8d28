#include "experiments/config/vllm_flags.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "engine/util/suggest.h"
#include "experiments/config/file/tree.h"
#include "experiments/config/keys/schema.h"
#include "experiments/config/view.h"
#include "speculative/proposer_entry.h"

namespace paceline {

namespace {

struct Name {
  std::string_view theirs, key;
};

/// Counts the token behind which a step drafts, too.
constexpr std::string_view kSglangDrafts = "speculative-num-draft-tokens";

/// Flags, without their dashes, and our keys. A flag for a boolean key is a switch.
constexpr Name kFlags[] = {{"model", "engine.target.path"},
                           {"model-path", "engine.target.path"},
                           {"dtype", "engine.target.dtype"},
                           {"load-format", "engine.target.load_format"},
                           {"tensor-parallel-size", "engine.parallel.tp"},
                           {"tp", "engine.parallel.tp"},
                           {"pipeline-parallel-size", "engine.parallel.pp"},
                           {"pp", "engine.parallel.pp"},
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
                           {"seed", "sampling.seed"},
                           // of older versions
                           {"speculative-model", "speculation.draft.path"},
                           {"num-speculative-tokens", "speculation.num_speculative_tokens"},
                           {"speculative-draft-tensor-parallel-size", "speculation.draft.tp"},
                           {"spec-draft-tp", "speculation.draft.tp"},
                           {"ngram-prompt-lookup-max", "speculation.ngram.max"},
                           {"ngram-prompt-lookup-min", "speculation.ngram.min"},
                           // of SGLang; what its steps and drafts are is seen once the method is known
                           {"speculative-algorithm", "speculation.proposer"},
                           {"speculative-draft-model-path", "speculation.draft.path"},
                           {"speculative-draft-model", "speculation.draft.path"},
                           {"speculative-eagle-topk", "speculation.eagle3.width"},
                           {"speculative-num-steps", "speculation.eagle3.depth"},
                           {kSglangDrafts, "speculation.num_speculative_tokens"}};

/// Fields of --speculative-config and our keys.
constexpr Name kFields[] = {{"method", "speculation.proposer"},
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

/// Words for values of keys that end in `key`, and ours; where there is none of ours, all words that begin so.
struct Word {
  std::string_view key, theirs, ours;
};
constexpr Word kWords[] = {{".dtype", "half", "float16"},
                           {".dtype", "float", "float32"},
                           {"kv_cache.dtype", "fp8", ""},
                           {"target.load_format", "auto", "safetensors"},
                           {"scheduler.max_model_len", "-1", "auto"},
                           {"speculation.proposer", "draft_model", "draft"},
                           {"speculation.proposer", "EAGLE3", "eagle3"},
                           {"speculation.proposer", "STANDALONE", "draft"},
                           {"speculation.proposer", "NGRAM", "ngram"},
                           {"draft.sampling", "greedy", "argmax"},
                           {"draft.sampling", "probabilistic", "own"},
                           {"verifier.rule", "standard", "auto"},
                           {"verifier.rule", "synthetic", ""}};

/// Our key for a name of vLLM's; "" for others.
std::string_view key_for(std::span<const Name> names, std::string_view theirs) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const Name& name) { return name.theirs == theirs; });
  return found == names.end() ? std::string_view() : found->key;
}

Origin flag_origin(const std::string& flag, const std::string& text) {
  auto source = std::make_shared<SourceText>();
  source->name = flag;
  source->text = text;
  source->is_argument = true;
  return {std::move(source), 1, 1};
}

/// A number where the key is one and the text, too: "8k" is 8000 and "8K" 8192, as vLLM reads lengths. Else the text.
ConfigNode flag_value(const KeySpec& key, const std::string& text, const Origin& at) {
  if (key.type != KeyType::integer && key.type != KeyType::number) return ConfigNode::make_string(text, at);
  Diagnostics ignored;
  ConfigNode node = parse_jsonc(at.source, ignored);
  if (ignored.empty()) return node;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const size_t scale = text.empty() ? std::string::npos : std::string_view("kmgKMG").find(text.back());
  if (error != std::errc() || end + 1 != text.data() + text.size() || scale == std::string::npos)
    return ConfigNode::make_string(text, at);
  return ConfigNode::make_number(value * std::pow(scale < 3 ? 1000 : 1024, scale % 3 + 1), at);
}

bool names_eagle3(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text.find("eagle3") != std::string::npos;
}

/// What a flag says about a key.
struct Said {
  std::string flag;  // as typed; "" for what vLLM takes where nothing is said
  ConfigNode value;
  bool counts_root = false;  // kSglangDrafts
};

class Importer {
 public:
  explicit Importer(const std::vector<std::string>& words) : words_(words) {}

  ImportedFlags run() {
    skip_program();
    while (next_ < words_.size()) read_flag();
    diagnostics_.throw_if_any();
    resolve_speculation();
    fill();
    return std::move(result_);
  }

 private:
  void note(const std::string& what, const std::string& why) { result_.notes.push_back(what + ": " + why); }
  void note_unsupported(const std::string& what, const std::string& hint = "", const std::string& more = "") {
    note(what, "no key here" + hint + more);
    result_.unsupported.push_back({what, hint});
  }

  /// `vllm serve MODEL`, `python3 -m vllm.entrypoints.openai.api_server`.
  void skip_program() {
    const auto is = [&](size_t i, std::string_view word) { return i < words_.size() && words_[i] == word; };
    if (is(1, "-m") && words_[0].starts_with("python")) next_ = 3;
    if (!is(0, "vllm")) return;
    if (!is(1, "serve")) fail_at(flag_origin("vllm", "vllm"), "expected the server's command, `vllm serve MODEL ...`");
    next_ = 2;
    if (is_value(next_)) say("vllm serve", "engine.target.path", words_[next_++]);
  }

  bool is_value(size_t at) const {
    if (at >= words_.size()) return false;
    const std::string& word = words_[at];
    return !word.starts_with("-") || (word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1])));
  }

  void read_flag() {
    std::string flag = words_[next_++];
    if (!flag.starts_with("-") || flag.size() < 2)
      return diagnostics_.add(flag_origin("server flags", flag), fmt::format("expected a flag, found \"{}\"", flag));
    std::optional<std::string> value;
    if (const size_t equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    }
    std::string name = flag.substr(flag.starts_with("--") ? 2 : 1);
    std::replace(name.begin(), name.end(), '_', '-');
    const bool is_off = name.starts_with("no-");
    const size_t dot = name.find('.');
    const bool is_config = name.substr(0, dot) == "speculative-config" || name.substr(0, dot) == "sc";
    const bool is_whole_config = is_config && dot == std::string::npos;
    std::string_view path = key_for(kFlags, std::string_view(name).substr(is_off ? 3 : 0));
    if (is_config && !is_whole_config) path = key_of_field(name.substr(dot + 1));
    const KeySpec* const key = find_key(path);
    if (key && key->type == KeyType::boolean) {
      const bool says = !is_off && value != "False" && value != "false";
      said_[key->path] = {flag,
                          ConfigNode::make_boolean(says != name.ends_with("enforce-eager"), flag_origin(flag, flag))};
      return;
    }
    if (!value && is_value(next_)) value = words_[next_++];
    const bool is_known = is_whole_config || (key && !is_off);
    if (!is_known)
      note_unsupported(flag + (value ? " " + *value : ""), did_you_mean(flag, vllm_flag_names()));
    else if (!value)
      diagnostics_.add(flag_origin(flag, flag), "expected a value behind this flag");
    else if (is_whole_config)
      read_config(flag, *value);
    else
      say(flag, path, flag_value(*key, *value, flag_origin(flag, *value)), name == kSglangDrafts);
  }

  static std::string_view key_of_field(std::string field) {
    std::replace(field.begin(), field.end(), '-', '_');
    return key_for(kFields, field);
  }

  static std::string hint_for_field(const std::string& field) {
    std::vector<std::string> names;
    for (const Name& each : kFields) names.emplace_back(each.theirs);
    return did_you_mean(field, names);
  }
  /// EAGLE-1 and -2 are methods of others, and no typo of EAGLE-3.
  static std::string hint_for_method(const std::string& method, const std::vector<std::string>& methods) {
    return method == "eagle" || method == "EAGLE" ? "" : did_you_mean(method, methods);
  }
  /// Where a field looks like num_speculative_tokens.
  std::string misspelt_count() const {
    constexpr const char* kCount = "num_speculative_tokens";
    for (const UnsupportedFlag& each : result_.unsupported)
      if (each.hint.find(kCount) != std::string::npos)
        return fmt::format("; found \"{}\"{}", each.text.substr(0, each.text.find(' ')), each.hint);
    return "";
  }

  /// --speculative-config '{...}'
  void read_config(const std::string& flag, const std::string& text) {
    const Origin at = flag_origin(flag, text);
    Diagnostics of_text;
    const ConfigNode config = parse_jsonc(at.source, of_text);
    if (!of_text.empty()) return diagnostics_.add(of_text.list());
    if (config.kind != NodeKind::object)
      return diagnostics_.add(
          at, fmt::format("expected an object like {{\"method\": \"ngram\", \"num_speculative_tokens\": 5}}, found {}",
                          config.describe()));
    for (const ConfigMember& member : config.members) {
      const std::string field = fmt::format("{}.{}", flag, member.key);
      if (const std::string_view key = key_of_field(member.key); !key.empty())
        say(field, key, member.value);
      else
        note_unsupported(fmt::format("{} {}", field, member.value.describe()), hint_for_field(member.key));
    }
  }

  /// Of what is said twice the last counts, as in vLLM.
  void say(const std::string& flag, std::string_view key, ConfigNode value, bool counts_root = false) {
    if (value.kind == NodeKind::null) return;
    for (const auto& [end, theirs, ours] : kWords) {
      if (!key.ends_with(end)) continue;
      if (ours.empty() && value.text.starts_with(theirs)) return note_unsupported(flag + " " + value.text);
      if (value.text == theirs) value = ConfigNode::make_string(std::string(ours), value.origin);
    }
    if (key == "engine.kv_cache.memory_fraction")
      note(flag,
           "vLLM means a share of the whole GPU, weights included; here it is a share of what weights and workspace "
           "leave free");
    said_[std::string(key)] = {flag, std::move(value), counts_root};
  }
  void say(const std::string& flag, std::string_view key, const std::string& text) {
    say(flag, key, ConfigNode::make_string(text, flag_origin(flag, text)));
  }

  /// What vLLM takes where nothing is said. False: something is said.
  bool unless_said(const std::string& key, ConfigNode value) {
    return said_.try_emplace(key, Said{"", std::move(value)}).second;
  }

  std::string text_of(std::string_view key) const {
    const auto found = said_.find(key);
    return found == said_.end() ? "" : found->second.value.text;
  }

  void resolve_speculation() {
    const auto first = said_.lower_bound("speculation.");
    if (first == said_.end() || !first->first.starts_with("speculation.")) return;
    const Origin at = first->second.value.origin;
    const std::string method = text_of("speculation.proposer"), model = text_of("speculation.draft.path");
    if (method.empty() && model.empty()) fail_at(at, "neither a method nor a model is named: who drafts?");
    const bool is_lookup = method == "ngram" || model == "ngram" || model == "[ngram]";
    const std::string name = is_lookup ? "ngram" : !method.empty() ? method : names_eagle3(model) ? "eagle3" : "draft";
    const ProposerEntry* const proposer = find_proposer(name);
    const std::vector<std::string> methods = vllm_flag_methods();
    if (std::ranges::find(methods, name) == methods.end()) {
      std::erase_if(said_, [](const auto& each) { return each.first.starts_with("speculation."); });
      return note_unsupported("method " + name, hint_for_method(name, methods),
                              fmt::format("; those that flags can ask for are {}", fmt::join(methods, ", ")));
    }
    const auto text = [&](const char* word) { return ConfigNode::make_string(word, at); };
    const auto number = [&](double value) { return ConfigNode::make_number(value, at); };
    if (proposer->has_second_model() && model.empty())
      fail_at(
          method.empty() ? at : said_["speculation.proposer"].value.origin,
          fmt::format("{} needs a model: name it by --speculative-draft-model-path, or in --speculative-config", name));
    if (is_lookup) said_.erase("speculation.draft.path");
    if (proposer->has_second_model()) {
      auto path = said_.extract("speculation.draft.path");
      path.key() = fmt::format("speculation.{}.path", name);
      said_.insert(std::move(path));
    }
    said_["speculation.proposer"].value = text(name.c_str());
    resolve_steps(*proposer);
    if (name == "suffix") {
      if (unless_said("speculation.num_speculative_tokens", number(24)))
        note("suffix", "vLLM drafts as many tokens as the tree is deep, 24, unless told");
      if (text_of("speculation.suffix.requests") == "0") {
        said_.erase("speculation.suffix.requests");
        unless_said("speculation.suffix.store", text("request"));
      }
    } else if (text_of("speculation.num_speculative_tokens").empty()) {
      fail_at(at, fmt::format("{} needs num_speculative_tokens: how many tokens are drafted in one step{}", name,
                              misspelt_count()));
    }
    if (is_lookup) resolve_ngram(at);
    if (name == "draft") {
      unless_said("speculation.draft.tp", text("target"));
      if (unless_said("speculation.draft.sampling", text("argmax")))
        note("speculation.draft.sampling",
             "\"argmax\", as vLLM drafts unless told: the most likely tokens; \"own\" is the default here");
    }
    std::erase_if(said_, [&](const auto& each) {
      const bool is_others = find_key(each.first)->proposer && find_key(each.first)->proposer != proposer;
      if (is_others) note_unsupported(fmt::format("{} {}", each.second.flag, each.second.value.text));
      return is_others;
    });
  }

  /// SGLang says how deep drafts are, how wide, and how many tokens a step verifies: of chains the depth is their
  /// length.
  void resolve_steps(const ProposerEntry& proposer) {
    constexpr const char* kCount = "speculation.num_speculative_tokens";
    if (const auto count = said_.find(kCount); count != said_.end() && count->second.counts_root) {
      ConfigNode& value = count->second.value;
      if (value.kind == NodeKind::integer || value.kind == NodeKind::number)
        value = ConfigNode::make_number(value.number - 1, value.origin);
    }
    const auto width = said_.find("speculation.eagle3.width"), depth = said_.find("speculation.eagle3.depth");
    const bool is_tree = width != said_.end() && width->second.value.number > 1;
    if (depth != said_.end() && !is_tree && proposer.has_second_model()) {
      said_[kCount] = depth->second;
      said_.erase(depth);
    }
    if (proposer.name != "draft") return;
    for (const char* const key : {"width", "depth"})
      if (auto said = said_.extract(fmt::format("speculation.eagle3.{}", key))) {
        said.key() = fmt::format("speculation.draft.{}", key);
        said_.insert(std::move(said));
      }
  }

  /// The old flags asked for a maximum and took 1 as the minimum; the new fields take one for the other, else 5.
  void resolve_ngram(const Origin& at) {
    const std::string least = "speculation.ngram.min", most = "speculation.ngram.max";
    if (said_["speculation.num_speculative_tokens"].counts_root) return;  // SGLang's has options of its own
    if (!said_.contains(least) && !said_.contains(most))
      note("ngram", "min and max are 5, as in vLLM where neither prompt_lookup_min nor _max is given");
    unless_said(most, said_.contains(least) ? said_[least].value : ConfigNode::make_number(5, at));
    unless_said(least, said_[most].flag.starts_with("--ngram") ? ConfigNode::make_number(1, at) : said_[most].value);
    unless_said("speculation.ngram.match", ConfigNode::make_string("first", at));
    note("speculation.ngram.match", "\"first\", as in vLLM, where nothing is said; \"last\" is the default here");
  }

  /// A path stays as written, since the file may move, and so does what is there; a hub's name becomes a folder below
  /// PACELINE_MODELS.
  std::string model_path(const std::string& name) {
    if (std::string_view("/.$").find(name[0]) != std::string_view::npos || name.starts_with("builtin:")) return name;
    std::error_code ignored;
    if (std::filesystem::exists(name, ignored)) return name;
    const std::string folder =
        std::filesystem::path(name.substr(0, name.find_last_not_of('/') + 1)).filename().string();
    const char* const models = std::getenv("PACELINE_MODELS");
    if (!std::filesystem::exists(std::filesystem::path(models && *models ? models : "models") / folder, ignored))
      note(name, "nothing is downloaded; put the checkpoint into $PACELINE_MODELS/" + folder);
    return fmt::format("${{env:PACELINE_MODELS:-models}}/{}", folder);
  }

  /// A server's requests say how long their answers may be; of an experiment the usual length may not fit.
  void leave_room_for_prompts(ExperimentConfig& config) {
    const std::optional<int>& longest = config.engine.scheduler.max_model_len;
    int& max_tokens = config.sampling.max_tokens;
    if (!longest || max_tokens < *longest || said_.contains("sampling.max_tokens")) return;
    max_tokens = std::max(1, *longest / 2);
    set_key(result_.config, "sampling.max_tokens", max_tokens);
  }

  /// Checks every value against its key and all of them together, then nests them.
  void fill() {
    ExperimentConfig config;
    for (const KeySpec& key : config_keys()) {
      const auto said = said_.find(key.path);
      if (said == said_.end()) continue;
      const ConfigNode& node = said->second.value;
      std::optional<ConfigJson> value = convert_value(key, node, diagnostics_);
      if (!value) continue;
      key.assign(config, *value);
      if (key.type == KeyType::path) value = model_path(node.text);
      set_key(result_.config, key.path, std::move(*value));
    }
    diagnostics_.throw_if_any();
    leave_room_for_prompts(config);
    const std::optional<ConfigConflict> conflict = find_conflict(config);
    if (!conflict) return;
    if (const auto said = said_.find(conflict->key); said != said_.end())
      fail_at(said->second.value.origin, conflict->message);
    fail(ExitCode::usage, "server flags: {}", conflict->message);
  }

  const std::vector<std::string>& words_;
  size_t next_ = 0;
  std::map<std::string, Said, std::less<>> said_;  // by key
  Diagnostics diagnostics_;
  ImportedFlags result_;
};

}  // namespace

std::string hint_for_vllm_name(std::string_view name, std::string_view section) {
  if (name == "tp" || name == "pp") return "";  // short names here as well
  std::string folded(name);
  std::replace(folded.begin(), folded.end(), '-', '_');
  std::string_view key = section == "speculation" || is_below(section, "speculation") ? key_for(kFields, folded) : "";
  std::replace(folded.begin(), folded.end(), '_', '-');
  if (key.empty()) key = folded == "speculative-config" ? "speculation" : key_for(kFlags, folded);
  return key.empty() ? "" : fmt::format(" (vLLM's name; here: \"{}\")", key);
}

std::vector<std::string> vllm_flag_names() {
  std::vector<std::string> names{"--speculative-config"};
  for (const Name& flag : kFlags) names.push_back("--" + std::string(flag.theirs));
  return names;
}

std::vector<std::string> vllm_flag_methods() {
  std::vector<std::string> names = proposer_names(ProposerNames::drafting);
  std::erase_if(names, [](const std::string& name) {
    return name != "ngram" && name != "suffix" && !find_proposer(name)->has_second_model();
  });
  return names;
}

ImportedFlags import_vllm_flags(const std::vector<std::string>& words) { return Importer(words).run(); }

std::string imported_text(const ImportedFlags& imported) {
  std::string text = "// Made from a server's flags by `runexp import-flags`.\n";
  if (const auto proposer = ConfigJson::json_pointer("/speculation/proposer"); imported.config.contains(proposer))
    text += fmt::format("// Set beside plain decoding: runexp run FILE --axis proposer=none,{}\n",
                        imported.config[proposer].get_ref<const std::string&>());
  if (!imported.config.contains(ConfigJson::json_pointer("/engine/target/path")))
    text += "// No model was given: the built-in one runs.\n";
  for (const std::string& note : imported.notes) text += fmt::format("// - {}\n", note);
  ConfigJson file = {{"$schema", "experiment.schema.json"},
                     {"extends", {"builtin:base/defaults.json", "builtin:workloads/reading_qa.json"}},
                     {"name", "imported"}};
  file.update(imported.config);
  return text + compact_json(file) + "\n";
}

}  // namespace paceline
