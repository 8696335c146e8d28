#pragma once
// Values out of JSON that may be anything.

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace paceline {

/// As value.get<T>(), but an integer (or a list of them) that is written as a fraction or does not fit T throws
/// nlohmann::json::type_error too, where get() would convert it somehow.
template <class T>
T value_of(const nlohmann::json& value) {
  return value.get<T>();
}

template <std::integral T>
requires(!std::same_as<T, bool>) T value_of(const nlohmann::json& value) {
  const bool fits = value.is_number_unsigned()  ? std::in_range<T>(value.get<uint64_t>())
                    : value.is_number_integer() ? std::in_range<T>(value.get<int64_t>())
                                                : false;
  if (!fits) {
    throw nlohmann::json::type_error::create(
        302, fmt::format("expected an integer of {} bytes, found {}", sizeof(T), value.dump().substr(0, 40)), &value);
  }
  return value.get<T>();
}

template <class List>
requires std::same_as<List, std::vector<typename List::value_type>> && std::integral<typename List::value_type> List
value_of(const nlohmann::json& value) {
  List out;
  for (const nlohmann::json& item : value.get_ref<const nlohmann::json::array_t&>())
    out.push_back(value_of<typename List::value_type>(item));
  return out;
}

/// The member `key` where it is a string, else "".
inline std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace paceline
