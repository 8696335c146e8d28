#include <cstdint>
#include <elf.h>

#include <gtest/gtest.h>

#include "experiments/results/files/environment.h"

namespace paceline {
namespace {

std::string padded(std::string bytes, size_t align) {
  bytes.resize((bytes.size() + align - 1) / align * align);
  return bytes;
}

/// One ELF note, its name ended by a zero byte.
std::string note(uint32_t type, const std::string& name, const std::string& content, size_t align) {
  const uint32_t header[] = {uint32_t(name.size() + 1), uint32_t(content.size()), type};
  return std::string(reinterpret_cast<const char*>(header), sizeof(header)) + padded(name + '\0', align) +
         padded(content, align);
}

TEST(ProgramHash, IsOfTheBuildIdAmongOtherNotes) {
  const std::string id = "0123456789abcdefghi";
  for (const size_t align : {size_t{4}, size_t{8}}) {
    const std::string others = note(NT_GNU_ABI_TAG, "GNU", "linux", align) +
                               note(NT_GNU_BUILD_ID, "Go", "of Go", align) + note(7, "", "", align);
    EXPECT_EQ(build_id_in(others + note(NT_GNU_BUILD_ID, "GNU", id, align), align), id) << align;
    EXPECT_EQ(build_id_in(others, align), std::nullopt);
  }
  EXPECT_EQ(build_id_in("", 4), std::nullopt);
}

TEST(ProgramHash, ANoteThatIsCutShortIsNone) {
  const std::string whole =
      note(NT_GNU_ABI_TAG, "GNU", "linux", 4) + note(NT_GNU_BUILD_ID, "GNU", "0123456789abcdef", 4);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(build_id_in(std::string_view(whole).substr(0, size), 4), std::nullopt) << size;
  std::string huge = whole;
  huge[0] = huge[1] = huge[2] = huge[3] = '\xff';
  EXPECT_EQ(build_id_in(huge, 4), std::nullopt);
}

TEST(ProgramHash, IsTheSameAtEveryCall) {
  EXPECT_EQ(program_hash().size(), 16u);
  EXPECT_EQ(program_hash(), program_hash());
}

}  // namespace
}  // namespace paceline
