#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/util/mapped_file.h"
#include "experiments/commands/commands.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline {
namespace {

class FaultHandler : public testing::Test {
 protected:
  FaultHandler() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    test::write_file(folder_ / "cut.bin", std::string(64 << 10, 'x'));
  }

  /// Maps the file, cuts it, and has `num_threads` threads read what is gone.
  void read_what_is_gone(int num_threads) const {
    install_fault_handler();
    const MappedFile mapped(folder_ / "cut.bin");
    std::filesystem::resize_file(folder_ / "cut.bin", 100);
    const auto read = [&] {
      const volatile std::byte* last = mapped.bytes().data() + mapped.bytes().size() - 1;
      static_cast<void>(*last);
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < num_threads; ++i) threads.emplace_back(read);
    for (std::thread& thread : threads) thread.join();
  }

  test::TempDir folder_;
};

TEST_F(FaultHandler, F12_AFileCutWhileMappedEndsWithItsNameAndCode3) {
  for (const int num_threads : {1, 8})
    EXPECT_EXIT(read_what_is_gone(num_threads), testing::ExitedWithCode(3),
                "^runexp: error: /.*/cut.bin: the file became shorter while it was read; expected [^\n]*\n$");
}

TEST_F(FaultHandler, ASignalFromOutsideStillKills) {
  EXPECT_EXIT((install_fault_handler(), raise(SIGBUS)), testing::KilledBySignal(SIGBUS), "^$");
}

}  // namespace
}  // namespace paceline
