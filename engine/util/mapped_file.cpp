#include "engine/util/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace paceline {
namespace {

std::string errno_text(int number) { return std::generic_category().message(number); }

const char* file_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISSOCK(mode)) return "a socket";
  return "not a file";
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, ExitCode code) : path_(path), code_(code) {
  // O_NONBLOCK: opening a FIFO without a writer must not wait.
  fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd_ < 0) fail(code, "{}: cannot open: {}", path.string(), errno_text(errno));
  struct stat status {};
  if (::fstat(fd_, &status) != 0) {
    const int reason = errno;
    close();
    fail(code, "{}: cannot stat: {}", path.string(), errno_text(reason));
  }
  if (!S_ISREG(status.st_mode)) {
    close();
    fail(code, "{}: is {}, expected a regular file{}", path.string(), file_kind(status.st_mode),
         S_ISDIR(status.st_mode) ? ": " + errno_text(EISDIR) : std::string());
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;  // mmap refuses empty mappings
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    close();
    fail(code, "{}: cannot map {} bytes: {}", path.string(), size_, errno_text(reason));
  }
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() { close(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      code_(other.code_),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  code_ = other.code_;
  fd_ = std::exchange(other.fd_, -1);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void MappedFile::close() noexcept {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
  data_ = nullptr;
  size_ = 0;
  fd_ = -1;
}

void MappedFile::release(size_t offset, size_t size) const noexcept {
  if (!data_ || offset >= size_) return;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t end = offset + std::min(size, size_ - offset);
  const size_t first = (offset + page - 1) / page * page;
  // The file's last page belongs to it alone, so a range that reaches the end takes that page whole.
  const size_t last = end == size_ ? end : end / page * page;
  if (first < last) ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

void MappedFile::advise_sequential() const noexcept {
  if (data_) ::madvise(const_cast<std::byte*>(data_), size_, MADV_SEQUENTIAL);
}

void MappedFile::check_size() const {
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) fail(code_, "{}: cannot stat: {}", path_.string(), errno_text(errno));
  if (static_cast<size_t>(status.st_size) < size_)
    fail(code_, "{}: shrank from {} to {} bytes while it was read; expected a file that nobody writes", path_.string(),
         size_, status.st_size);
}

}  // namespace paceline
