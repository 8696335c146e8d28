#pragma once
// Where the checkout and the build lie. One source file knows, so that the others compile alike in every clone.

#include <filesystem>

namespace paceline {

/// The root of the checkout.
std::filesystem::path source_dir();
/// The folder of this program, which holds runexp, too: the build folder, or where all of it was carried.
std::filesystem::path binary_dir();

}  // namespace paceline
