#pragma once
// What the loaders of all forms share: where an error lies, how lines and JSON records are taken out of a file, and
// what becomes of bad ones. Internal to experiments/workload.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "experiments/workload/dataset.h"
#include "kernels/error.h"

namespace paceline {

/// Where a record lies. `line` counts from 1; `record` names one among those of a line ("[3], id \"a\"") and may be
/// empty.
struct Place {
  std::string file;
  int64_t line = 0;
  std::string record = {};

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    paceline::fail(ExitCode::model_file, "{}:{}: {}{}{}", file, line, record, record.empty() ? "" : ": ",
                   fmt::format(format, std::forward<Args>(args)...));
  }
};

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // UTF-8
inline constexpr int kMaxRecordDepth = 64;                          // open arrays and objects of a JSON record

/// The lines of a text, without their ends ("\n" or "\r\n"). The text outlives the reader.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : text_(text) {}
  /// The next line, or nothing at the end of the text.
  std::optional<std::string_view> next();
  int64_t line() const { return line_; }  // number of the line that next() gave

 private:
  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 0;
};

bool is_blank(std::string_view line);

/// Parses one JSON object. `place` is where the text begins; an error names the line where it lies. Throws
/// Error(model_file): too long, nested too deep, bad JSON, no object.
nlohmann::json parse_record(std::string_view text, const Place& place);

/// `object[key]`, which messages call `name`. Throws Error(model_file) when it is missing or no string; the second form
/// also when it is empty.
const std::string& string_field(const nlohmann::json& object, const char* key, const std::string& name,
                                const Place& place);
const std::string& filled_field(const nlohmann::json& object, const char* key, const std::string& name,
                                const Place& place);
/// Throws Error(model_file) unless the value is an object.
void check_object(const nlohmann::json& value, const std::string& name, const Place& place);
/// `object[key]` as an array. Throws likewise, and when it is empty.
const nlohmann::json& array_field(const nlohmann::json& object, const char* key, const std::string& name,
                                  const Place& place);
/// Text of a string or an integer; nothing where the key is absent.
std::optional<std::string> id_field(const nlohmann::json& object, const char* key, const Place& place);

/// A number of tokens, of a field that messages call `name`. Throws Error(model_file) unless it is an integer from 1 to
/// 16777216.
int checked_tokens(const nlohmann::json& value, const char* name, const Place& place);

/// Takes prompts in the file's order; gives them their index and, where they have none, an id.
class PromptCollector {
 public:
  PromptCollector(const std::filesystem::path& file, const DatasetOptions& options);

  Place at(int64_t line) const { return {.file = file_.string(), .line = line}; }

  /// Adds what `read(place)` returns. An Error(model_file) of it, or an id that was used before, is thrown on with the
  /// way out, or counted, as the options say.
  template <class Read>
  void add(int64_t line, Read&& read) {
    const Place place = at(line);
    guard([&] { take(read(place), place); });
  }
  /// Whether `read()`, which reads what several prompts share, came to its end; an Error of it is treated as above.
  template <class Read>
  bool guard(Read&& read) {
    try {
      read();
      return true;
    } catch (const Error& error) {
      refuse(error);
      return false;
    }
  }

  /// What is complete: throws Error(model_file) where there is no prompt.
  Dataset finish(DatasetFormat format);

 private:
  void take(Prompt prompt, const Place& place);
  void refuse(const Error& error);

  std::filesystem::path file_;
  DatasetOptions options_;
  Dataset dataset_;
  std::unordered_map<std::string, int64_t> line_of_id_;
};

/// The loaders: each adds all records of `text`.
void read_json_lines(std::string_view text, DatasetFormat format, PromptCollector& out);
void read_squad(std::string_view text, PromptCollector& out);
void read_sharegpt(std::string_view text, PromptCollector& out);
void read_csv(std::string_view text, PromptCollector& out);

/// True for the columns that a CSV of prompts has; `header` is its first line.
bool is_csv_header(std::string_view header);

/// The form of a text by its first records. Throws Error(model_file) saying what was found and what is expected.
DatasetFormat detect_format(std::string_view text, const std::filesystem::path& file);

}  // namespace paceline
