#include "engine/serve/request/request_fields.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/serve/api_error.h"
#include "engine/util/json_io.h"
#include "engine/util/printable.h"
#include "engine/util/suggest.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTypeNames[] = {"null",      "an object", "an array", "a string",
                                      "a boolean", "a number",  "a number", "a number"};

const char* type_name(const Json& value) {
  const auto type = size_t(value.type());
  return type < std::size(kTypeNames) ? kTypeNames[type] : "something else";
}

/// 3 and 3.0; nothing for what has a fraction or does not fit.
std::optional<int64_t> as_integer(const Json& value) {
  if (!value.is_number_float()) return integer_of<int64_t>(value);
  const double number = value.get<double>();
  if (number != std::floor(number) || std::abs(number) > 0x1p53) return std::nullopt;
  return int64_t(number);
}

}  // namespace

std::string shown_value(const Json& value) {
  if (value.is_string()) return json_literal(value.get_ref<const std::string&>());
  return value.is_structured() ? type_name(value) : value.dump();
}

void reject(const std::string& param, const std::string& message, const std::string& code) {
  throw ApiError{.status = 400, .message = message, .param = param, .code = code};
}

void reject_value(const std::string& param, const Json& value, std::string_view expected) {
  reject(param, fmt::format("{}: found {}, expected {}", param, shown_value(value), expected));
}

RequestFields::RequestFields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object())
    reject(path_.empty() ? "" : path_.substr(0, path_.size() - 1),
           fmt::format("{}: found {}, expected an object", path_.empty() ? "body" : path_.substr(0, path_.size() - 1),
                       type_name(object)));
}

const RequestFields::Json* RequestFields::find(const char* name) {
  asked_.emplace_back(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> RequestFields::boolean(const char* name) {
  const Json* const value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) reject_value(param(name), *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> RequestFields::text(const char* name) {
  const Json* const value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) reject_value(param(name), *value, "a string");
  return value->get<std::string>();
}

std::optional<int64_t> RequestFields::integer(const char* name, int64_t least, int64_t most) {
  const Json* const value = find(name);
  if (!value) return std::nullopt;
  return integer_in(param(name), *value, least, most);
}

std::optional<double> RequestFields::number(const char* name, double least, double most, bool open) {
  const Json* const value = find(name);
  if (!value) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(number) || number < least || (open && number == least) || number > most)
    reject_value(param(name), *value,
                 fmt::format("a number {} {} and at most {}", open ? "above" : "of at least", least, most));
  return number;
}

void RequestFields::only(const char* name, std::initializer_list<Json> neutral) {
  const Json* const value = find(name);
  if (!value) return;
  for (const Json& one : neutral)
    if (*value == one) return;
  std::vector<std::string> words;
  for (const Json& one : neutral) words.push_back(one.dump());
  if (words.empty()) words.push_back("null");
  reject(param(name), fmt::format("{}: found {}, which is not supported; leave it out, or send {}", param(name),
                                  shown_value(*value), fmt::join(words, " or ")));
}

std::string RequestFields::found_instead_of(const char* name) const {
  std::vector<std::string> others;
  for (const auto& [other, value] : object_.items())
    if (std::find(asked_.begin(), asked_.end(), other) == asked_.end()) others.push_back(other);
  const auto near = nearest_name(name, others);
  return near ? fmt::format("; found \"{}\"", user_text(*near)) : "";
}

void RequestFields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null() || std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
    reject(param(user_text(name)),
           fmt::format("{}: unknown field{}", param(user_text(name)), did_you_mean(name, asked_)));
  }
}

int64_t RequestFields::integer_in(const std::string& param, const Json& value, int64_t least, int64_t most) {
  const auto found = as_integer(value);
  if (!found || *found < least || *found > most)
    reject_value(param, value, fmt::format("an integer from {} to {}", least, most));
  return *found;
}

}  // namespace paceline
