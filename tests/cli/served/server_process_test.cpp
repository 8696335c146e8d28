// A server's process: its time, its pauses, its words at the end.

#include "experiments/run/host/server_process.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline::test {
namespace {

constexpr auto kBlink = std::chrono::milliseconds(10);

TEST(ServerProcess, CountsTheTimeOfItsGroupAndStopsAllOfIt) {
  const TempDir dir;
  // The one at work is the server's child.
  ServerProcess server({"sh", "-c", "(while :; do :; done) & wait"}, dir / "log");
  double busy_s = 0;
  for (int i = 0; i < 2000 && busy_s < 0.05; ++i) {
    std::this_thread::sleep_for(kBlink);
    busy_s = server.cpu_seconds();
  }
  EXPECT_GE(busy_s, 0.05);
  server.pause();
  std::this_thread::sleep_for(3 * kBlink);  // a tick that was under way
  const double paused_s = server.cpu_seconds();
  std::this_thread::sleep_for(10 * kBlink);
  EXPECT_EQ(server.cpu_seconds(), paused_s);
  server.go_on();
  for (int i = 0; i < 2000 && server.cpu_seconds() == paused_s; ++i) std::this_thread::sleep_for(kBlink);
  EXPECT_GT(server.cpu_seconds(), paused_s);
}

TEST(ServerProcess, ReadsTheAddressThatItSays) {
  const TempDir dir;
  ServerProcess server({"sh", "-c", "echo loading; printf 'http://127.0.0.1:'; sleep 0.05; echo 81; sleep 60"},
                       dir / "log");
  EXPECT_EQ(server.await_address(20, {}).port, 81) << "a whole line";
  EXPECT_FALSE(server.how_it_ended());
}

TEST(ServerProcess, TellsHowItEnded) {
  const TempDir dir;
  ServerProcess server({"sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done; kill -9 $$"}, dir / "log");
  expect_error(ExitCode::device, {"signal 9; its last lines: line 3 | line 4 | line 5"},
               [&] { server.await_address(20, {}); });
  expect_error(ExitCode::interrupted, {"stopped by the user"}, [&] {
    ServerProcess silent({"sleep", "60"}, dir / "other");
    silent.await_address(20, [] { return true; });
  });
}

}  // namespace
}  // namespace paceline::test
