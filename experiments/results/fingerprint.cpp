#include "experiments/results/fingerprint.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <unistd.h>

#include "engine/util/fnv1a.h"
#include "experiments/results/results.h"
#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kWhole = 8 * kMiB;
constexpr int64_t kPieces = 96;
constexpr int64_t kPiece = 64 * 1024;

}  // namespace

std::string file_fingerprint(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, error));
  if (!in || error) fail(ExitCode::model_file, "{}: cannot be read", file.string());
  std::string bytes;
  const auto take = [&](int64_t from, int64_t count) {
    const size_t before = bytes.size();
    bytes.resize(before + static_cast<size_t>(count));
    in.seekg(from);
    in.read(bytes.data() + before, count);
    if (in.gcount() != count) fail(ExitCode::model_file, "{}: ended while it was read", file.string());
  };
  if (size <= kWhole) {
    take(0, size);
  } else {
    take(0, kMiB);
    const int64_t middle = size - 2 * kMiB - kPiece;
    for (int64_t piece = 0; piece < kPieces; ++piece) take(kMiB + middle * piece / kPieces, kPiece);
    take(size - kMiB, kMiB);
  }
  return fmt::format("{}-{}", size, fnv1a64_hex(bytes));
}

json fingerprints(const std::vector<std::filesystem::path>& paths) {
  json out = json::object();
  for (const std::filesystem::path& path : paths) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    if (!std::filesystem::is_directory(path, error)) {
      if (std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), R_OK) == 0)
        out[path.string()] = file_fingerprint(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.is_regular_file(error) && ::access(entry.path().c_str(), R_OK) == 0)
        out[entry.path().string()] = file_fingerprint(entry.path());
    }
  }
  return out;
}

std::vector<std::string> fingerprint_differences(const json& before, const json& now) {
  std::vector<std::string> out;
  for (const auto& [file, value] : before.items()) {
    if (!now.contains(file))
      out.push_back(fmt::format("{}: is gone", file));
    else if (now[file] != value)
      out.push_back(fmt::format("{}: changed", file));
  }
  for (const auto& [file, value] : now.items()) {
    if (!before.contains(file)) out.push_back(fmt::format("{}: is new", file));
  }
  return out;
}

}  // namespace paceline
