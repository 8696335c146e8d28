#include "experiments/results/files/disk_faults.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/error.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 6> kCalls = {"open", "write", "fsync", "rename", "mkdir", "symlink"};
constexpr std::array<std::pair<std::string_view, int>, 5> kErrors = {
    {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EACCES", EACCES}}};

struct Plan {
  std::optional<DiskCall> call;  // none: any
  DiskFault fault;
  bool kills = false;
  int64_t number = 0;
};

std::optional<Plan> read_plan() {
  const char* const text = std::getenv("PACELINE_FAIL");
  if (!text || !*text) return std::nullopt;
  const std::string_view all = text;
  const auto bad = [&] { fail(ExitCode::usage, "PACELINE_FAIL: found \"{}\", expected CALL:ACTION:N", all); };
  const size_t first = all.find(':'), last = all.rfind(':');
  if (first == last) bad();
  const std::string_view call = all.substr(0, first), action = all.substr(first + 1, last - first - 1),
                         number = all.substr(last + 1);
  Plan plan;
  for (size_t i = 0; i < kCalls.size(); ++i) {
    if (kCalls[i] == call) plan.call = static_cast<DiskCall>(i);
  }
  if (!plan.call && call != "any") bad();
  plan.kills = action == "kill";
  plan.fault.after_half = action == "short";
  if (plan.fault.after_half) plan.fault.error = ENOSPC;
  for (const auto& [name, error] : kErrors) {
    if (name == action) plan.fault.error = error;
  }
  if (!plan.kills && plan.fault.error == 0) bad();
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), plan.number);
  if (error != std::errc() || end != number.data() + number.size() || plan.number < 1) bad();
  return plan;
}

}  // namespace

DiskFault count_disk_call(DiskCall call) {
  static const std::optional<Plan> plan = read_plan();
  static std::atomic<int64_t> calls{0};  // of the process: the N-th one of a run is to fail, whoever makes it
  if (!plan || (plan->call && *plan->call != call)) return {};
  if (++calls != plan->number) return {};
  if (plan->kills) std::raise(SIGKILL);
  return plan->fault;
}

}  // namespace paceline
