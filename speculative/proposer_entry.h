#pragma once
// What the program knows of a proposer. speculative/NAME_proposer.cpp ends with its entry, proposer_list.cpp lists them
// all. Configuration keys, schema, help, memory plan and engine are made from entries; nothing else asks for a name.

#include <algorithm>
#include <any>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/cache/block_pool.h"
#include "engine/speculation.h"
#include "kernels/error.h"
#include "speculative/token_corpus.h"

namespace paceline {

/// A value of an option as users write it; std::string is the word of a choice, or text.
using OptionValue = std::variant<bool, int64_t, double, std::string>;

/// What a number may be, and its unit ("tokens"); all of it is void for other options.
struct OptionRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  bool above_min = false;  // min itself is excluded
  std::string_view unit = {};
};

/// One member of a proposer's options struct: the key speculation.PROPOSER.NAME. Its type is that of get(), its default
/// the struct's own.
struct ProposerOption {
  std::string_view name;
  std::string_view help;  // a sentence
  OptionRange range;
  std::vector<std::string_view> words;  // of a choice, indexed by the enumerator's value; else empty
  /// The std::any holds the entry's options struct.
  std::function<OptionValue(const std::any& options)> get;
  std::function<void(std::any& options, const OptionValue& value)> set;  // REQUIRES: of get()'s type, and allowed
  bool is_path = false;                                                  // text names a file
  bool is_newer = false;  // runs were recorded without it: at its default it does not tell cells apart
};

inline ProposerOption newer(ProposerOption option) {
  option.is_newer = true;
  return option;
}

/// A bool, int or double of `Options`.
template <class Options, class Value>
ProposerOption proposer_option(std::string_view name, Value Options::*member, const OptionRange& range,
                               std::string_view help) {
  using Seen = std::conditional_t<std::is_same_v<Value, int>, int64_t, Value>;
  return {.name = name,
          .help = help,
          .range = range,
          .words = {},
          .get = [member](const std::any& o) -> OptionValue { return Seen(std::any_cast<const Options&>(o).*member); },
          .set = [member](std::any& o,
                          const OptionValue& v) { std::any_cast<Options&>(o).*member = Value(std::get<Seen>(v)); }};
}

template <class Options>
ProposerOption proposer_text(std::string_view name, std::string Options::*member, std::string_view help) {
  return {.name = name,
          .help = help,
          .range = {},
          .words = {},
          .get = [member](const std::any& o) -> OptionValue { return std::any_cast<const Options&>(o).*member; },
          .set = [member](std::any& o,
                          const OptionValue& v) { std::any_cast<Options&>(o).*member = std::get<std::string>(v); }};
}

/// The name of a file; empty where none was given.
template <class Options>
ProposerOption proposer_path(std::string_view name, std::string Options::*member, std::string_view help) {
  ProposerOption option = proposer_text(name, member, help);
  option.is_path = true;
  return option;
}

/// An enum of `Options` with a word for each enumerator, from 0 on.
template <class Options, class Enum>
ProposerOption proposer_choice(std::string_view name, Enum Options::*member, std::vector<std::string_view> words,
                               std::string_view help) {
  return {.name = name,
          .help = help,
          .range = {},
          .words = words,
          .get = [member, words](const std::any& o) -> OptionValue {
            return std::string(words.at(size_t(std::any_cast<const Options&>(o).*member)));
          },
          .set =
              [member, words](std::any& o, const OptionValue& v) {
                const auto word = std::find(words.begin(), words.end(), std::get<std::string>(v));
                PACELINE_CHECK(word != words.end(), "no choice \"{}\"", std::get<std::string>(v));
                std::any_cast<Options&>(o).*member = Enum(word - words.begin());
              }};
}

/// Options that contradict each other.
struct OptionConflict {
  std::string_view option;                 // the one to change
  std::vector<std::string_view> involved;  // all of them
  std::string message;                     // names keys in full
};

class Eagle3Model;  // eagle3_model.h

/// The model that a proposer runs beside the target. The program loads it, and plans its weights, its workspace and as
/// many KV blocks as the target has. Its own keys stand behind the options: speculation.PROPOSER.path, .dtype, ...
enum class SecondModelKind : uint8_t {
  none,
  draft_model,  // a whole model with the target's vocabulary; or the target itself (speculation.PROPOSER.self)
  eagle3_head,  // one made for this very target, whose inner states it reads; on the deciding rank
};
struct SecondModelNeed {
  SecondModelKind kind = SecondModelKind::none;
  std::string_view default_path = {};  // of speculation.PROPOSER.path
};

/// What a proposer's drafts look like.
struct DraftForm {
  int width = 1;                 // most nodes of a level that get children: more than one branches
  int max_depth = 0;             // levels; 0: as many as drafts
  std::string_view option = {};  // that says whether they branch

  bool branches() const { return width > 1; }
  /// Levels of k drafts, which is what a second model has passes and a step can keep.
  int depth_of(int k) const { return max_depth > 0 && max_depth < k ? max_depth : k; }
};

/// Bytes that a proposer holds beside the weights, workspace and KV blocks of its second model.
struct ProposerMemory {
  size_t deciding_rank = 0;  // on the device of the rank that samples
};

struct ProposerEntry;

/// One of those that a proposer is made of, with its own section's options.
struct ProposerStage {
  const ProposerEntry* entry = nullptr;
  const std::any* options = nullptr;
};

/// What a proposer is made from. All that it points to outlives the proposer.
struct ProposerSetup {
  const std::any* options = nullptr;     // the entry's struct; no value where it has none
  VerifyRule rule = VerifyRule::greedy;  // drafts must be drawn as it expects
  int max_num_seqs = 1;
  int max_num_rows = 512;  // of one pass of the second model
  int max_draft_len = 1;
  int target_vocab_size = 0;
  BlockPoolOptions pool;          // the target's
  Model* second_model = nullptr;  // of kind draft_model; null where none is needed, and while memory is planned
  Eagle3Model* head = nullptr;    // of kind eagle3_head; likewise
  int second_vocab_size = 0;
  VocabularyId vocabulary;                     // the target's
  std::span<const ProposerStage> stages = {};  // that ProposerEntry::stages names
  bool may_be_passed_over = false;             // others may draft in its place, step by step
  std::any* kept = nullptr;  // of this cell: what its proposers leave for those of later repetitions; null: none

  template <class Options>
  const Options& options_as() const {
    return std::any_cast<const Options&>(*options);
  }
};

/// What a proposer measures that knows the texts from an earlier pass over the same requests, as no server does.
/// Warming up is that pass; rules that change the text are refused.
enum class DraftBound : uint8_t { none, most_gain, most_cost, stated };

/// Immutable; lives as long as the program.
struct ProposerEntry {
  std::string_view name;   // the word of speculation.proposer and the section of its keys; lower case, '_'
  std::string_view help;   // who drafts, to stand in a list: "lookup in the sequence's own text"
  std::any defaults = {};  // its options struct; no value: it has none
  std::vector<ProposerOption> options = {};
  SecondModelNeed second_model = {};
  DraftBound bound = DraftBound::none;
  bool replays = false;          // drafts of a run, for its requests alone
  bool remembers_texts = false;  // may draft from the answers to earlier requests
  /// The proposers that it is made of, by name, those that are not on the list among them. Null: it is none's.
  std::vector<std::string_view> (*stages)(const std::any& options) = nullptr;
  /// Null: no options can contradict each other.
  std::optional<OptionConflict> (*find_conflict)(const std::any& options) = nullptr;
  /// Mean tokens of a step that are asked for, which k must allow; null: none are.
  std::optional<double> (*most_tokens)(const std::any& options) = nullptr;
  /// Null: chains, always.
  DraftForm (*form)(const std::any& options) = nullptr;
  /// Null: nothing.
  ProposerMemory (*memory)(const ProposerSetup& setup) = nullptr;
  /// Throws where files that the options name cannot be used: before anything runs. Null: they name none.
  void (*check)(const ProposerSetup& setup) = nullptr;
  /// Null: nobody drafts. What a proposer keeps of a request is its own, from the first propose() to end().
  std::unique_ptr<Proposer> (*make)(const ProposerSetup& setup) = nullptr;

  bool drafts() const { return make != nullptr; }
  bool knows_texts() const { return bound != DraftBound::none; }
  /// Not only for the requests of an experiment: a server's, too.
  bool drafts_for_anyone() const { return drafts() && !knows_texts() && !replays; }
  DraftForm form_of(const std::any& chosen) const { return form ? form(chosen) : DraftForm{}; }
  /// What `chosen` names of files.
  std::vector<std::string> files_of(const std::any& chosen) const;
  bool has_second_model() const { return second_model.kind != SecondModelKind::none; }
};

/// The parts of a list apart by commas, without the blanks around them; an empty one where two commas meet.
std::vector<std::string_view> split_at_commas(std::string_view list);

/// What the stage `name` keeps, within what the proposer that is made of it keeps.
std::any* kept_of_stage(std::any& kept, std::string_view name);

/// One of setup.stages, with its own options and what it keeps.
std::unique_ptr<Proposer> make_stage(const ProposerSetup& setup, const ProposerStage& stage);

/// The word for nobody.
inline constexpr std::string_view kNoProposer = "none";

/// All of them, kNoProposer first, in the order in which keys and choices are shown. Defined in proposer_list.cpp
/// alone, so that a program may be linked with another list.
const std::vector<ProposerEntry>& proposer_list();

/// Null for a name that is not on the list.
const ProposerEntry* find_proposer(std::string_view name);
/// Throws Error(usage) with the names that there are.
const ProposerEntry& proposer_entry(std::string_view name);

enum class ProposerNames : uint8_t {
  all,
  drafting,
  for_anyone,  // none, and those that draft for anyone
};
std::vector<std::string> proposer_names(ProposerNames which);
/// "none, ngram or draft"; "ngram or draft".
std::string proposer_names_text(ProposerNames which);

}  // namespace paceline
