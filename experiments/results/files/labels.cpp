#include "experiments/results/files/labels.h"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "engine/util/json_io.h"
#include "engine/util/json_io_sax.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/store.h"
#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

std::filesystem::path labels_file(const std::filesystem::path& folder) { return folder / "labels.json"; }

}  // namespace

RunLabels read_labels(const std::filesystem::path& folder) {
  const std::filesystem::path file = labels_file(folder);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  const json labels = read_json_file(file, ExitCode::store);
  try {
    return {.tags = labels.at("tags").get<std::vector<std::string>>(), .note = labels.at("note").get<std::string>()};
  } catch (const json::exception& complaint) {
    fail(ExitCode::store, "{}: expected \"tags\", a list of words, and \"note\", a text: {}", file.string(),
         json_error_text(complaint.what()));
  }
}

void write_labels(const std::filesystem::path& folder, const RunLabels& labels) {
  write_file_atomic(
      labels_file(folder),
      dump_json({{"schema", "paceline.labels"}, {"schema_version", 1}, {"tags", labels.tags}, {"note", labels.note}}));
}

void check_tag(const std::string& tag) {
  const bool plain = !tag.empty() && tag.size() <= 60 && std::all_of(tag.begin(), tag.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (!plain) fail(ExitCode::usage, "tag \"{}\": expected at most 60 letters, digits, '-', '_' and '.'", tag);
}

void check_new_tag(const std::string& tag) {
  if (tag == "last" || tag == "latest" || tag.starts_with("last~"))
    fail(ExitCode::usage, "tag \"{}\": means the run that began last wherever a run is named: take another word", tag);
  check_tag(tag);
}

}  // namespace paceline
