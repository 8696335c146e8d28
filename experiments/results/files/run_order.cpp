#include "experiments/results/files/run_order.h"

#include <sstream>

#include <fmt/format.h>

#include "engine/util/user_file.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/read.h"

namespace paceline {
namespace {

constexpr const char* kFile = "order";

}  // namespace

RunOrder run_order(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  RunOrder order{.stamp = name.substr(0, name.find('_'))};
  std::istringstream in(try_read_user_file(folder / kFile, {.code = ExitCode::store, .max_bytes = 4096}).value_or(""));
  RunOrder written;
  if (std::getline(in, written.stamp) && in >> written.number) order = written;
  return order;
}

void place_last(const std::filesystem::path& root, const std::filesystem::path& folder) {
  const std::vector<std::string> ids = list_runs(root);
  if (ids.empty()) return;
  const RunOrder newest = run_order(root / ids.back());
  if (newest < run_order(folder)) return;
  write_file_atomic(folder / kFile, fmt::format("{}\n{}\n", newest.stamp, newest.number + 1));
}

}  // namespace paceline
