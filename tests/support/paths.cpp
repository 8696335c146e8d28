#include "tests/support/paths.h"

namespace paceline {

std::filesystem::path source_dir() { return PACELINE_SOURCE_DIR; }
std::filesystem::path binary_dir() { return PACELINE_BINARY_DIR; }

}  // namespace paceline
