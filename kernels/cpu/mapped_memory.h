#pragma once
// Anonymous memory from the kernel: zero on first touch, so that the thread that writes first places the page.

#include <cstddef>
#include <utility>

namespace paceline {

/// Owns a mapping. 2 MiB and more are aligned to 2 MiB and ask for huge pages, less to a page.
class MappedMemory {
 public:
  static constexpr size_t kHugePage = size_t{2} << 20;

  MappedMemory() = default;
  /// Throws Error(device) when the system has no memory left. bytes may be 0.
  explicit MappedMemory(size_t bytes);
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept { swap(other); }
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  size_t bytes() const { return bytes_; }
  /// Room for `bytes`; the content is lost when it grows.
  void reserve(size_t bytes) {
    if (bytes > bytes_) *this = MappedMemory(bytes + bytes / 2);
  }

 private:
  void swap(MappedMemory& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapping_, other.mapping_);
    std::swap(mapping_bytes_, other.mapping_bytes_);
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
};

}  // namespace paceline
