#include "experiments/results/files/run_names.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "engine/util/json_io_sax.h"
#include "engine/util/suggest.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/store.h"
#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr const char* kOrderFile = "order";
constexpr size_t kShortestPrefix = 4;
constexpr size_t kMostNamed = 8;

bool is_run(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "manifest.json", ignored);
}

/// n of "last~n", 0 of "last" and "latest".
std::optional<size_t> steps_back(const std::string& name) {
  if (name == "last" || name == "latest") return 0;
  if (!name.starts_with("last~")) return std::nullopt;
  const char* const begin = name.data() + 5;
  const char* const end = name.data() + name.size();
  size_t steps = 0;
  const auto [stop, error] = std::from_chars(begin, end, steps);
  if (error != std::errc() || stop != end || begin == end)
    fail(ExitCode::usage, "run \"{}\": expected last~N with a number N", name);
  return steps;
}

/// The hash at the end of "<time>_<name>_<hash>" or "<time>_<name>_<hash>-2".
std::string_view hash_of(std::string_view id) {
  const size_t at = id.rfind('_');
  return at == std::string_view::npos ? std::string_view() : id.substr(at + 1);
}

std::vector<std::string> ids_with(const std::filesystem::path& root, const std::vector<std::string>& ids,
                                  const std::string& name) {
  std::vector<std::string> out;
  if (name.starts_with("@")) {
    const std::string tag = name.substr(1);
    for (const std::string& id : ids) {
      const RunLabels labels = read_labels(root / id);
      if (std::find(labels.tags.begin(), labels.tags.end(), tag) != labels.tags.end()) out.push_back(id);
    }
    return out;
  }
  for (const std::string& id : ids) {
    if (id == name) return {id};
    if (name.size() >= kShortestPrefix && (id.starts_with(name) || hash_of(id).starts_with(name))) out.push_back(id);
  }
  return out;
}

/// "@before", in order.
std::vector<std::string> tags_in(const std::filesystem::path& root, const std::vector<std::string>& ids) {
  std::set<std::string> tags;
  for (const std::string& id : ids)
    for (const std::string& tag : read_labels(root / id).tags) tags.insert("@" + tag);
  return {tags.begin(), tags.end()};
}

std::string newest_of(const std::vector<std::string>& ids) {
  const size_t count = std::min(ids.size(), kMostNamed);
  std::vector<std::string> named(ids.end() - std::ptrdiff_t(count), ids.end());
  std::reverse(named.begin(), named.end());
  return fmt::format("{}{}", fmt::join(named, ", "), ids.size() > count ? ", …" : "");
}

std::filesystem::path labels_file(const std::filesystem::path& folder) { return folder / "labels.json"; }

}  // namespace

RunOrder run_order(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  RunOrder order{.stamp = name.substr(0, name.find('_'))};
  std::istringstream in(
      try_read_user_file(folder / kOrderFile, {.code = ExitCode::store, .max_bytes = 4096}).value_or(""));
  RunOrder written;
  if (std::getline(in, written.stamp) && in >> written.number) order = written;
  return order;
}

void place_last(const std::filesystem::path& root, const std::filesystem::path& folder) {
  const std::vector<std::string> ids = list_runs(root);
  if (ids.empty()) return;
  const RunOrder newest = run_order(root / ids.back());
  if (newest < run_order(folder)) return;
  write_file_atomic(folder / kOrderFile, fmt::format("{}\n{}\n", newest.stamp, newest.number + 1));
}

std::vector<std::string> list_runs(const std::filesystem::path& root) {
  // Older runs of one second have no order of their own: there the file that is written first and once tells it.
  using Age = std::pair<RunOrder, std::filesystem::file_time_type>;
  std::vector<std::pair<Age, std::string>> runs;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root, ignored)) {
    if (entry.is_symlink(ignored) || !is_run(entry.path())) continue;
    const std::string id = entry.path().filename().string();
    runs.push_back(
        {{run_order(entry.path()), std::filesystem::last_write_time(entry.path() / "environment.json", ignored)}, id});
  }
  std::sort(runs.begin(), runs.end());
  std::vector<std::string> ids;
  for (auto& [age, id] : runs) ids.push_back(std::move(id));
  return ids;
}

std::filesystem::path find_run(const std::filesystem::path& root, const std::string& name) {
  std::error_code ignored;
  if (name.find('/') != std::string::npos || (name.find('~') == std::string::npos && is_run(name))) {
    const std::filesystem::path folder = std::filesystem::path(name).lexically_normal();
    if (!is_run(folder)) fail(ExitCode::usage, "{}: is not a run folder: it has no manifest.json", name);
    // The path of `latest` becomes that of the run.
    return std::filesystem::canonical(folder, ignored);
  }
  const std::vector<std::string> ids = list_runs(root);
  if (ids.empty())
    fail(ExitCode::usage, "run \"{}\": {} holds no runs; name another folder with --results", name, root.string());
  if (const std::optional<size_t> back = steps_back(name)) {
    if (*back >= ids.size())
      fail(ExitCode::usage, "run \"{}\": {} holds {}: {}", name, root.string(), counted(int64_t(ids.size()), "run"),
           newest_of(ids));
    return root / ids[ids.size() - 1 - *back];
  }
  const std::vector<std::string> found = ids_with(root, ids, name);
  if (found.size() > 1)
    fail(ExitCode::usage, "run \"{}\": fits {} runs: {}; write more of the id", name, found.size(), newest_of(found));
  if (found.empty() && name.starts_with("@")) {
    const std::vector<std::string> tags = tags_in(root, ids);
    fail(ExitCode::usage, "run \"{}\": no run in {} has this tag{}; {}", name, root.string(), did_you_mean(name, tags),
         tags.empty() ? "none has one (runexp tag)" : fmt::format("there are {}", fmt::join(tags, ", ")));
  }
  if (found.empty())
    fail(ExitCode::usage,
         "run \"{}\": no run in {} is called so{}; expected last, last~N, @TAG, a prefix of an id or hash (4 letters "
         "at least), or a folder; there are {}",
         name, root.string(), did_you_mean(name, ids), newest_of(ids));
  return root / found.front();
}

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
