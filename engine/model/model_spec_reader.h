#pragma once
// Typed, range-checked access to the fields of a config.json object.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline {

struct IntRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int32_t>::max();
};

struct RealRange {
  double min = 0.0;
  double max = 0.0;
};

/// A view of one JSON object: `source` and the dotted `path` name it in messages. A field that is null counts as
/// absent. Readers throw Error(usage): file, JSON path, value found, what was expected. Of one thread.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& object, std::string source, std::string path = "");

  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool mentions(std::string_view key) const;  // present, even if null

  int integer(std::string_view key, IntRange range) const;
  int integer(std::string_view key, IntRange range, int otherwise) const;
  double real(std::string_view key, RealRange range) const;
  double real(std::string_view key, RealRange range, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  std::vector<std::string> texts(std::string_view key) const;                 // an array of strings
  std::vector<int32_t> integers(std::string_view key, IntRange range) const;  // one integer or an array; absent: none
  std::vector<double> reals(std::string_view key, RealRange range) const;     // an array of numbers
  std::optional<ConfigReader> object(std::string_view key) const;

  const nlohmann::json& value(std::string_view key) const;  // REQUIRES has(key)
  std::string where(std::string_view key) const;            // "dir/config.json: rope_scaling.factor"
  const std::string& source() const { return source_; }

  /// "rope_tetha is not known (did you mean \"rope_theta\"?)": of each key that nobody asked for, where one that was
  /// asked for in vain is spelled nearly so. Not of those with '_' before them, which are nobody's, nor of tokens' ids.
  std::vector<std::string> misspelled() const { return misspelled(*object_); }
  /// The same of `written`, which lacks what this object has beside it.
  std::vector<std::string> misspelled(const nlohmann::json& written) const;

 private:
  const nlohmann::json* find(std::string_view key) const;
  [[noreturn]] void wrong(std::string_view key, const std::string& expected) const;
  int checked_int(const nlohmann::json& value, std::string_view key, IntRange range) const;

  const nlohmann::json* object_;
  std::shared_ptr<std::set<std::string, std::less<>>> asked_ = std::make_shared<std::set<std::string, std::less<>>>();
  std::string source_;
  std::string path_;
};

/// One warning each.
void warn_of_misspelled(const std::vector<std::string>& keys);

}  // namespace paceline
