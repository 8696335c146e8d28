#pragma once
// Small data between host and kernels without copies that the stream would wait for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/cuda/device.h"
#include "kernels/cuda/table_shadow.h"

namespace paceline::cuda {

/// Host data on its way to kernels. An address stays valid for the kernels launched before the ring comes round; it
/// waits for the stream's work when it does. The same bytes again, as one layer after another brings them, are not sent
/// again.
class StagingRing {
 public:
  static constexpr size_t kBytes = size_t{8} << 20;

  /// wait: until all work of the stream has ended, or throws; flush() in it does nothing.
  StagingRing(LaunchTo to, std::function<void()> wait);
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  /// Copies the bytes at once; they are on the device after the next flush().
  void* stage(const void* host, size_t bytes);
  /// The next calls may stage `bytes` in `pieces` pieces without waiting or overwriting one another.
  void reserve(size_t bytes, size_t pieces);
  /// Sends what was staged since the last call, in one go; before the kernels that read it.
  void flush();

 private:
  static constexpr size_t kAlign = 256;
  struct Piece {
    size_t at = 0;
    size_t bytes = 0;
  };
  static constexpr size_t kRemembered = 8;

  LaunchTo to_;
  std::function<void()> wait_;
  char* pinned_ = nullptr;
  DeviceMemory device_;
  size_t used_ = 0, flushed_ = 0;
  std::array<Piece, kRemembered> recent_;
  size_t next_recent_ = 0;
};

/// A few KB from the host to device memory as the argument of a kernel, which is on the device as soon as any kernel
/// is. `to` is not read by kernels before; 16-byte aligned. bytes <= kMostPutBytes, rounded up to 16.
inline constexpr size_t kMostPutBytes = 3840;
void put_bytes(void* to, const void* host, size_t bytes, LaunchTo queue);
/// The same for kMostPutBytes that kernels before may read.
void put_over(void* to, const void* host, LaunchTo queue);
/// Words of a list at `to` that kernels before may read. words: kMostPutWords at most.
inline constexpr size_t kMostPutWords = 480;
void put_words(int32_t* to, std::span<const WordAt> words, LaunchTo queue);

/// Host memory that kernels write.
class HostMemory {
 public:
  HostMemory() = default;
  explicit HostMemory(size_t bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace paceline::cuda
