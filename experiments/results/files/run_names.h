#pragma once
// What people type in place of a run's folder, and what they say about a run: its place in time, tags and a note.

#include <compare>
#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

/// Which of two runs began later, whatever the wall clock did between them. Runs sort by the second in their names. A
/// run that the name would not put behind all that were there when it began (the clock went back; the same second) has
/// a file `order` with the stamp of the newest of these and a number that is one higher.
struct RunOrder {
  std::string stamp;  // "2026-11-21T093012Z"
  int number = 0;

  auto operator<=>(const RunOrder&) const = default;
};

/// By the file `order` where there is one that can be read, else by the name.
RunOrder run_order(const std::filesystem::path& folder);

/// Makes `folder`, which is new below `root` and is no run yet, the last one. Throws Error(store).
void place_last(const std::filesystem::path& root, const std::filesystem::path& folder);

struct RunLabels {
  std::vector<std::string> tags;  // letters, digits, '-', '_' and '.'; a tag names one run of a results folder
  std::string note;
  bool operator==(const RunLabels&) const = default;
};

/// Of <folder>/labels.json; nothing where there is none. Throws Error(store).
RunLabels read_labels(const std::filesystem::path& folder);
void write_labels(const std::filesystem::path& folder, const RunLabels& labels);

/// Throws Error(usage) unless `tag` can be one.
void check_tag(const std::string& tag);
/// The same for a tag that is to be given: also refuses names that find a run by its age, as `last` does.
void check_new_tag(const std::string& tag);

/// The folder that `name` means below `root`: "last" or "latest", "last~2" (the third newest), "@tag", the first
/// letters of an id or of the hash at its end (four at least), or a path to a folder. Throws Error(usage) when there is
/// none or several; names what there is.
std::filesystem::path find_run(const std::filesystem::path& root, const std::string& name);

/// Ids of all run folders below `root`, in the order in which they began (run_order()). Folders without a manifest are
/// no runs.
std::vector<std::string> list_runs(const std::filesystem::path& root);

}  // namespace paceline
