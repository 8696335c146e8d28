#include "experiments/analysis/metrics/csv.h"

#include <sstream>

namespace paceline {
namespace {

using nlohmann::json;

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string value_text(const json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return quoted(value.get<std::string>());
  if (!value.is_array()) return value.dump();
  std::string out;
  for (const json& item : value) out += (out.empty() ? "" : " ") + value_text(item);
  return out;
}

}  // namespace

std::string to_csv(std::string_view columns, const std::vector<json>& rows) {
  std::vector<json::json_pointer> places;
  std::string out;
  std::istringstream words{std::string(columns)};
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    places.emplace_back("/" + (equals == std::string::npos ? word : word.substr(equals + 1)));
    out += (places.size() == 1 ? "" : ",") + word.substr(0, equals);
  }
  out += "\n";
  for (const json& row : rows)
    for (const json::json_pointer& place : places)
      out += (row.contains(place) ? value_text(row[place]) : "") + (&place == &places.back() ? "\n" : ",");
  return out;
}

}  // namespace paceline
