#include "engine/util/user_file.h"

#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::expect_error;
using test::TempDir;
using test::write_file;

TEST(UserFile, IsReadWhole) {
  const TempDir dir;
  const std::string long_text(200'000, 'x');
  write_file(dir / "long", long_text);
  write_file(dir / "empty", "");
  EXPECT_EQ(read_user_file(dir / "long", {.max_bytes = long_text.size()}), long_text);
  EXPECT_EQ(read_user_file(dir / "empty", {}), "");
  EXPECT_FALSE(read_user_file("/proc/self/status", {}).empty()) << "a regular file of 0 bytes that holds some";
}

TEST(UserFile, RefusesOtherKindsWithoutWaitingAndWithTheCodeAskedFor) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", dir / "loop");
  for (const ExitCode code : {ExitCode::usage, ExitCode::model_file, ExitCode::store}) {
    const FileRule rule{.code = code};
    expect_error(code, {"fifo", "a FIFO", "regular file"}, [&] { read_user_file(dir / "fifo", rule); });
    expect_error(code, {"is a folder", "regular file"}, [&] { read_user_file(dir.path(), rule); });
    expect_error(code, {"/dev/zero", "a character device"}, [&] { read_user_file("/dev/zero", rule); });
    expect_error(code, {"absent", "No such file"}, [&] { read_user_file(dir / "absent", rule); });
    expect_error(code, {"loop", "symbolic links"}, [&] { read_user_file(dir / "loop", rule); });
    EXPECT_FALSE(try_read_user_file(dir / "fifo", rule));
  }
}

TEST(UserFile, HoldsToTheLimit) {
  const TempDir dir;
  write_file(dir / "eleven", "eleven char");
  expect_error(ExitCode::store, {"eleven", "11 bytes", "at most 10"},
               [&] { UserFile(dir / "eleven", {.code = ExitCode::store, .max_bytes = 10}); });
  expect_error(ExitCode::model_file, {"status", "longer than 10 bytes"},
               [] { read_user_file("/proc/self/status", {.max_bytes = 10}); });
}

TEST(UserFile, TakesAnInheritedPipeWhereTheRuleSaysSo) {
  const TempDir dir;
  const std::string text(300'000, 'y');  // more than a pipe holds
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string path = fmt::format("/dev/fd/{}", ends[0]);
  expect_error(ExitCode::model_file, {"a FIFO"}, [&] { UserFile(path, {}); });
  std::thread writer([&] {
    for (size_t at = 0; at < text.size();) at += static_cast<size_t>(::write(ends[1], &text[at], text.size() - at));
    ::close(ends[1]);
  });
  EXPECT_EQ(read_user_file(path, {.takes_pipes = true}), text);
  writer.join();
  ::close(ends[0]);
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  expect_error(ExitCode::usage, {"a FIFO"},
               [&] { UserFile(dir / "fifo", {.code = ExitCode::usage, .takes_pipes = true}); });
}

}  // namespace
}  // namespace paceline
