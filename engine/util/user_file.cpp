#include "engine/util/user_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>  // PIPEFS_MAGIC
#include <sys/stat.h>
#include <sys/vfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace paceline {
namespace {

std::string reason_of(int error) { return std::generic_category().message(error); }

const char* file_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISSOCK(mode)) return "a socket";
  return "not a file";
}

/// A pipe without a name, which the process got from who started it.
bool is_inherited_pipe(int fd, mode_t mode) {
  struct statfs system {};
  return S_ISFIFO(mode) && ::fstatfs(fd, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

}  // namespace

UserFile::UserFile(const std::filesystem::path& path, const FileRule& rule) : path_(path), rule_(rule) {
  // O_NONBLOCK: opening a FIFO without a writer must not wait.
  fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd_ < 0) fail(rule.code, "{}: cannot open: {}", path.string(), reason_of(errno));
  const auto refuse = [&](const std::string& reason) {
    close();
    fail(rule.code, "{}: {}", path.string(), reason);
  };
  struct stat status {};
  if (::fstat(fd_, &status) != 0) refuse("cannot stat: " + reason_of(errno));
  if (rule.takes_pipes && is_inherited_pipe(fd_, status.st_mode)) {
    ::fcntl(fd_, F_SETFL, O_RDONLY);  // a pipe's reader waits for its writer
    return;
  }
  if (!S_ISREG(status.st_mode))
    refuse(fmt::format("is {}, expected a regular file{}", file_kind(status.st_mode),
                       S_ISDIR(status.st_mode) ? ": " + reason_of(EISDIR) : std::string()));
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > rule.max_bytes) refuse(fmt::format("{} bytes; expected at most {}", size_, rule.max_bytes));
}

UserFile::UserFile(UserFile&& other) noexcept
    : path_(std::move(other.path_)),
      rule_(other.rule_),
      fd_(std::exchange(other.fd_, -1)),
      size_(std::exchange(other.size_, 0)) {}

UserFile::~UserFile() { close(); }

void UserFile::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

size_t UserFile::size_now() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail(rule_.code, "{}: cannot stat: {}", path_.string(), reason_of(errno));
  return static_cast<size_t>(status.st_size);
}

std::string read_user_file(const std::filesystem::path& path, const FileRule& rule) {
  const UserFile file(path, rule);
  std::string text;
  text.reserve(file.size());
  // In blocks, and until its end: a pipe has no size, and files of /proc have 0.
  std::array<char, 65536> block{};
  for (;;) {
    const ssize_t count = ::read(file.fd(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(rule.code, "{}: cannot be read: {}", path.string(), reason_of(errno));
    if (count == 0) return text;
    if (static_cast<size_t>(count) > rule.max_bytes - text.size())
      fail(rule.code, "{}: longer than {} bytes; expected at most that", path.string(), rule.max_bytes);
    text.append(block.data(), static_cast<size_t>(count));
  }
}

std::optional<std::string> try_read_user_file(const std::filesystem::path& path, const FileRule& rule) {
  try {
    return read_user_file(path, rule);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace paceline
