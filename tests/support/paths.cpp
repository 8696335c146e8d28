#include "tests/support/paths.h"

#include <cstdlib>

namespace paceline {

std::filesystem::path source_dir() { return PACELINE_SOURCE_DIR; }
std::filesystem::path shared_dir() {
  const char* const folder = std::getenv("PACELINE_SHARED");
  return folder != nullptr ? std::filesystem::path(folder) : source_dir() / ".." / "shared";
}

std::filesystem::path binary_dir() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path(PACELINE_BINARY_DIR) : self.parent_path();
}

namespace test {

std::filesystem::path builtin_model(const std::string& name) { return source_dir() / "configs" / "models" / name; }

std::filesystem::path golden_model(const std::string& name) { return source_dir() / "tests" / "data" / name; }

}  // namespace test
}  // namespace paceline
