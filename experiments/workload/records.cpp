#include "experiments/workload/records.h"

#include <algorithm>
#include <set>
#include <vector>

#include "engine/text/utf8.h"
#include "engine/util/json_io.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr int kMaxOutputTokens = 1 << 24;

/// `object[key]`, which messages call `name`: of that type, which they call `what`.
const json& field(const json& object, const char* key, const std::string& name, json::value_t type, const char* what,
                  const Place& place) {
  const auto it = object.find(key);
  if (it == object.end()) place.fail("field \"{}\" is missing: expected {}", name, what);
  if (it->type() != type) place.fail("field \"{}\" is of type {}: expected {}", name, it->type_name(), what);
  return *it;
}

}  // namespace

std::optional<std::string_view> LineReader::next() {
  if (at_ >= text_.size()) return std::nullopt;
  const size_t end = std::min(text_.find('\n', at_), text_.size());
  std::string_view line = text_.substr(at_, end - at_);
  at_ = end + 1;
  ++line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

json parse_record(std::string_view text, const Place& place) {
  if (static_cast<int64_t>(text.size()) > kMaxDatasetLineBytes)
    place.fail("the line is longer than {} bytes: one record a line is expected", kMaxDatasetLineBytes);
  json row;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMaxRecordDepth) place.fail("nested more than {} deep", kMaxRecordDepth);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      place.fail("key {} stands twice: expected each key once", json_literal(value.get_ref<const std::string&>()));
    return true;
  };
  try {
    row = json::parse(text, check);
  } catch (const json::out_of_range&) {
    place.fail("a number is beyond the range of 64-bit floating point");
  } catch (const json::parse_error& e) {
    if (!utf8_valid(text)) place.fail("is not UTF-8: save the file as UTF-8");
    const size_t byte = std::clamp<size_t>(e.byte, 1, text.size() + 1);
    const std::string_view before = text.substr(0, byte - 1);
    const size_t line_begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    Place at = place;
    at.line += std::count(before.begin(), before.end(), '\n');
    at.fail("column {}: not valid JSON: expected one object a line", byte - line_begin);
  }
  if (!row.is_object()) place.fail("is of type {}: expected one object a line", row.type_name());
  return row;
}

void check_object(const json& value, const std::string& name, const Place& place) {
  if (!value.is_object()) place.fail("field \"{}\" is of type {}: expected an object", name, value.type_name());
}

const std::string& string_field(const json& object, const char* key, const std::string& name, const Place& place) {
  return field(object, key, name, json::value_t::string, "a string", place).get_ref<const std::string&>();
}

const std::string& filled_field(const json& object, const char* key, const std::string& name, const Place& place) {
  const std::string& text = string_field(object, key, name, place);
  if (text.empty()) place.fail("field \"{}\" is empty: expected text", name);
  return text;
}

const json& array_field(const json& object, const char* key, const std::string& name, const Place& place) {
  const json& list = field(object, key, name, json::value_t::array, "an array", place);
  if (list.empty()) place.fail("field \"{}\" is empty: expected at least one element", name);
  return list;
}

std::optional<std::string> id_field(const json& object, const char* key, const Place& place) {
  const auto it = object.find(key);
  if (it == object.end()) return std::nullopt;
  if (it->is_number_integer()) return it->dump();
  return string_field(object, key, key, place);
}

int checked_tokens(const json& value, const char* name, const Place& place) {
  const auto number = integer_of<int>(value);
  if (!number || *number < 1 || *number > kMaxOutputTokens)
    place.fail("field \"{}\" is {}: expected an integer from 1 to {}", name,
               value.is_number() ? value.dump() : std::string("of type ") + value.type_name(), kMaxOutputTokens);
  return *number;
}

PromptCollector::PromptCollector(const std::filesystem::path& file, const DatasetOptions& options)
    : file_(file), options_(options) {}

void PromptCollector::take(Prompt prompt, const Place& place) {
  if (prompt.id.empty()) prompt.id = fmt::format("{}-{}", file_.stem().string(), place.line);
  const auto [known, is_new] = line_of_id_.emplace(prompt.id, place.line);
  if (!is_new) place.fail("field \"id\": \"{}\" was used in line {}: ids must differ", prompt.id, known->second);
  prompt.index = static_cast<int64_t>(dataset_.prompts.size());
  dataset_.prompts.push_back(std::move(prompt));
}

void PromptCollector::refuse(const Error& error) {
  if (error.code() != ExitCode::model_file) throw error;
  if (options_.bad_records == BadRecords::refuse)
    fail(ExitCode::model_file, "{}; workload.skip_bad leaves bad records out", error.what());
  if (dataset_.num_bad++ == 0) dataset_.first_bad = error.what();
}

Dataset PromptCollector::finish(DatasetFormat format) {
  dataset_.format = format;
  if (dataset_.prompts.empty() && dataset_.num_bad > 0)
    fail(ExitCode::model_file, "{}: all {} records are bad as {}; the first: {}", file_.string(), dataset_.num_bad,
         name_of(format), dataset_.first_bad);
  if (dataset_.prompts.empty())
    fail(ExitCode::model_file, "{}: holds no prompt: expected at least one record of format {}", file_.string(),
         name_of(format));
  return std::move(dataset_);
}

}  // namespace paceline
