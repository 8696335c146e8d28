#include "engine/util/mapped_file.h"

#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::expect_error;
using test::TempDir;
using test::write_file;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// Resident bytes of the mapping that holds `address`.
size_t resident_kib(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(maps, line)) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin <= uintptr_t(address) && uintptr_t(address) < end;
    } else if (inside && line.starts_with("Rss:")) {
      return std::stoul(line.substr(4));
    }
  }
  return 0;
}

TEST(MappedFile, ShowsTheBytes) {
  TempDir dir;
  write_file(dir / "data", "paceline");
  const MappedFile file(dir / "data");
  EXPECT_EQ(text_of(file), "paceline");
}

TEST(MappedFile, EmptyFileIsAnEmptySpan) {
  TempDir dir;
  write_file(dir / "data", "");
  const MappedFile file(dir / "data");
  EXPECT_TRUE(file.bytes().empty());
  file.release(0, 10);
  file.advise_sequential();
  file.check_size();
}

TEST(MappedFile, MovesKeepTheAddress) {
  TempDir dir;
  write_file(dir / "data", "paceline");
  MappedFile file(dir / "data");
  const std::byte* address = file.bytes().data();
  const MappedFile moved(std::move(file));
  EXPECT_EQ(moved.bytes().data(), address);
  EXPECT_EQ(text_of(moved), "paceline");
}

TEST(MappedFile, RefusesWhatIsNotARegularFile) {
  TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  expect_error(ExitCode::model_file, {"fifo", "a FIFO"}, [&] { MappedFile file(dir / "fifo"); });
  expect_error(ExitCode::model_file, {"Is a directory"}, [&] { MappedFile file(dir.path()); });
  expect_error(ExitCode::model_file, {"/dev/zero", "a character device"}, [] { MappedFile file("/dev/zero"); });
  expect_error(ExitCode::usage, {"absent", "No such file or directory"},
               [&] { MappedFile file(dir / "absent", ExitCode::usage); });
}

TEST(MappedFile, RefusesAnUnreadableFile) {
  TempDir dir;
  write_file(dir / "data", "x");
  ASSERT_EQ(::chmod((dir / "data").c_str(), 0), 0);
  if (::geteuid() == 0) {
    EXPECT_EQ(text_of(MappedFile(dir / "data")), "x");  // root reads everything
  } else {
    expect_error(ExitCode::model_file, {"data", "Permission denied"}, [&] { MappedFile file(dir / "data"); });
  }
}

TEST(MappedFile, ReleaseGivesBackWholePagesAndKeepsTheData) {
  TempDir dir;
  constexpr size_t kBytes = size_t{1} << 20;
  write_file(dir / "data", std::string(kBytes, 'x'));
  const MappedFile file(dir / "data");
  const auto touch = [&] {
    size_t sum = 0;
    for (const std::byte value : file.bytes()) sum += size_t(value);
    return sum;
  };
  EXPECT_EQ(touch(), kBytes * 'x');
  EXPECT_EQ(resident_kib(file.bytes().data()), kBytes >> 10);
  file.release(100, kBytes - 200);  // the first page holds bytes outside
  EXPECT_EQ(resident_kib(file.bytes().data()), 2 * size_t(::sysconf(_SC_PAGESIZE)) >> 10);
  EXPECT_EQ(touch(), kBytes * 'x');
  file.release(0, kBytes);
  EXPECT_EQ(resident_kib(file.bytes().data()), 0u);
}

TEST(MappedFile, NoticesThatTheFileShrank) {
  TempDir dir;
  write_file(dir / "data", std::string(10000, 'x'));
  const MappedFile file(dir / "data");
  file.check_size();
  ASSERT_EQ(::truncate((dir / "data").c_str(), 9999), 0);
  expect_error(ExitCode::model_file, {"data", "shrank from 10000 to 9999"}, [&] { file.check_size(); });
}

}  // namespace
}  // namespace paceline
