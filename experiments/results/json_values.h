#pragma once
// Values out of JSON that may be anything.

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace paceline {

/// As json.get<T>(), but an integer (or a list of them) that is written as a fraction or does not fit T throws
/// nlohmann::json::type_error too, where get() would convert it somehow.
template <class T>
T value_of(const nlohmann::json& json) {
  return json.get<T>();
}

template <std::integral T>
requires(!std::same_as<T, bool>) T value_of(const nlohmann::json& json) {
  const bool fits = json.is_number_unsigned()  ? std::in_range<T>(json.get<uint64_t>())
                    : json.is_number_integer() ? std::in_range<T>(json.get<int64_t>())
                                               : false;
  if (!fits) {
    throw nlohmann::json::type_error::create(
        302, fmt::format("expected an integer of {} bytes, found {}", sizeof(T), json.dump().substr(0, 40)), &json);
  }
  return json.get<T>();
}

template <class List>
requires std::same_as<List, std::vector<typename List::value_type>> && std::integral<typename List::value_type> List
value_of(const nlohmann::json& json) {
  List out;
  for (const nlohmann::json& item : json.get_ref<const nlohmann::json::array_t&>())
    out.push_back(value_of<typename List::value_type>(item));
  return out;
}

/// The member `key` where it is a string, else "".
inline std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace paceline
