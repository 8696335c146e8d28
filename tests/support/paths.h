#pragma once
// Where the checkout and the build lie. One source file knows, so that the others compile alike in every clone.

#include <filesystem>
#include <string>

namespace paceline {

/// The root of the checkout.
std::filesystem::path source_dir();
/// Data that is not part of the repository, beside the checkout or where PACELINE_SHARED says; may not exist.
std::filesystem::path shared_dir();
/// The folder of this program, which holds runexp, too: the build folder, or where all of it was carried.
std::filesystem::path binary_dir();

namespace test {

/// <source>/configs/models/<name> and <source>/tests/data/<name>.
std::filesystem::path builtin_model(const std::string& name);
std::filesystem::path golden_model(const std::string& name);

}  // namespace test
}  // namespace paceline
