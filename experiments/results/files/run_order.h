#pragma once
// Which of two runs began later, whatever the wall clock did between them.

#include <compare>
#include <filesystem>
#include <string>

namespace paceline {

/// Runs sort by the second in their names. A run that the name would not put behind all that were there when it began
/// (the clock went back; the same second) has a file `order` with the stamp of the newest of these and a number that is
/// one higher.
struct RunOrder {
  std::string stamp;  // "2026-11-21T093012Z"
  int number = 0;

  auto operator<=>(const RunOrder&) const = default;
};

/// By the file `order` where there is one that can be read, else by the name.
RunOrder run_order(const std::filesystem::path& folder);

/// Makes `folder`, which is new below `root` and is no run yet, the last one. Throws Error(store).
void place_last(const std::filesystem::path& root, const std::filesystem::path& folder);

}  // namespace paceline
