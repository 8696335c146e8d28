#pragma once
// The fields of a record, written once. A struct lists them beside its members:
//
//   template <class Visit> static void fields(Visit&& visit) {
//     visit("steps", &RunCounters::steps, "(sequence, target pass) pairs that emitted");
//   }
//
// A name, how to reach the value (a member, or a function of the object that returns a reference to one; one that
// returns a value is written and not read), what it means (`runexp config records` prints these for results/README.md),
// and a rule. From the list come the JSON and its reading. Numbers that are not finite are null; what is missing or
// null keeps its default, so that records of older programs can be read. All reading throws nlohmann::json::exception
// for JSON of another form.

#include <cmath>
#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/util/json_io.h"

namespace paceline {

/// As value.get<T>(), but an integer (or a list of them) that is written as a fraction or does not fit T throws
/// nlohmann::json::type_error too, where get() would convert it somehow.
template <class T>
T value_of(const nlohmann::json& value) {
  return value.get<T>();
}

template <std::integral T>
requires(!std::same_as<T, bool>) T value_of(const nlohmann::json& value) {
  const auto number = integer_of<T>(value);
  if (!number) {
    throw nlohmann::json::type_error::create(
        302, fmt::format("expected an integer of {} bytes, found {}", sizeof(T), value.dump().substr(0, 40)), &value);
  }
  return *number;
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

enum class FieldRule : uint8_t {
  plain,
  required,         // reading throws where it is missing
  sparse,           // written only where it is not the default
  null_if_default,  // null in place of the default
};

/// The list of T; another module's struct has a specialisation.
template <class T>
struct FieldsOf {
  template <class Visit>
  static void visit(Visit&& visit) requires requires {
    T::fields(visit);
  }
  { T::fields(visit); }
};

struct NoFieldVisitor {
  template <class Access>
  void operator()(const char*, Access, const char*, FieldRule = FieldRule::plain) const {}
};
template <class T>
concept HasFields = requires {
  FieldsOf<T>::visit(NoFieldVisitor());
};

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsListOfFields = false;
template <HasFields T>
inline constexpr bool kIsListOfFields<std::vector<T>> = true;

template <class T>
nlohmann::json field_to_json(const T& value);

template <class T>
bool is_default(const T& value, const T& made) {
  if constexpr (requires { value.empty(); })
    return value.empty();
  else if constexpr (requires { value.has_value(); })
    return !value.has_value();
  else if constexpr (requires { value == made; })
    return value == made;
  else
    return false;
}

/// Fields of `from` that `list(visit)` names.
template <class T, class List>
nlohmann::json fields_to_json(const T& from, const List& list) {
  [[maybe_unused]] static const T kMade{};
  nlohmann::json out = nlohmann::json::object();
  list([&](const char* name, auto access, const char*, FieldRule rule = FieldRule::plain) {
    const auto& value = std::invoke(access, from);
    const auto& made = std::invoke(access, kMade);
    const bool is_made = (rule == FieldRule::sparse || rule == FieldRule::null_if_default) && is_default(value, made);
    if (is_made && rule == FieldRule::sparse) return;
    out[name] = is_made ? nlohmann::json(nullptr) : field_to_json(value);
  });
  return out;
}

template <HasFields T>
nlohmann::json fields_to_json(const T& from) {
  return fields_to_json(from, [](auto&& visit) { FieldsOf<T>::visit(visit); });
}

template <class T>
nlohmann::json field_to_json(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? field_to_json(*value) : nlohmann::json(nullptr);
  } else if constexpr (HasFields<T>) {
    return fields_to_json(value);
  } else if constexpr (requires { value.low, value.high; }) {  // an interval
    const nlohmann::json low = field_to_json(value.low), high = field_to_json(value.high);
    return low.is_null() || high.is_null() ? nlohmann::json(nullptr) : nlohmann::json::array({low, high});
  } else if constexpr (kIsList<T>) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& one : value) list.push_back(field_to_json(one));
    return list;
  } else {
    return value;
  }
}

template <HasFields T>
void read_fields(const nlohmann::json& object, T& out);

template <class T>
void read_field(const nlohmann::json& value, T& out) {
  if constexpr (requires { out.has_value(); }) {
    if (value.is_object() && value.empty()) return;  // of an optional struct
    read_field(value, out.emplace());
  } else if constexpr (HasFields<T>) {
    read_fields(value, out);
  } else if constexpr (kIsListOfFields<T>) {
    for (const nlohmann::json& one : value) read_fields(one, out.emplace_back());
  } else if constexpr (std::is_enum_v<T>) {
    out = T(value_of<std::underlying_type_t<T>>(value));
  } else {
    out = value_of<T>(value);
  }
}

template <class T, class List>
void read_fields(const nlohmann::json& object, const List& list, T& out) {
  list([&](const char* name, auto access, const char*, FieldRule rule = FieldRule::plain) {
    using Reached = std::invoke_result_t<decltype(access), T&>;
    if constexpr (std::is_lvalue_reference_v<Reached> && !std::is_const_v<std::remove_reference_t<Reached>>) {
      auto& member = std::invoke(access, out);
      static const T kMade{};
      member = std::invoke(access, kMade);
      if (rule == FieldRule::required && !object.contains(name)) static_cast<void>(object.at(name));  // throws
      const auto found = object.find(name);
      if (found != object.end() && !found->is_null()) read_field(*found, member);
    }
  });
}

template <HasFields T>
void read_fields(const nlohmann::json& object, T& out) {
  read_fields(
      object, [](auto&& visit) { FieldsOf<T>::visit(visit); }, out);
}

template <HasFields T>
T from_fields(const nlohmann::json& object) {
  T out{};
  read_fields(object, out);
  return out;
}

/// A list of T as columns, {"time_ms": […], …}, which are shorter than objects.
template <HasFields T>
nlohmann::json columns_to_json(const std::vector<T>& rows) {
  nlohmann::json out = nlohmann::json::object();
  FieldsOf<T>::visit([&](const char* name, auto access, const char*, FieldRule = FieldRule::plain) {
    nlohmann::json& column = out[name] = nlohmann::json::array();
    for (const T& row : rows) column.push_back(field_to_json(std::invoke(access, row)));
  });
  return out;
}

/// Throws where columns are of different lengths.
template <HasFields T>
std::vector<T> columns_from_json(const nlohmann::json& object) {
  std::vector<T> rows;
  bool is_first = true;
  FieldsOf<T>::visit([&](const char* name, auto access, const char*, FieldRule = FieldRule::plain) {
    const nlohmann::json& column = object.at(name);
    if (std::exchange(is_first, false)) rows.resize(column.size());
    for (size_t i = 0; i < rows.size(); ++i)
      if (const nlohmann::json& value = column.at(i); !value.is_null()) read_field(value, std::invoke(access, rows[i]));
  });
  return rows;
}

}  // namespace paceline
