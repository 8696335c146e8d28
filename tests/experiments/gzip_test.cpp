#include <random>

#include <gtest/gtest.h>

#include "experiments/report/html/html.h"
#include "experiments/results/files/files.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/run_process.h"

namespace paceline {
namespace {

/// What gzip itself makes of it; it checks the checksum and the length.
std::string unpacked(const std::string& packed) {
  const test::TempDir dir;
  write_file_atomic(dir / "x.gz", packed);
  const test::ProcessResult result = test::run_process({"/bin/gzip", "-dc", (dir / "x.gz").string()}, {});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST(Gzip, OtherProgramsReadIt) {
  std::string every_byte, far, noise;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  far = "a text that comes again" + std::string(32768 - 23, '.') + "a text that comes again" + std::string(40000, '-') +
        "a text that comes again";
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) noise += static_cast<char>(random() % (i < 50000 ? 256 : 3));
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(1000, 'a'), every_byte, far, noise}) {
    const std::string packed = gzip(bytes);
    EXPECT_EQ(unpacked(packed), bytes) << bytes.size();
    EXPECT_EQ(gzip(bytes), packed);
  }
}

TEST(Gzip, TextsThatRepeatThemselvesShrink) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += fmt::format("{{\"identity\":{},\"mean_acceptance_length\":{}}}", i, i * 7);
  EXPECT_LT(gzip(text).size() * 4, text.size());
}

}  // namespace
}  // namespace paceline
