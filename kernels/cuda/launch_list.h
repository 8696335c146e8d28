#pragma once
// Kernels that are given out and not launched yet, with copies of their arguments.

#include <cstddef>
#include <vector>

#include "kernels/cuda/device.h"

namespace paceline::cuda {

class LaunchList {
 public:
  size_t size() const { return entries_.size(); }
  /// Ahead of entry `index`; copies the arguments.
  void add(const KernelCall& call, size_t index);
  void clear();

  /// Entry `index` as launch_call() takes it, without the arguments' sizes; valid until the next call of it or the list
  /// changes.
  KernelCall call(size_t index);
  /// Whether both launch the same kernels with blocks of the same shape; grids and arguments may differ.
  bool has_kernels_of(const LaunchList& other) const;
  /// REQUIRES has_kernels_of(other). Whether entry `index` of both differs in its grid or arguments.
  bool differs_at(size_t index, const LaunchList& other) const;
  /// Of what has_kernels_of compares.
  uint64_t hash_of_kernels() const;

 private:
  static constexpr size_t kAlign = 64;
  struct Entry {
    KernelCall call;                       // its arguments lie here:
    size_t first_byte = 0, num_bytes = 0;  // in bytes_, each at a multiple of kAlign
    size_t first_argument = 0;             // in at_
  };

  std::vector<Entry> entries_;
  std::vector<std::byte> bytes_;
  std::vector<size_t> at_;       // where each argument lies in bytes_
  std::vector<void*> argument_;  // of the call that was asked for last
};

}  // namespace paceline::cuda
