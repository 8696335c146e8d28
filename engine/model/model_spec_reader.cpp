#include "engine/model/model_spec_reader.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "engine/util/json_io.h"
#include "engine/util/suggest.h"

namespace paceline {

using nlohmann::json;

namespace {
std::string expected_integer(IntRange range) { return fmt::format("an integer in [{}, {}]", range.min, range.max); }
std::string expected_real(RealRange range) { return fmt::format("a number in [{}, {}]", range.min, range.max); }

/// Shorter keys of another meaning may be as near.
bool are_near(std::string_view key, std::string_view other) {
  constexpr size_t kMostEdits = 2, kFewestLetters = 8;
  return key.size() >= kFewestLetters && edit_distance(key, other) <= kMostEdits;
}
}  // namespace

ConfigReader::ConfigReader(const json& object, std::string source, std::string path)
    : object_(&object), source_(std::move(source)), path_(std::move(path)) {
  if (!object.is_object())
    fail(ExitCode::usage, "{}: {}found {}, expected an object", source_, path_.empty() ? "" : path_ + ": ",
         short_dump(object));
}

const json* ConfigReader::find(std::string_view key) const {
  asked_->emplace(key);
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::mentions(std::string_view key) const { return object_->contains(key); }

std::string ConfigReader::where(std::string_view key) const {
  return fmt::format("{}: {}{}{}", source_, path_, path_.empty() ? "" : ".", key);
}

void ConfigReader::wrong(std::string_view key, const std::string& expected) const {
  const json* value = find(key);
  if (!value) {
    for (const auto& [near, ignored] : object_->items())
      if (!asked_->contains(near) && are_near(near, key))
        fail(ExitCode::usage, "{} is missing; expected {}; found {}", where(key), expected, json_literal(near));
    fail(ExitCode::usage, "{} is missing; expected {}", where(key), expected);
  }
  fail(ExitCode::usage, "{}: found {}, expected {}", where(key), short_dump(*value), expected);
}

int ConfigReader::checked_int(const json& value, std::string_view key, IntRange range) const {
  const auto number = integer_of<int>(value);
  if (!number || *number < range.min || *number > range.max) wrong(key, expected_integer(range));
  return *number;
}

int ConfigReader::integer(std::string_view key, IntRange range) const {
  const json* value = find(key);
  if (!value) wrong(key, expected_integer(range));
  return checked_int(*value, key, range);
}

int ConfigReader::integer(std::string_view key, IntRange range, int otherwise) const {
  return has(key) ? integer(key, range) : otherwise;
}

double ConfigReader::real(std::string_view key, RealRange range) const {
  const json* value = find(key);
  if (!value || !value->is_number()) wrong(key, expected_real(range));
  const double number = value->get<double>();
  if (!(number >= range.min && number <= range.max)) wrong(key, expected_real(range));
  return number;
}

double ConfigReader::real(std::string_view key, RealRange range, double otherwise) const {
  return has(key) ? real(key, range) : otherwise;
}

bool ConfigReader::boolean(std::string_view key, bool otherwise) const {
  const json* value = find(key);
  if (!value) return otherwise;
  if (!value->is_boolean()) wrong(key, "true or false");
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view key) const {
  const json* value = find(key);
  if (!value || !value->is_string()) wrong(key, "a string");
  return value->get<std::string>();
}

std::string ConfigReader::text(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

std::vector<std::string> ConfigReader::texts(std::string_view key) const {
  const json* value = find(key);
  if (!value || !value->is_array() || value->empty()) wrong(key, "a non-empty array of strings");
  std::vector<std::string> result;
  for (const json& each : *value) {
    if (!each.is_string()) wrong(key, "a non-empty array of strings");
    result.push_back(each.get<std::string>());
  }
  return result;
}

std::vector<int32_t> ConfigReader::integers(std::string_view key, IntRange range) const {
  const json* value = find(key);
  if (!value) return {};
  if (!value->is_array()) return {checked_int(*value, key, range)};
  std::vector<int32_t> result;
  for (const json& each : *value) result.push_back(checked_int(each, key, range));
  return result;
}

std::vector<double> ConfigReader::reals(std::string_view key, RealRange range) const {
  const std::string expected = fmt::format("an array of numbers in [{}, {}]", range.min, range.max);
  const json* value = find(key);
  if (!value || !value->is_array()) wrong(key, expected);
  std::vector<double> result;
  for (const json& each : *value) {
    if (!each.is_number() || !(each.get<double>() >= range.min && each.get<double>() <= range.max))
      wrong(key, expected);
    result.push_back(each.get<double>());
  }
  return result;
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) const {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) wrong(key, "an object");
  return ConfigReader(*value, source_, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

const json& ConfigReader::value(std::string_view key) const { return *find(key); }

std::vector<std::string> ConfigReader::misspelled(const json& written) const {
  std::vector<std::string> found;
  for (const auto& [key, ignored] : written.items()) {
    if (asked_->contains(key) || key.starts_with('_') || key.ends_with("_token_id")) continue;
    const auto meant = std::find_if(asked_->begin(), asked_->end(), [&](const std::string& asked) {
      return !written.contains(asked) && are_near(key, asked);
    });
    if (meant != asked_->end())
      found.push_back(fmt::format("{} is not known (did you mean {}?)", where(key), json_literal(*meant)));
  }
  return found;
}

void warn_of_misspelled(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) spdlog::warn("{}", key);
}

}  // namespace paceline
