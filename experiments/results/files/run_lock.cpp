#include "experiments/results/files/run_lock.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "kernels/error.h"

namespace paceline {
namespace {

std::filesystem::path lock_file(const std::filesystem::path& folder) { return folder / "lock"; }

std::string process_in(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size() - 1, 0);
  std::string_view holder(text.data(), size > 0 ? size_t(size) : 0);
  return std::string(holder.substr(0, holder.find('\n')));
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& folder) {
  const std::string file = lock_file(folder).string();
  fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(ExitCode::store, "{}: open failed: {}", file, std::generic_category().message(errno));
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::string holder = process_in(fd_);
    ::close(fd_);
    if (error == EWOULDBLOCK)
      fail(ExitCode::store, "{}: process {} is working on this run; wait for it, or stop it", folder.string(),
           holder.empty() ? "unknown" : holder);
    fail(ExitCode::store, "{}: flock failed: {}", file, std::generic_category().message(error));
  }
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, text.data(), text.size(), 0) < 0) {
    // The id is for messages only; what the folder cannot take shows at the first record.
  }
}

RunLock::RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RunLock::~RunLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool RunLock::is_held(const std::filesystem::path& folder) {
  const int fd = ::open(lock_file(folder).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

}  // namespace paceline
