#include "experiments/results/files/files.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "kernels/error.h"

namespace paceline {

namespace {

// Faults of a disk on demand, so that tests can see what each of them costs. Off unless the environment variable
// PACELINE_FAIL names one: "CALL:ACTION:N" makes the N-th CALL of the process (from 1) fail. CALL: open, write, fsync,
// rename, mkdir, symlink, or any. ACTION: an error (ENOSPC, EIO, EDQUOT, EROFS, EACCES), "short" (half of a write, then
// ENOSPC), or "kill" (the process ends there and then, as by kill -9).

enum class DiskCall : uint8_t { open, write, fsync, rename, mkdir, symlink };

struct DiskFault {
  int error = 0;            // errno to fail with; 0: none
  bool after_half = false;  // write: when half is written
};

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

/// Counts one call and says whether it is to fail.
DiskFault count_disk_call(DiskCall call) {
  static const std::optional<Plan> plan = read_plan();
  static std::atomic<int64_t> calls{0};  // of the process: the N-th one of a run is to fail, whoever makes it
  if (!plan || (plan->call && *plan->call != call)) return {};
  if (++calls != plan->number) return {};
  if (plan->kills) std::raise(SIGKILL);
  return plan->fault;
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

[[noreturn]] void fail_call(const std::filesystem::path& file, const char* call, int error) {
  constexpr const char* kElsewhere = "choose another place (of runs: --results)";
  std::error_code ignored;
  if (error == ENOENT && !std::filesystem::exists(folder_of(file), ignored))
    fail(ExitCode::store, "{}: {} failed: there is no folder {}: make it, or {}", file.string(), call,
         folder_of(file).string(), kElsewhere);
  const char* const fix = error == ENOSPC || error == EDQUOT                    ? "free space there, or "
                          : error == EACCES || error == EPERM || error == EROFS ? "make the folder writable, or "
                                                                                : "";
  fail(ExitCode::store, "{}: {} failed: {}: {}{}", file.string(), call, std::generic_category().message(error), fix,
       kElsewhere);
}

/// Before a call of the system: fails in its place where a test asks for it.
void about_to(DiskCall call, const std::filesystem::path& file, const char* name) {
  if (const DiskFault fault = count_disk_call(call); fault.error != 0) fail_call(file, name, fault.error);
}

void write_all(int fd, std::string_view content, const std::filesystem::path& file) {
  const DiskFault fault = count_disk_call(DiskCall::write);
  if (fault.after_half) content = content.substr(0, content.size() / 2);
  if (fault.error != 0 && !fault.after_half) fail_call(file, "write", fault.error);
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_call(file, "write", errno);
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  if (fault.after_half) fail_call(file, "write", fault.error);
}

void sync_folder(const std::filesystem::path& folder) {
  about_to(DiskCall::fsync, folder, "fsync");
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_call(folder, "open", errno);
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (result != 0 && error != EINVAL) fail_call(folder, "fsync", error);  // EINVAL: a file system without folder fsync
}

std::filesystem::path lock_file(const std::filesystem::path& folder) { return folder / "lock"; }

std::string process_in(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size() - 1, 0);
  std::string_view holder(text.data(), size > 0 ? size_t(size) : 0);
  return std::string(holder.substr(0, holder.find('\n')));
}

}  // namespace

void write_file_atomic(const std::filesystem::path& file, std::string_view content) {
  const std::filesystem::path temporary = file.string() + fmt::format(".tmp{}", ::getpid());
  about_to(DiskCall::open, file, "open");
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail_call(file, "open", errno);
  try {
    write_all(fd, content, file);
    about_to(DiskCall::fsync, file, "fsync");
    if (::fsync(fd) != 0) fail_call(file, "fsync", errno);
    if (::close(std::exchange(fd, -1)) != 0) fail_call(file, "close", errno);
    about_to(DiskCall::rename, file, "rename");
    if (::rename(temporary.c_str(), file.c_str()) != 0) fail_call(file, "rename", errno);
  } catch (...) {
    if (fd >= 0) ::close(fd);
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(folder_of(file));
}

bool make_new_folder(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path parent = folder_of(folder);
  if (!std::filesystem::exists(parent, error) && parent != folder) make_new_folder(parent);  // and synced in its own
  about_to(DiskCall::mkdir, folder, "mkdir");
  if (::mkdir(folder.c_str(), 0755) != 0) {
    if (errno == EEXIST) return false;
    fail_call(folder, "mkdir", errno);
  }
  sync_folder(folder_of(folder));
  return true;
}

void replace_symlink(const std::filesystem::path& link, const std::filesystem::path& target) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(link, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_symlink(status)) {
    fail(ExitCode::store, "{}: exists and is no symbolic link: move it away", link.string());
  }
  const std::filesystem::path temporary = link.string() + fmt::format(".tmp{}", ::getpid());
  ::unlink(temporary.c_str());
  about_to(DiskCall::symlink, link, "symlink");
  if (::symlink(target.c_str(), temporary.c_str()) != 0) fail_call(temporary, "symlink", errno);
  if (::rename(temporary.c_str(), link.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    fail_call(link, "rename", reason);
  }
}

AppendOnlyFile::AppendOnlyFile(std::filesystem::path file, int64_t length) : file_(std::move(file)), size_(length) {
  about_to(DiskCall::open, file_, "open");
  fd_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_call(file_, "open", errno);
  struct stat facts {};
  if (::fstat(fd_, &facts) != 0) fail_call(file_, "fstat", errno);
  if (facts.st_size < length)
    fail(ExitCode::store, "{}: has {} bytes, {} were recorded: the file was changed from outside", file_.string(),
         facts.st_size, length);
  if (facts.st_size > length && ::ftruncate(fd_, length) != 0) fail_call(file_, "ftruncate", errno);
  if (length == 0) sync_folder(folder_of(file_));
}

AppendOnlyFile::~AppendOnlyFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendOnlyFile::append(std::string_view bytes, Durability durability) {
  if (is_broken_) fail(ExitCode::store, "{}: an earlier write failed; nothing is written any more", file_.string());
  is_broken_ = true;
  write_all(fd_, bytes, file_);
  if (durability == Durability::machine) {
    about_to(DiskCall::fsync, file_, "fdatasync");
    if (::fdatasync(fd_) != 0) fail_call(file_, "fdatasync", errno);
  }
  is_broken_ = false;
  size_ += static_cast<int64_t>(bytes.size());
}

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
