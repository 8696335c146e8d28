#pragma once
// What the fuzz targets share. A target reads any bytes and must end in order: by a result or by paceline::Error. What
// else happens (another exception, a sanitizer's finding, a hang, too much memory) is a bug; its input becomes a test.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernels/error.h"

namespace paceline::fuzz {

/// Bytes as a file that a loader can open by its path.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes) : fd_(::memfd_create("fuzz", 0)) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written <= 0) ::abort();
      bytes.remove_prefix(size_t(written));
    }
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() { ::close(fd_); }
  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

/// Calls `reads`; an Error is an answer.
template <class Reads>
void expect_answer(const Reads& reads) {
  try {
    reads();
  } catch (const Error&) {
  }
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace paceline::fuzz
