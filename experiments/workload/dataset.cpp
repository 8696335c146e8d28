#include "experiments/workload/dataset.h"

#include <algorithm>
#include <fstream>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBuiltin = "builtin:";

/// Where an error lies.
struct Place {
  std::string file;
  int64_t line = 0;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    paceline::fail(ExitCode::model_file, "{}:{}: {}", file, line, fmt::format(format, std::forward<Args>(args)...));
  }
};

const std::string& string_field(const json& object, const char* key, const std::string& name, const Place& place) {
  const auto it = object.find(key);
  if (it == object.end()) place.fail("field \"{}\" is missing: expected a string", name);
  if (!it->is_string()) place.fail("field \"{}\" is of type {}: expected a string", name, it->type_name());
  return it->get_ref<const std::string&>();
}

std::vector<PromptMessage> read_messages(const json& list, const Place& place) {
  if (!list.is_array()) place.fail("field \"messages\" is of type {}: expected an array", list.type_name());
  if (list.empty()) place.fail("field \"messages\" is empty: expected at least one message");
  std::vector<PromptMessage> messages;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = fmt::format("messages[{}]", i);
    if (!list[i].is_object()) place.fail("field \"{}\" is of type {}: expected an object", name, list[i].type_name());
    messages.push_back({.role = string_field(list[i], "role", name + ".role", place),
                        .content = string_field(list[i], "content", name + ".content", place)});
    if (messages.back().role.empty())
      place.fail("field \"{}.role\" is empty: expected user, assistant or system", name);
  }
  return messages;
}

Prompt read_prompt(const json& row, const Place& place, const std::string& default_id) {
  Prompt prompt;
  const bool has_messages = row.contains("messages"), has_text = row.contains("prompt");
  if (has_messages && has_text) place.fail("has both \"messages\" and \"prompt\": keep one");
  if (!has_messages && !has_text) place.fail("field \"messages\" is missing: expected \"messages\" or \"prompt\"");
  if (has_messages) {
    prompt.messages = read_messages(row["messages"], place);
  } else {
    prompt.text = string_field(row, "prompt", "prompt", place);
    if (prompt.text.empty()) place.fail("field \"prompt\" is empty: expected text");
  }
  prompt.id = default_id;
  if (const auto id = row.find("id"); id != row.end()) {
    if (id->is_number_integer()) {
      prompt.id = id->dump();
    } else {
      prompt.id = string_field(row, "id", "id", place);
    }
  }
  if (row.contains("category")) prompt.category = string_field(row, "category", "category", place);
  return prompt;
}

/// Reads one line without its end; false at the end of the file. Throws on a line that is too long.
bool read_line(std::istream& in, std::string& line, const Place& place) {
  line.clear();
  std::streambuf& buffer = *in.rdbuf();
  int c = buffer.sbumpc();
  if (c == std::char_traits<char>::eof()) return false;
  for (; c != std::char_traits<char>::eof() && c != '\n'; c = buffer.sbumpc()) {
    if (static_cast<int64_t>(line.size()) >= kMaxDatasetLineBytes) {
      place.fail("the line is longer than {} bytes: one prompt a line is expected", kMaxDatasetLineBytes);
    }
    line.push_back(static_cast<char>(c));
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

/// Counter-based mixing (SplitMix64's finaliser), so that the order is the same with every standard library.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<Prompt> read_jsonl_dataset(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    fail(ExitCode::model_file, "{}: dataset file not found: check workload.dataset", file.string());
  }
  if (std::filesystem::is_directory(file, error)) {
    fail(ExitCode::model_file, "{}: is a folder: workload.dataset must name a .jsonl file", file.string());
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(ExitCode::model_file, "{}: cannot be opened for reading", file.string());

  std::vector<Prompt> prompts;
  std::unordered_map<std::string, int64_t> line_of_id;
  Place place{.file = file.string()};
  std::string line;
  while (++place.line, read_line(in, line, place)) {
    std::string_view text = line;
    if (place.line == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    if (text.find_first_not_of(" \t") == std::string_view::npos) continue;
    json row;
    try {
      row = json::parse(text);
    } catch (const json::parse_error& e) {
      place.fail("column {}: not valid JSON: expected one object a line", e.byte);
    }
    if (!row.is_object()) place.fail("is of type {}: expected one object a line", row.type_name());
    if (prompts.empty() && row.contains("_header")) continue;
    Prompt prompt = read_prompt(row, place, fmt::format("{}-{}", file.stem().string(), place.line));
    prompt.index = static_cast<int64_t>(prompts.size());
    const auto [known, is_new] = line_of_id.emplace(prompt.id, place.line);
    if (!is_new) place.fail("field \"id\": \"{}\" was used in line {}: ids must differ", prompt.id, known->second);
    prompts.push_back(std::move(prompt));
  }
  if (in.bad()) fail(ExitCode::model_file, "{}:{}: read error", file.string(), place.line);
  if (prompts.empty())
    fail(ExitCode::model_file, "{}: holds no prompt: expected one JSON object a line", file.string());
  return prompts;
}

std::vector<Prompt> load_dataset(const std::string& name, const std::filesystem::path& builtin_folder) {
  if (!name.starts_with(kBuiltin)) return read_jsonl_dataset(name);
  const std::string stem = name.substr(kBuiltin.size());
  const std::filesystem::path file = builtin_folder / (stem + ".jsonl");
  std::error_code error;
  if (stem.find('/') == std::string::npos && std::filesystem::exists(file, error)) return read_jsonl_dataset(file);
  std::vector<std::string> known;
  for (const auto& entry : std::filesystem::directory_iterator(builtin_folder, error)) {
    if (entry.path().extension() == ".jsonl") known.push_back(std::string(kBuiltin) + entry.path().stem().string());
  }
  std::sort(known.begin(), known.end());
  fail(ExitCode::model_file, "workload.dataset: \"{}\" is not built in: {} holds {}", name, builtin_folder.string(),
       known.empty() ? std::string("none") : fmt::format("{}", fmt::join(known, ", ")));
}

std::vector<Prompt> select_prompts(const std::vector<Prompt>& prompts, int64_t num_requests, uint64_t order_seed) {
  PACELINE_CHECK(num_requests >= 0, "num_requests {}", num_requests);
  if (num_requests == 0) return {};
  if (prompts.empty()) fail(ExitCode::model_file, "the dataset is empty but {} requests are asked for", num_requests);
  std::vector<size_t> order(prompts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (order_seed != 0) {
    for (size_t i = order.size() - 1; i > 0; --i) {  // Fisher-Yates; the modulo's bias (< 2^-40) does not matter here
      std::swap(order[i], order[mix(order_seed * 0x9e3779b97f4a7c15ULL + i) % (i + 1)]);
    }
  }
  std::vector<Prompt> selected;
  selected.reserve(static_cast<size_t>(num_requests));
  for (int64_t i = 0; i < num_requests; ++i) {
    const auto round = i / static_cast<int64_t>(order.size());
    selected.push_back(prompts[order[static_cast<size_t>(i) % order.size()]]);
    if (round > 0) selected.back().id += fmt::format("#{}", round + 1);
  }
  return selected;
}

}  // namespace paceline
