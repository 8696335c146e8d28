#pragma once
// Bounded, strict JSON for files that may be hostile: duplicate keys, deep nesting, oversized input and raw NUL bytes
// are errors; every error is one line with file:line:column.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace paceline {

struct JsonLimits {
  size_t max_bytes = size_t{64} << 20;
  int max_depth = 64;  // open arrays and objects at once
};

/// Parses all of `text`; `source` names it in messages. Throws Error(code).
nlohmann::json parse_json(std::string_view text, const std::string& source, ExitCode code,
                          const JsonLimits& limits = {});

/// The same, with the keys of each object in their order.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& source, ExitCode code,
                                          const JsonLimits& limits = {});

/// Same for a user's file: Error(code) where it cannot be read (UserFile) as well.
nlohmann::json read_json_file(const std::filesystem::path& path, ExitCode code, const JsonLimits& limits = {});

/// Same for a model's configuration: a file that cannot be read is the model's fault, what it says is configuration
/// (Error(usage)).
nlohmann::json read_model_config(const std::filesystem::path& path);

/// The value at a dotted path of nested objects, "engine.parallel.tp"; null where it leads nowhere.
const nlohmann::json* find_value(const nlohmann::json& tree, std::string_view path);

/// The integer that it is; nothing where it is written with a fraction or an exponent, does not fit T or is below
/// `least`.
template <std::integral T, class Json>
std::optional<T> integer_of(const Json& value, T least = std::numeric_limits<T>::min()) {
  const auto fitting = [&](auto number) {
    return std::in_range<T>(number) && T(number) >= least ? std::optional(T(number)) : std::nullopt;
  };
  if (value.is_number_unsigned()) return fitting(value.template get<uint64_t>());
  return value.is_number_integer() ? fitting(value.template get<int64_t>()) : std::nullopt;
}

/// A string without its quotes, anything else as JSON: for names and labels.
template <class Json>
std::string bare_text(const Json& value) {
  return value.is_string() ? value.template get<std::string>() : value.dump();
}

/// `text` as a JSON string literal of at most about 100 characters: safe inside a one-line message.
std::string json_literal(std::string_view text);

/// A JSON value as a short one-line text for messages.
std::string short_dump(const nlohmann::json& value);

}  // namespace paceline
