#pragma once
// A read-only view of a regular file through mmap.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "engine/util/user_file.h"
#include "kernels/error.h"

namespace paceline {

/// Owns the mapping and the file; the bytes stay valid, at one address, while the object lives (moves included).
/// Threads: every const member may be called from any thread.
/// Truncation: a file that shrinks while it is mapped raises SIGBUS when a page beyond its new end is touched. That
/// window cannot be closed without copying, so readers call check_size() before and after each tensor: a file that
/// was cut between two tensors, or while one was read from pages already present, is an Error and never wrong data.
class MappedFile {
 public:
  /// Throws Error(`code`) as UserFile does, and where it cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path, ExitCode code = ExitCode::model_file,
                      size_t max_bytes = SIZE_MAX);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return file_.path(); }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Gives back the memory of the whole pages inside [offset, offset + size); reading them again faults them in anew.
  void release(size_t offset, size_t size) const noexcept;
  /// Asks for read-ahead over the whole file.
  void advise_sequential() const noexcept;
  /// Throws Error when the file is now shorter than it was when mapped.
  void check_size() const;

 private:
  UserFile file_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace paceline
