#include "engine/util/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace paceline {

MappedFile::MappedFile(const std::filesystem::path& path, ExitCode code, size_t max_bytes)
    : file_(path, {.code = code, .max_bytes = max_bytes}), size_(file_.size()) {
  if (size_ == 0) return;  // mmap refuses empty mappings
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file_.fd(), 0);
  if (mapped == MAP_FAILED)
    fail(code, "{}: cannot map {} bytes: {}", path.string(), size_, std::generic_category().message(errno));
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

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
  if (const size_t now = file_.size_now(); now < size_)
    fail(file_.rule().code, "{}: shrank from {} to {} bytes while it was read; expected a file that nobody writes",
         path().string(), size_, now);
}

}  // namespace paceline
