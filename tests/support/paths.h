#pragma once
// Where the checkout and the build lie. One source file knows, so that the others compile alike in every clone.

#include <filesystem>

namespace paceline {

/// The root of the checkout.
std::filesystem::path source_dir();
/// The build folder, which holds runexp.
std::filesystem::path binary_dir();

}  // namespace paceline
