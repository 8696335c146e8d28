#include "engine/util/suggest.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include <fmt/format.h>

namespace paceline {

namespace {

constexpr size_t kMaxCompared = 64;

/// Dashes of an option are none of its letters.
std::string fold(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string folded(word.substr(0, kMaxCompared));
  for (char& c : folded) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return folded;
}

/// "rate_per_s" for "rate"; none where several names begin with the word, or with so few letters.
std::optional<std::string> only_name_begun_by(const std::string& folded, const std::vector<std::string>& candidates) {
  constexpr size_t kLeastLetters = 3;
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    if (folded.size() < kLeastLetters || !fold(candidate).starts_with(folded + "_")) continue;
    if (found) return std::nullopt;
    found = candidate;
  }
  return found;
}

}  // namespace

size_t edit_distance(std::string_view left, std::string_view right) {
  left = left.substr(0, kMaxCompared);
  right = right.substr(0, kMaxCompared);
  std::vector<size_t> two_back(right.size() + 1), back(right.size() + 1), row(right.size() + 1);
  for (size_t j = 0; j <= right.size(); ++j) back[j] = j;
  for (size_t i = 1; i <= left.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= right.size(); ++j) {
      const size_t change = left[i - 1] == right[j - 1] ? 0 : 1;
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + change});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        row[j] = std::min(row[j], two_back[j - 2] + 1);
      }
    }
    std::swap(two_back, back);
    std::swap(back, row);
  }
  return back[right.size()];
}

std::optional<std::string> nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string folded = fold(word);
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(1, folded.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(folded, fold(candidate));
    // A name of which every letter differs is no hint ("k" for "x").
    if (distance < best_distance && distance < std::max(folded.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best ? best : only_name_begun_by(folded, candidates);
}

std::vector<std::string> file_names_in(const std::filesystem::path& folder, const std::set<std::string>& extensions) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder.empty() ? "." : folder, ignored))
    if (extensions.contains(entry.is_directory(ignored) ? "" : entry.path().extension().string()))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string or_list(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::optional<std::string> name = nearest_name(word, candidates);
  return name ? fmt::format(" (did you mean \"{}\"?)", *name) : std::string();
}

}  // namespace paceline
