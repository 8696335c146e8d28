// docs/faults.md names tests that exist.

#include <filesystem>
#include <regex>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

std::string all_tests() {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_dir() / "tests"))
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".cu") text += test::read_file(entry.path());
  return text;
}

/// "*": any of the suite; "F13": one whose name begins with the number of a row.
bool is_test(const std::string& tests, const std::string& suite, const std::string& test) {
  if (test == "*") return tests.find("(" + suite + ", ") != std::string::npos;
  const bool is_row = std::regex_match(test, std::regex("[A-Z][0-9]+"));
  return std::regex_search(tests, std::regex("\\(" + suite + ", " + test + (is_row ? "[^0-9]" : "\\)")));
}

bool is_parameter(const std::string& tests, const std::string& suite, const std::string& test) {
  return tests.find("(" + suite + ", ") != std::string::npos &&
         (tests.find("\"" + test + "\"") != std::string::npos || test.starts_with("fifo_"));
}

TEST(FaultsPage, NamesTestsThatExist) {
  const std::string page = test::read_file(source_dir() / "docs/faults.md"), tests = all_tests();
  const std::regex name(R"(`([A-Z][A-Za-z0-9]*)([./])([A-Za-z0-9_]+|\*)`)");
  int named = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), name), end; at != end; ++at, ++named) {
    const std::string suite = (*at)[1], separator = (*at)[2], test = (*at)[3];
    EXPECT_TRUE(separator == "/" ? is_parameter(tests, suite, test) : is_test(tests, suite, test)) << at->str();
  }
  EXPECT_GT(named, 90);
}

}  // namespace
}  // namespace paceline
