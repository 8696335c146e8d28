#include "kernels/cpu/cgroups.h"

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"

namespace paceline {
namespace {

/// "cpu v1" for each folder, relative to the root, where /proc/self/cgroup holds `groups`.
std::vector<std::string> folders(std::string_view controller, const std::string& groups) {
  const test::TempDir proc;
  std::filesystem::create_directories(proc / "self");
  test::write_file(proc / "self/cgroup", groups);
  std::vector<std::string> out;
  for (const CgroupFolder& folder : cgroup_folders(controller, proc.path(), "/root"))
    out.push_back(folder.path.lexically_relative("/root").string() + (folder.v2 ? "" : " v1"));
  return out;
}

using Folders = std::vector<std::string>;

TEST(Cgroups, AreThoseOfTheControllerAndAllAbove) {
  EXPECT_EQ(folders("cpu", "0::/a/b\n"), (Folders{".", "cpu v1", "a/b", "a"}));
  EXPECT_EQ(folders("cpu", "9:cpuset:/s\n4:cpuacct,cpu:/a\n3:memory:/m\n0::/\n"), (Folders{".", "cpu v1", "cpu/a v1"}));
  EXPECT_EQ(folders("memory", "4:cpu:/a\n3:memory:/m\n"), (Folders{".", "memory v1", "memory/m v1"}));
}

TEST(Cgroups, OfLinesThatAreNoneAreTheRoots) {
  EXPECT_EQ(folders("cpu", ""), (Folders{".", "cpu v1"}));
  EXPECT_EQ(folders("cpu", "0::abc\n7:cpu\n:\n0::/a\n0::/a\n"), (Folders{".", "cpu v1", "a"}));
}

}  // namespace
}  // namespace paceline
