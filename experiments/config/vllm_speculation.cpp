#include "experiments/config/vllm_speculation.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "engine/util/suggest.h"
#include "speculative/proposer_entry.h"

namespace paceline {

namespace {

/// Fields that --speculative-config takes and that are left out here, with the reason.
constexpr std::pair<std::string_view, std::string_view> kLeftOut[] = {
    {"quantization", "no quantised weights here"},
    {"max_model_len", "the draft's own length bounds it"},
    {"revision", "nothing is downloaded"},
    {"code_revision", "code of a checkpoint is never run"},
    {"disable_by_batch_size", "sweep load.concurrency to see where speculation stops paying"},
    {"disable_padded_drafter_batch", "batches of drafts are not padded"},
    {"enforce_eager", "set engine.cuda_graphs: false for all passes"},
    {"acceptance_method", "every rule here is lossless"},
    {"posterior_threshold", "every rule here is lossless"},
    {"posterior_alpha", "every rule here is lossless"},
    {"speculative_token_tree", "trees have no fixed form here: speculation.eagle3.width grows them by likelihood"},
    {"parallel_drafting", "drafts are made one after the other"},
};
/// The fields that are read, and our keys for them.
constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
    {"method", "speculation.proposer"},
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
    {"suffix_decoding_min_token_prob", "speculation.suffix.min_prob"},
};

std::string_view second_of(std::span<const std::pair<std::string_view, std::string_view>> table,
                           std::string_view first) {
  const auto row = std::find_if(table.begin(), table.end(), [&](const auto& pair) { return pair.first == first; });
  return row == table.end() ? std::string_view() : row->second;
}

ConfigNode integer_node(int64_t value, const Origin& origin) {
  ConfigNode node;
  node.kind = NodeKind::integer;
  node.integer = value;
  node.number = static_cast<double>(value);
  node.text = std::to_string(value);
  node.origin = origin;
  return node;
}

bool names_eagle3(const std::string& path) {
  constexpr std::string_view kWord = "eagle3";
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return std::search(path.begin(), path.end(), kWord.begin(), kWord.end(), same) != path.end();
}

bool is_ngram(const std::string& text) { return text == "ngram" || text == "[ngram]"; }

}  // namespace

std::string_view key_of_vllm_field(std::string_view field) { return second_of(kKnown, field); }
std::string_view reason_field_is_left_out(std::string_view field) { return second_of(kLeftOut, field); }

std::string local_model_path(const std::string& name, std::vector<std::string>& notes) {
  if (name.starts_with("/") || name.starts_with(".") || name.starts_with("builtin:") || name.starts_with("$")) {
    return name;
  }
  const std::string folder = name.substr(name.rfind('/') + 1);
  notes.push_back(fmt::format("{}: nothing is downloaded; put the checkpoint into $PACELINE_MODELS/{}", name, folder));
  return fmt::format("${{env:PACELINE_MODELS:-models}}/{}", folder);
}

void VllmSpeculation::add_flag(std::string_view field, ConfigNode value) {
  if (old_origin_.line == 0) old_origin_ = value.origin;
  fields_.push_back({std::string(field), std::move(value)});
}

void VllmSpeculation::add_config(const ConfigNode& config, const Origin& origin, Diagnostics& diagnostics) {
  new_origin_ = origin;
  if (config.kind != NodeKind::object) {
    diagnostics.add(origin, fmt::format("expected an object like {{\"method\": \"ngram\", \"num_speculative_tokens\": "
                                        "5}}, found {}",
                                        config.describe()));
    return;
  }
  for (const ConfigMember& member : config.members) add_field(member, diagnostics);
}

void VllmSpeculation::add_field(ConfigMember field, Diagnostics& diagnostics) {
  if (new_origin_.line == 0) new_origin_ = field.key_origin;
  const ConfigNode* const before = find(field.key);
  if (field.key == "tensor_parallel_size") {
    diagnostics.add(field.key_origin, "the draft's size is \"draft_tensor_parallel_size\"");
  } else if (key_of_vllm_field(field.key).empty() && reason_field_is_left_out(field.key).empty()) {
    std::vector<std::string> names;
    for (const auto& [name, key] : kKnown) names.emplace_back(name);
    for (const auto& [name, reason] : kLeftOut) names.emplace_back(name);
    diagnostics.add(field.key_origin, fmt::format("unknown field \"{}\" in --speculative-config{}", field.key,
                                                  did_you_mean(field.key, names)));
  } else if ((field.key == "method" || field.key == "model") && field.value.kind != NodeKind::string) {
    diagnostics.add(field.value.origin,
                    fmt::format("\"{}\" is {}: expected a string", field.key, field.value.describe()));
  } else if (before && before->describe() != field.value.describe()) {
    diagnostics.add(field.value.origin,
                    fmt::format("\"{}\" is {} here, but {} said {} before: give one of the two", field.key,
                                field.value.describe(), before->origin.source->name, before->describe()));
  } else {
    fields_.push_back({std::move(field.key), std::move(field.value)});
  }
}

const ConfigNode* VllmSpeculation::find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (field.name == name && field.value.kind != NodeKind::null) return &field.value;
  }
  return nullptr;
}

void VllmSpeculation::require_tokens(std::string_view method) const {
  if (find("num_speculative_tokens")) return;
  fail_at(fields_.front().value.origin,
          fmt::format("{} needs num_speculative_tokens: say how many tokens are drafted in one step", method));
}

const ConfigNode* VllmSpeculation::find_word(std::string_view name,
                                             std::initializer_list<std::string_view> words) const {
  const ConfigNode* const field = find(name);
  if (field && (field->kind != NodeKind::string || std::find(words.begin(), words.end(), field->text) == words.end()))
    fail_at(field->origin, fmt::format("\"{}\" is {}: expected {}", name, field->describe(), fmt::join(words, " or ")));
  return field;
}

void VllmSpeculation::add_rule(std::vector<Assignment>& keys, std::vector<std::string>& notes) const {
  const ConfigNode* const method = find_word("rejection_sample_method", {"standard", "block", "synthetic"});
  if (!method || method->text == "standard") return;
  if (method->text == "block")
    keys.push_back({"speculation.verifier.rule", *method});
  else
    notes.emplace_back("rejection_sample_method synthetic: left out: speculation.synthetic states acceptance");
}

void VllmSpeculation::add_sampling(std::vector<Assignment>& keys, std::vector<std::string>& notes) const {
  const ConfigNode* const method = find_word("draft_sample_method", {"greedy", "probabilistic"});
  if (!method)
    notes.emplace_back(
        "speculation.draft.sampling: vLLM drafts the most likely tokens unless told; \"own\" is the default here");
  const Origin at = method ? method->origin : fields_.front().value.origin;
  const bool is_own = method && method->text == "probabilistic";
  keys.push_back({"speculation.draft.sampling", ConfigNode::make_string(is_own ? "own" : "argmax", at)});
}

std::vector<VllmSpeculation::Assignment> VllmSpeculation::resolve(int64_t tp, std::vector<std::string>& notes) const {
  if (fields_.empty()) return {};
  if (old_origin_.line > 0 && new_origin_.line > 0) {
    fail_at(old_origin_, "this old flag stands beside --speculative-config: give one of the two");
  }
  for (const auto& [name, reason] : kLeftOut) {
    if (find(name)) notes.push_back(fmt::format("--speculative-config {}: left out: {}", name, reason));
  }
  const ConfigNode* method = find("method");
  const ConfigNode* model = find("model");
  if (!method && !model) {
    fail_at(fields_.front().value.origin,
            new_origin_.line > 0 ? "--speculative-config names neither a \"method\" nor a \"model\": who drafts?"
                                 : "there is no --speculative-model: who drafts?");
  }
  const bool named_eagle3 = model && names_eagle3(model->text);
  const std::string name = method                  ? method->text
                           : is_ngram(model->text) ? "ngram"
                           : named_eagle3          ? "eagle3"
                                                   : "draft_model";
  if (is_ngram(name)) {
    if (model && !is_ngram(model->text)) {
      fail_at(model->origin, fmt::format("the method ngram takes no draft model, found \"{}\": drop one", model->text));
    }
    return resolve_ngram(notes);
  }
  if (name == "draft_model") {
    if (!model) fail_at(method->origin, "the method draft_model needs a \"model\"");
    return resolve_draft(tp, notes);
  }
  if (name == "suffix") return resolve_suffix(notes);
  if (name == "eagle3") {
    if (!model) fail_at(method->origin, "the method eagle3 needs a \"model\"");
    if (!method) notes.emplace_back("method eagle3: by the model's name, as vLLM takes it");
    return resolve_eagle3(notes);
  }
  notes.push_back(fmt::format("method {}: left out: the proposers here are {}, so nobody drafts below", name,
                              fmt::join(proposer_names(ProposerNames::drafting), " and ")));
  return {};
}

std::vector<VllmSpeculation::Assignment> VllmSpeculation::resolve_ngram(std::vector<std::string>& notes) const {
  require_tokens("ngram");
  const Origin at = fields_.front().value.origin;
  std::vector<Assignment> keys = {{"speculation.proposer", ConfigNode::make_string("ngram", at)},
                                  {"speculation.num_speculative_tokens", *find("num_speculative_tokens")}};
  const ConfigNode* longest = find("prompt_lookup_max");
  const ConfigNode* shortest = find("prompt_lookup_min");
  if (!longest && !shortest)
    notes.emplace_back("ngram: vLLM takes 5 where neither prompt_lookup_min nor _max is given");
  const ConfigNode fallback = integer_node(5, at);
  // The old flags asked for a maximum and took 1 as the minimum; the new fields take one for the other.
  const ConfigNode one = integer_node(1, at);
  const bool old_minimum = old_origin_.line > 0 && longest && !shortest;
  keys.push_back({"speculation.ngram.min", shortest ? *shortest : old_minimum ? one : longest ? *longest : fallback});
  keys.push_back({"speculation.ngram.max", longest ? *longest : shortest ? *shortest : fallback});
  keys.push_back({"speculation.ngram.match", ConfigNode::make_string("first", at)});
  notes.emplace_back("speculation.ngram.match: vLLM continues the first match; \"last\" is the default here");
  for (const char* name : {"draft_tensor_parallel_size", "draft_sample_method"})
    if (find(name)) notes.push_back(fmt::format("{}: left out: ngram has no model", name));
  add_rule(keys, notes);
  return keys;
}

void VllmSpeculation::refuse_lookup(std::string_view who) const {
  for (const char* name : {"prompt_lookup_max", "prompt_lookup_min"})
    if (const ConfigNode* field = find(name))
      fail_at(field->origin, fmt::format("{} belongs to the method ngram, but {} is named: drop one", name, who));
}

std::vector<VllmSpeculation::Assignment> VllmSpeculation::keys_with_model(const std::string& proposer,
                                                                          std::vector<std::string>& notes) const {
  const ConfigNode* const model = find("model");
  return {{"speculation.proposer", ConfigNode::make_string(proposer, model->origin)},
          {"speculation.num_speculative_tokens", *find("num_speculative_tokens")},
          {"speculation." + proposer + ".path",
           ConfigNode::make_string(local_model_path(model->text, notes), model->origin)}};
}

std::vector<VllmSpeculation::Assignment> VllmSpeculation::resolve_suffix(std::vector<std::string>& notes) const {
  refuse_lookup("suffix decoding");
  const Origin at = find("method")->origin;
  std::vector<Assignment> keys = {{"speculation.proposer", ConfigNode::make_string("suffix", at)}};
  const ConfigNode* const tokens = find("num_speculative_tokens");
  keys.push_back({"speculation.num_speculative_tokens", tokens ? *tokens : integer_node(24, at)});
  if (!tokens) notes.emplace_back("suffix: vLLM drafts as many tokens as the tree is deep, 24, unless told");
  for (const char* const field :
       {"suffix_decoding_max_tree_depth", "suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob"})
    if (const ConfigNode* const value = find(field)) keys.push_back({std::string(key_of_vllm_field(field)), *value});
  if (const ConfigNode* const requests = find("suffix_decoding_max_cached_requests")) {
    if (requests->kind == NodeKind::integer && requests->integer == 0)
      keys.push_back({"speculation.suffix.store", ConfigNode::make_string("request", requests->origin)});
    else
      keys.push_back({"speculation.suffix.requests", *requests});
  }
  add_rule(keys, notes);
  return keys;
}

std::vector<VllmSpeculation::Assignment> VllmSpeculation::resolve_eagle3(std::vector<std::string>& notes) const {
  require_tokens("a head");
  refuse_lookup("a head");
  std::vector<Assignment> keys = keys_with_model("eagle3", notes);
  if (find("draft_tensor_parallel_size"))
    notes.emplace_back("draft_tensor_parallel_size: left out: a head lies whole on the rank that decides");
  if (const ConfigNode* how = find_word("draft_sample_method", {"greedy", "probabilistic"});
      how && how->text == "probabilistic")
    notes.emplace_back("draft_sample_method probabilistic: left out: a head drafts its most likely tokens here");
  add_rule(keys, notes);
  return keys;
}

std::vector<VllmSpeculation::Assignment> VllmSpeculation::resolve_draft(int64_t tp,
                                                                        std::vector<std::string>& notes) const {
  require_tokens("a draft model");
  refuse_lookup("a draft model");
  const ConfigNode* model = find("model");
  std::vector<Assignment> keys = keys_with_model("draft", notes);
  const ConfigNode* size = find("draft_tensor_parallel_size");
  if (!size) {
    keys.push_back({"speculation.draft.tp", ConfigNode::make_string("target", model->origin)});
  } else if (size->kind != NodeKind::integer || (size->integer != 1 && size->integer != tp)) {
    fail_at(size->origin,
            fmt::format("draft_tensor_parallel_size {}: expected 1 or the target's tensor-parallel size, {}",
                        size->describe(), tp));
  } else if (size->integer == 1) {
    keys.push_back({"speculation.draft.tp", *size});
  } else {
    keys.push_back({"speculation.draft.tp", ConfigNode::make_string("target", size->origin)});
  }
  add_sampling(keys, notes);
  add_rule(keys, notes);
  return keys;
}

}  // namespace paceline
