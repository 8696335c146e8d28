#pragma once
// Prompts: built-in workloads and the user's JSONL files.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

struct PromptMessage {
  std::string role;  // system, user, assistant
  std::string content;
};

/// One prompt. Exactly one of `messages` (the chat template is applied) and `text` (used as it stands) is filled.
struct Prompt {
  std::string id;        // the file's, else "<file stem>-<line>"
  std::string category;  // empty when the file names none
  int64_t index = 0;     // place in the file, counted from 0 over prompts: the same whatever the order
  std::vector<PromptMessage> messages;
  std::string text;

  bool is_chat() const { return !messages.empty(); }
};

inline constexpr int64_t kMaxDatasetLineBytes = int64_t{16} << 20;

/// Reads a JSON Lines file: {"id"?, "category"?, "messages": [{"role", "content"}, ...]} or {"prompt": "..."} a line.
/// A UTF-8 byte-order mark, CRLF, blank lines and a first line {"_header": {...}} are accepted; other keys are ignored.
/// Throws Error(model_file) naming file:line and field: missing file, bad JSON, wrong type, both or neither of
/// messages/prompt, empty text, duplicate id, a line over kMaxDatasetLineBytes, no prompt at all.
std::vector<Prompt> read_jsonl_dataset(const std::filesystem::path& file);

/// Resolves a dataset name: "builtin:reading_qa" is <builtin_folder>/reading_qa.jsonl (any *.jsonl there), anything
/// else a path. Throws Error(model_file); an unknown built-in name lists those that exist.
std::vector<Prompt> load_dataset(const std::string& name, const std::filesystem::path& builtin_folder);

/// The requests of a run: the prompts in an order that depends on `order_seed` only (0: file order), repeated from the
/// start when num_requests exceeds them (repeats get "#2", "#3" at the id). The same on every machine and library.
/// REQUIRES num_requests >= 0; throws Error(model_file) when prompts is empty and num_requests is not 0.
std::vector<Prompt> select_prompts(const std::vector<Prompt>& prompts, int64_t num_requests, uint64_t order_seed);

}  // namespace paceline
