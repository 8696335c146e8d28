#pragma once
// Shared by the op tests: guarded device buffers, reproducible values, packed weights, a paged KV cache.

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "kernels/cpu/storage.h"

namespace paceline::test {

/// Rows of floats on a backend with guard words before, between (stride padding) and after them.
class GuardedRows {
 public:
  GuardedRows(Backend& backend, int rows, int cols, int padding = 3)
      : backend_(backend), rows_(rows), cols_(cols), stride_(cols + padding) {
    words_.assign(size_t(kGuard + rows * stride_ + kGuard), kSentinel);
    data_ = backend.alloc(words_.size() * 4);
    write();
  }
  GuardedRows(Backend& backend, int rows, int cols, const std::vector<float>& values, int padding = 3)
      : GuardedRows(backend, rows, cols, padding) {
    for (int r = 0; r < rows; ++r) std::memcpy(&words_[at(r, 0)], values.data() + r * cols, size_t(cols) * 4);
    write();
  }
  ~GuardedRows() { backend_.free(data_); }
  GuardedRows(const GuardedRows&) = delete;

  MatView view() const { return MatView{static_cast<float*>(data_) + kGuard, DType::f32, -1, rows_, cols_, stride_}; }
  float* data() const { return static_cast<float*>(data_) + kGuard; }

  /// The values; fails the test when a guard word has changed.
  std::vector<float> read() {
    backend_.sync();
    std::vector<uint32_t> now(words_.size());
    backend_.download(now.data(), data_, now.size() * 4);
    std::vector<float> values(size_t(rows_ * cols_));
    std::vector<bool> inside(now.size(), false);
    for (int r = 0; r < rows_; ++r)
      for (int c = 0; c < cols_; ++c) {
        inside[at(r, c)] = true;
        std::memcpy(&values[size_t(r * cols_ + c)], &now[at(r, c)], 4);
      }
    for (size_t i = 0; i < now.size(); ++i) {
      if (inside[i]) continue;
      EXPECT_EQ(now[i], kSentinel) << "guard word " << i << " was overwritten";
    }
    return values;
  }

 private:
  static constexpr int kGuard = 64;
  static constexpr uint32_t kSentinel = 0x7fa5a5a5u;  // a NaN: reading a guard shows too
  size_t at(int r, int c) const { return size_t(kGuard + r * stride_ + c); }
  void write() { backend_.upload(data_, words_.data(), words_.size() * 4); }

  Backend& backend_;
  int rows_, cols_, stride_;
  std::vector<uint32_t> words_;
  void* data_ = nullptr;
};

inline std::vector<float> random_values(size_t count, uint32_t seed, float scale = 1.0f) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& v : values) v = normal(bits);
  return values;
}

/// A host array moved to the backend, for small vectors.
class DeviceArray {
 public:
  DeviceArray(Backend& backend, const std::vector<float>& values) : backend_(backend) {
    data_ = backend.alloc(values.size() * 4 + 4);
    backend.upload(data_, values.data(), values.size() * 4);
  }
  ~DeviceArray() { backend_.free(data_); }
  DeviceArray(const DeviceArray&) = delete;
  const float* data() const { return static_cast<const float*>(data_); }

 private:
  Backend& backend_;
  void* data_ = nullptr;
};

/// Values as a checkpoint stores them; `value` is what the storage type keeps.
struct StoredMatrix {
  DType dtype = DType::f32;
  int64_t rows = 0, cols = 0, stride = 0;
  std::vector<char> bytes;
  std::vector<float> value;  // [rows][cols]

  StoredMatrix(int64_t r, int64_t c, DType type, uint32_t seed, float scale = 0.5f, int64_t padding = 2)
      : dtype(type), rows(r), cols(c), stride(c + padding), bytes(size_t(r * (c + padding)) * dtype_bytes(type)) {
    value = random_values(size_t(r * c), seed, scale);
    for (int64_t i = 0; i < r; ++i)
      for (int64_t j = 0; j < c; ++j) set(i, j, value[size_t(i * c + j)]);
  }
  void set(int64_t i, int64_t j, float x) {
    char* at = bytes.data() + size_t(i * stride + j) * dtype_bytes(dtype);
    float& kept = value[size_t(i * cols + j)];
    if (dtype == DType::f32) from_f32(kept = x, reinterpret_cast<float*>(at));
    if (dtype == DType::f16) from_f32(x, reinterpret_cast<Half*>(at)), kept = to_f32(*reinterpret_cast<Half*>(at));
    if (dtype == DType::bf16) from_f32(x, reinterpret_cast<BFloat*>(at)), kept = to_f32(*reinterpret_cast<BFloat*>(at));
  }
  HostWeight host() const { return {bytes.data(), dtype, rows, cols, stride}; }
  HostWeight col_range(int64_t begin, int64_t count) const {
    return {bytes.data() + size_t(begin) * dtype_bytes(dtype), dtype, rows, count, stride};
  }
};

/// One layer's pages, blocks dealt in a given order.
class PagedKv {
 public:
  PagedKv(Backend& backend, int num_blocks, int block_size, int num_kv_heads, int k_dim, int v_dim, DType dtype,
          bool shared_v = false)
      : backend_(backend) {
    view_ =
        KvView{.dtype = dtype, .block_size = block_size, .num_kv_heads = num_kv_heads, .k_dim = k_dim, .v_dim = v_dim};
    k_bytes_ = size_t(num_blocks * block_size * num_kv_heads * k_dim) * dtype_bytes(dtype);
    v_bytes_ = size_t(num_blocks * block_size * num_kv_heads * v_dim) * dtype_bytes(dtype);
    view_.k = backend.alloc(k_bytes_);
    if (!shared_v) view_.v = backend.alloc(v_bytes_);
    const std::vector<char> garbage(std::max(k_bytes_, v_bytes_), char(0xff));  // NaN: unwritten keys must not count
    backend.upload(view_.k, garbage.data(), k_bytes_);
    if (view_.v) backend.upload(view_.v, garbage.data(), v_bytes_);
  }
  ~PagedKv() {
    backend_.free(view_.k);
    if (view_.v) backend_.free(view_.v);
  }
  PagedKv(const PagedKv&) = delete;
  const KvView& view() const { return view_; }
  std::vector<char> bytes() const {
    std::vector<char> all(k_bytes_ + (view_.v ? v_bytes_ : 0));
    backend_.download(all.data(), view_.k, k_bytes_);
    if (view_.v) backend_.download(all.data() + k_bytes_, view_.v, v_bytes_);
    return all;
  }

 private:
  Backend& backend_;
  KvView view_;
  size_t k_bytes_ = 0, v_bytes_ = 0;
};

inline double nmse(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, power = 1e-300;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    power += want[i] * want[i];
  }
  return error / power;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}

inline float round_to(DType dtype, float x) {
  Half half;
  BFloat bfloat;
  if (dtype == DType::f16) return from_f32(x, &half), to_f32(half);
  if (dtype == DType::bf16) return from_f32(x, &bfloat), to_f32(bfloat);
  return x;
}

}  // namespace paceline::test
