#include "tests/support/paths.h"

namespace paceline {

std::filesystem::path source_dir() { return PACELINE_SOURCE_DIR; }
std::filesystem::path binary_dir() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path(PACELINE_BINARY_DIR) : self.parent_path();
}

}  // namespace paceline
