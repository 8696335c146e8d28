// Forms with one JSON object a line: paceline, jsonl, spec_bench, mt_bench, humaneval, gsm8k.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "engine/tokenizer/chat_template.h"
#include "engine/util/json_io.h"
#include "engine/util/suggest.h"
#include "experiments/workload/records.h"

namespace paceline {

using nlohmann::json;

namespace {

/// Spec-Bench counts the categories of MT-bench, from which it took them, as one task.
const std::set<std::string_view>& mt_bench_categories() {
  static const std::set<std::string_view> kCategories = {"writing", "roleplay",   "reasoning", "math",
                                                         "coding",  "extraction", "stem",      "humanities"};
  return kCategories;
}

std::vector<PromptMessage> read_messages(const json& row, const Place& place) {
  const json& list = array_field(row, "messages", "messages", place);
  std::vector<PromptMessage> messages;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = fmt::format("messages[{}]", i);
    check_object(list[i], name, place);
    messages.push_back({.role = string_field(list[i], "role", name + ".role", place),
                        .content = string_field(list[i], "content", name + ".content", place)});
    const std::string& role = messages.back().role;
    if (std::find(kChatRoles.begin(), kChatRoles.end(), role) == kChatRoles.end())
      place.fail("field \"{}.role\" is {}: expected {}{}", name, json_literal(role), fmt::join(kChatRoles, ", "),
                 did_you_mean(role, {kChatRoles.begin(), kChatRoles.end()}));
  }
  return messages;
}

/// "; \"promt\" is none of them (did you mean \"prompt\"?)": of the first field that is spelled like one of a prompt,
/// or what reads a "text".
std::string near_field_text(const json& row, bool plain) {
  if (!plain && row.contains("text")) return "; workload.format=jsonl reads \"text\", too";
  std::vector<std::string> names = {"messages", "prompt"};
  if (plain) names.emplace_back("text");
  for (const auto& [field, value] : row.items())
    if (const std::string hint = did_you_mean(field, names); !hint.empty())
      return fmt::format("; {} is none of them{}", json_literal(field), hint);
  return "";
}

/// `paceline` and `jsonl`; the latter also takes "text", and leaves out a recorded answer at the end.
Prompt read_own(const json& row, const Place& place, DatasetFormat format) {
  Prompt prompt;
  const bool plain = format == DatasetFormat::jsonl;
  const char* const text_key = plain && row.contains("text") ? "text" : "prompt";
  const bool has_messages = row.contains("messages"), has_text = row.contains(text_key);
  if (plain && row.contains("text") && row.contains("prompt")) place.fail("has both \"text\" and \"prompt\": keep one");
  if (has_messages && has_text) place.fail("has both \"messages\" and \"{}\": keep one", text_key);
  if (!has_messages && !has_text)
    place.fail("field \"messages\" is missing: expected \"messages\" or \"prompt\"{}{}", plain ? " or \"text\"" : "",
               near_field_text(row, plain));
  if (has_messages) {
    prompt.messages = read_messages(row, place);
    while (plain && prompt.messages.size() > 1 && prompt.messages.back().role == "assistant")
      prompt.messages.pop_back();
  } else {
    prompt.text = filled_field(row, text_key, text_key, place);
  }
  prompt.id = id_field(row, "id", place).value_or("");
  if (row.contains("category")) prompt.category = string_field(row, "category", "category", place);
  if (row.contains("max_tokens")) prompt.max_tokens = checked_tokens(row["max_tokens"], "max_tokens", place);
  return prompt;
}

/// {"question_id", "category", "turns": ["...", ...]}: the first turn.
Prompt read_turns(const json& row, const Place& place, DatasetFormat format) {
  Prompt prompt;
  const json& turns = array_field(row, "turns", "turns", place);
  if (!turns[0].is_string()) place.fail("field \"turns[0]\" is of type {}: expected a string", turns[0].type_name());
  prompt.messages = {{.role = "user", .content = turns[0].get<std::string>()}};
  if (prompt.messages[0].content.empty()) place.fail("field \"turns[0]\" is empty: expected text");
  const std::optional<std::string> id = id_field(row, "question_id", place);
  if (!id) place.fail("field \"question_id\" is missing: expected an integer or a string");
  prompt.id = *id;
  prompt.category = string_field(row, "category", "category", place);
  if (format == DatasetFormat::spec_bench && mt_bench_categories().contains(prompt.category))
    prompt.category = "mt_bench";
  return prompt;
}

/// {"task_id", "prompt"}: code to go on with, as it stands.
Prompt read_humaneval(const json& row, const Place& place) {
  Prompt prompt;
  prompt.id = filled_field(row, "task_id", "task_id", place);
  prompt.text = filled_field(row, "prompt", "prompt", place);
  prompt.category = "code";
  return prompt;
}

/// {"question", "answer"}: the question; the answer is not used.
Prompt read_gsm8k(const json& row, const Place& place) {
  Prompt prompt;
  prompt.messages = {{.role = "user", .content = filled_field(row, "question", "question", place)}};
  string_field(row, "answer", "answer", place);
  prompt.category = "math";
  return prompt;
}

Prompt read_row(const json& row, const Place& place, DatasetFormat format) {
  switch (format) {
    case DatasetFormat::spec_bench:
    case DatasetFormat::mt_bench: return read_turns(row, place, format);
    case DatasetFormat::humaneval: return read_humaneval(row, place);
    case DatasetFormat::gsm8k: return read_gsm8k(row, place);
    default: return read_own(row, place, format);
  }
}

/// Spec-Bench's file begins with MT-bench's records: it is told by the categories behind them.
DatasetFormat format_of_turns(std::string_view text) {
  LineReader lines(text);
  while (const auto line = lines.next()) {
    const json row = json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) continue;
    const auto category = row.find("category");
    if (category != row.end() && category->is_string() &&
        !mt_bench_categories().contains(category->get_ref<const std::string&>()))
      return DatasetFormat::spec_bench;
  }
  return DatasetFormat::mt_bench;
}

std::optional<DatasetFormat> format_of_row(const json& row, std::string_view text) {
  const auto has = [&row](const char* key) { return row.contains(key); };
  if (has("turns")) return format_of_turns(text);
  if (has("task_id") && has("prompt")) return DatasetFormat::humaneval;
  if (has("_header") || has("messages") || has("prompt")) {
    return has("text") ? DatasetFormat::jsonl : DatasetFormat::paceline;
  }
  if (has("text")) return DatasetFormat::jsonl;
  if (has("question") && has("answer")) return DatasetFormat::gsm8k;
  if (has("data") && row["data"].is_array()) return DatasetFormat::squad;
  return std::nullopt;
}

std::string keys_of(const json& row) {
  constexpr int kMostListed = 8;
  std::string keys;
  int listed = 0;
  for (const auto& [key, value] : row.items()) {
    if (++listed > kMostListed) return keys + ", ...";
    keys += fmt::format("{}\"{}\"", keys.empty() ? "" : ", ", key.substr(0, 40));
  }
  return keys.empty() ? "no keys" : keys;
}

constexpr const char* kKnownForms =
    "expected JSON Lines with \"messages\", \"prompt\", \"text\", \"turns\" or \"question\" and \"answer\", a SQuAD or "
    "ShareGPT document, or CSV with a column \"prompt\"; workload.format names one";

}  // namespace

void read_json_lines(std::string_view text, DatasetFormat format, PromptCollector& out) {
  LineReader lines(text);
  bool first = true;
  while (const auto line = lines.next()) {
    if (is_blank(*line)) continue;
    // What the first record says of the file is no prompt.
    const bool may_be_header = std::exchange(first, false) && line->find("\"_header\"") != std::string_view::npos;
    if (may_be_header && parse_record(*line, out.at(lines.line())).contains("_header")) continue;
    out.add(lines.line(), [&](const Place& place) { return read_row(parse_record(*line, place), place, format); });
  }
}

DatasetFormat detect_format(std::string_view text, const std::filesystem::path& file) {
  constexpr int kMostLooked = 100;  // lines: a few bad ones at the start do not hide the form
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const Place top{.file = file.string(), .line = 1};
  if (begin == std::string_view::npos) fail(ExitCode::model_file, "{}: is empty: it holds no prompt", file.string());
  if (text[begin] == '[') {
    const auto names = [&](std::string_view field) { return text.find(field) != std::string_view::npos; };
    if (!names("\"conversations\"") && (names("\"prompt\"") || names("\"messages\"") || names("\"text\"")))
      top.fail("found a JSON array, expected one object a line (JSON Lines)");
    return DatasetFormat::sharegpt;
  }
  LineReader lines(text);
  if (text[begin] != '{') {
    while (const auto line = lines.next())
      if (!is_blank(*line)) {
        if (is_csv_header(*line)) return DatasetFormat::csv;
        break;
      }
  }
  std::optional<Place> unknown;
  std::string found;
  for (int looked = 0; looked < kMostLooked;) {
    const auto line = lines.next();
    if (!line) break;
    if (is_blank(*line)) continue;
    ++looked;
    const json row = json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) continue;
    if (row.contains("_header")) return DatasetFormat::paceline;
    if (const auto format = format_of_row(row, text)) return *format;
    if (!unknown) {
      unknown = Place{.file = file.string(), .line = lines.line()};
      found = keys_of(row);
    }
  }
  if (unknown) unknown->fail("the form is not known: found {}; {}", found, kKnownForms);
  // No line is an object by itself: one document over many lines, or not JSON at all.
  if (text[begin] == '{' && text.find("\"paragraphs\"") != std::string_view::npos) return DatasetFormat::squad;
  if (text[begin] == '{') return DatasetFormat::paceline;  // its first line says what is wrong
  top.fail("the form is not known; {}", kKnownForms);
}

}  // namespace paceline
