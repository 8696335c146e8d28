#pragma once
// JSON objects as lines of CSV, so that a value is made once for both.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline {

/// `columns`: heads with spaces between, "id tp=axes/tp"; behind = where the value stands in a row, where that is not
/// the member of the head's name. A line of heads, then one a row. What is null or absent is empty; items of a list
/// stand with spaces between; texts are quoted where they must be.
std::string to_csv(std::string_view columns, const std::vector<nlohmann::json>& rows);

}  // namespace paceline
