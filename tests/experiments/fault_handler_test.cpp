#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "engine/util/mapped_file.h"
#include "experiments/commands.h"

namespace paceline {
namespace {

TEST(FaultHandler, F12_AFileCutWhileMappedEndsWithItsNameAndCode3) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "paceline_cut_while_mapped.bin";
  std::ofstream(file) << std::string(64 << 10, 'x');
  const auto read_what_is_gone = [&] {
    install_fault_handler();
    const MappedFile mapped(file);
    std::filesystem::resize_file(file, 100);
    const volatile std::byte* last = mapped.bytes().data() + mapped.bytes().size() - 1;
    static_cast<void>(*last);
  };
  EXPECT_EXIT(read_what_is_gone(), testing::ExitedWithCode(3),
              "^runexp: error: /.*paceline_cut_while_mapped.bin: the file became shorter while it was read; expected ");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace paceline
