#pragma once
// Tensor maps of pages, by which kernels copy boxes of keys and values into shared memory. No kernel here.

#include <cuda.h>
#include <unordered_map>

#include "kernels/op_args.h"

namespace paceline::cuda {

/// Of one layer, its K and its V as rows of k_dim bfloat16 values: boxes of 16 rows and 64 values, zeros beyond the
/// row, with the 16-byte units of each 128 bytes exchanged (swizzle of 128 bytes). A kernel's argument by value, as
/// __grid_constant__.
struct PageMaps {
  CUtensorMap k{}, v{};
};

/// The maps of the layers that a device works on. Used by one thread.
class PageMapCache {
 public:
  /// kv: rows of a multiple of 8 values for K and as many for V. Throws Error(device) with the driver's code.
  const PageMaps& of(const KvView& kv);

 private:
  struct Made {
    const void* v = nullptr;
    int k_dim = 0;
    PageMaps maps;
  };
  std::unordered_map<const void*, Made> made_;  // by K's pages
};

}  // namespace paceline::cuda
