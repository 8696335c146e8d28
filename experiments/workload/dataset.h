#pragma once
// Prompts from files: which forms are read, how a set is found, ordered and cut.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/dataset_format.h"

namespace paceline {

struct PromptMessage {
  std::string role;  // system, user, assistant
  std::string content;
};

/// One prompt. Exactly one of `messages` (the chat template is applied) and `text` (used as it stands) is filled.
struct Prompt {
  std::string id;        // the file's, else "<file stem>-<line>"
  std::string category;  // empty when the file names none
  int64_t index = 0;     // place in the file, counted from 0 over good records: the same whatever the order
  std::vector<PromptMessage> messages;
  std::string text;
  std::optional<int> max_tokens;  // longest output of this request; sampling.max_tokens bounds it too

  bool is_chat() const { return !messages.empty(); }
  /// The text, or what the messages say without the form that a chat template gives them.
  std::string plain_text() const;
};

/// Bytes of a line of JSON Lines, of a record of CSV, or of an element of a JSON document.
inline constexpr int64_t kMaxDatasetLineBytes = int64_t{16} << 20;

struct DatasetOptions {
  DatasetFormat format = DatasetFormat::automatic;
  BadRecords bad_records = BadRecords::refuse;
};

struct Dataset {
  DatasetFormat format = DatasetFormat::paceline;  // never automatic
  std::vector<Prompt> prompts;                     // in the file's order, never empty
  int64_t num_bad = 0;                             // records left out; 0 unless BadRecords::skip
  std::string first_bad;                           // what was wrong with the first of them, with file and line
};

/// Reads a file of prompts; configs/workloads/README.md has the schema of each form. A UTF-8 byte-order mark, CRLF and
/// blank lines are accepted, keys that a form does not name are ignored. Of a set with several turns the first user
/// turn becomes the prompt, with a system message that stands before it.
/// Throws Error(model_file), one line that names file, line and field: no such file (and where a known set can be got),
/// an unknown form, a missing field, a wrong type, an empty text, an id that was used before, a line over
/// kMaxDatasetLineBytes, no prompt at all. With BadRecords::skip what concerns a single record is counted instead.
Dataset read_dataset(const std::filesystem::path& file, const DatasetOptions& options = {});

/// Resolves a data set's name: "builtin:reading_qa" is <builtin_folder>/reading_qa.jsonl (any *.jsonl there), anything
/// else a path. Throws Error(model_file); an unknown built-in name lists those that exist.
std::vector<Prompt> load_dataset(const std::string& name, const std::filesystem::path& builtin_folder);

/// What is left of the set after workload.categories (empty: all) and workload.max_prompt_chars (bytes of all messages
/// of a prompt). Throws Error(model_file) when nothing is left, naming the categories that there are.
std::vector<Prompt> filter_prompts(std::vector<Prompt> prompts, const std::vector<std::string>& categories,
                                   std::optional<int64_t> max_prompt_chars);

/// The requests of a run: the prompts in an order that depends on `order_seed` only (0: file order), repeated from the
/// start when num_requests exceeds them (repeats get "#2", "#3" at the id). The same on every machine and library.
/// REQUIRES num_requests >= 0; throws Error(model_file) when prompts is empty and num_requests is not 0.
std::vector<Prompt> select_prompts(const std::vector<Prompt>& prompts, int64_t num_requests, uint64_t order_seed);

}  // namespace paceline
