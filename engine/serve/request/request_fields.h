#pragma once
// The fields of one object of a request's body, asked for by name, so that none is ignored. Errors are ApiErrors of
// status 400 with the field in `param`.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline {

[[noreturn]] void reject(const std::string& param, const std::string& message, const std::string& code = {});
/// "param: found VALUE, expected EXPECTED"
[[noreturn]] void reject_value(const std::string& param, const nlohmann::ordered_json& value,
                               std::string_view expected);
/// A value in a message: "a list", "\"text\"", "7".
std::string shown_value(const nlohmann::ordered_json& value);

/// Hands out an object's fields, and knows which nobody has asked for. A field that is null counts as absent.
class RequestFields {
 public:
  using Json = nlohmann::ordered_json;

  /// path: "" for the body, else what stands before each name ("stream_options."). REQUIRES that `object` outlives it.
  RequestFields(const Json& object, std::string path);

  std::string param(std::string_view name) const { return path_ + std::string(name); }

  /// Null: absent, or null.
  const Json* find(const char* name);
  std::optional<bool> boolean(const char* name);
  std::optional<std::string> text(const char* name);
  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most);
  /// A finite number in [least, most], or where `open` in (least, most].
  std::optional<double> number(const char* name, double least, double most, bool open = false);
  /// Of a field that is read where it asks for nothing only.
  void only(const char* name, std::initializer_list<Json> neutral);
  /// `; found "message"` where a field that nobody has asked for looks like `name`, which is missing; else "".
  std::string found_instead_of(const char* name) const;
  /// Throws for the first field that nobody has asked for, and that is not null.
  void finish() const;

  /// 3 and 3.0 are integers.
  static int64_t integer_in(const std::string& param, const Json& value, int64_t least, int64_t most);

 private:
  const Json& object_;
  const std::string path_;
  std::vector<std::string> asked_;
};

}  // namespace paceline
