#pragma once
// What people say about a run: tags, a note, and whether it stays when old ones are removed.

#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

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

}  // namespace paceline
