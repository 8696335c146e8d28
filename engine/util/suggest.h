#pragma once
// "Did you mean": the nearest known name to a mistyped one.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

/// Edit distance with insertions, deletions, substitutions and swaps of neighbours (optimal string alignment), in
/// bytes. Inputs are cut at 64 bytes: names are short, and the cost is quadratic.
size_t edit_distance(std::string_view left, std::string_view right);

/// The candidate nearest to `word`, or nothing when even the nearest shares too little with it (more than a third of
/// the letters differ). Case, the difference between '-' and '_', and leading dashes count as nothing. Ties go to the
/// earlier candidate. Where none is near, the only one that begins with the word: "rate_per_s" for "rate".
std::optional<std::string> nearest_name(std::string_view word, const std::vector<std::string>& candidates);

/// Names of the files in `folder` ("": the current one) with one of these extensions, sorted; folders count as files
/// without one.
std::vector<std::string> file_names_in(const std::filesystem::path& folder, const std::set<std::string>& extensions);

/// "a, b or c".
std::string or_list(const std::vector<std::string>& words);

/// ` (did you mean "x"?)` for the nearest candidate, or an empty string.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace paceline
