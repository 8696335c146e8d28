#pragma once
// A read-only view of a regular file through mmap.

#include <cstddef>
#include <filesystem>
#include <span>

#include "kernels/error.h"

namespace paceline {

/// Owns the mapping and the descriptor; the bytes stay valid, at one address, while the object lives (moves included).
/// Threads: every const member may be called from any thread.
/// Truncation: a file that shrinks while it is mapped raises SIGBUS when a page beyond its new end is touched. That
/// window cannot be closed without copying, so readers call check_size() before and after each tensor: a file that
/// was cut between two tensors, or while one was read from pages already present, is an Error and never wrong data.
class MappedFile {
 public:
  /// Throws Error(`code`) with the system's reason when `path` cannot be opened or is not a regular file (a FIFO is
  /// refused at once, never waited for).
  explicit MappedFile(const std::filesystem::path& path, ExitCode code = ExitCode::model_file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Gives back the memory of the whole pages inside [offset, offset + size); reading them again faults them in anew.
  void release(size_t offset, size_t size) const noexcept;
  /// Asks for read-ahead over the whole file.
  void advise_sequential() const noexcept;
  /// Throws Error when the file is now shorter than it was when mapped.
  void check_size() const;

 private:
  void close() noexcept;

  std::filesystem::path path_;
  ExitCode code_ = ExitCode::model_file;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace paceline
