#pragma once
// The speculative part of vLLM's command line, in its old and its new spelling.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/tree.h"

namespace paceline {

/// Fields of vLLM's speculative configuration, collected from flags or from --speculative-config.
class VllmSpeculation {
 public:
  /// One field by an old flag.
  void add_flag(std::string_view field, ConfigNode value);
  /// All fields by --speculative-config '{...}'.
  void add_config(const ConfigNode& config, const Origin& origin, Diagnostics& diagnostics);
  /// One field by --speculative-config.FIELD; several of these add up, and to the JSON form.
  void add_field(ConfigMember field, Diagnostics& diagnostics);

  /// A value for one of our keys, with the place that messages name.
  struct Assignment {
    std::string key;
    ConfigNode value;
  };
  /// Our keys. `tp` is the target's. What has no equal here goes to `notes`. Throws ConfigError for contradictions:
  /// both spellings at once, fields without a method, a draft's fields for n-grams and the other way round.
  std::vector<Assignment> resolve(int64_t tp, std::vector<std::string>& notes) const;

 private:
  struct Field {
    std::string name;
    ConfigNode value;
  };
  const ConfigNode* find(std::string_view name) const;
  std::vector<Assignment> resolve_ngram(std::vector<std::string>& notes) const;
  std::vector<Assignment> resolve_draft(int64_t tp, std::vector<std::string>& notes) const;
  std::vector<Assignment> resolve_eagle3(std::vector<std::string>& notes) const;
  std::vector<Assignment> resolve_suffix(std::vector<std::string>& notes) const;
  void refuse_lookup(std::string_view who) const;
  /// The proposer, how many tokens it drafts, and the "model" as its path.
  std::vector<Assignment> keys_with_model(const std::string& proposer, std::vector<std::string>& notes) const;
  void require_tokens(std::string_view method) const;
  /// The value of a field that is one of `words`; null: it is not given.
  const ConfigNode* find_word(std::string_view name, std::initializer_list<std::string_view> words) const;
  void add_rule(std::vector<Assignment>& keys, std::vector<std::string>& notes) const;
  void add_sampling(std::vector<Assignment>& keys, std::vector<std::string>& notes) const;

  std::vector<Field> fields_;
  Origin old_origin_, new_origin_;  // line 0: not used
};

/// Our key for a field of --speculative-config; empty: there is none.
std::string_view key_of_vllm_field(std::string_view field);
/// Why a field of it is left out; empty: it is not, or it is no field.
std::string_view reason_field_is_left_out(std::string_view field);

/// Where a checkpoint of this name lies for us: a path stays, a hub's name becomes a folder below PACELINE_MODELS, and
/// a note says so.
std::string local_model_path(const std::string& name, std::vector<std::string>& notes);

}  // namespace paceline
