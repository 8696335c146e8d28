#pragma once
// Where packed weights lie: one after the other in large mappings. Matrices below 2 MiB get huge pages this way too,
// and a stream that reads ahead runs from one matrix into the next.

#include <cstddef>
#include <memory>

#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/thread_pool.h"

namespace paceline {

/// A piece of a slab, zero. The slab is unmapped with its last piece.
struct WeightMemory {
  std::shared_ptr<const MappedMemory> slab;
  char* data = nullptr;  // aligned to 64 bytes
};

/// Threads: take() is called by one thread at a time; pieces may die on any.
class WeightArena {
 public:
  static constexpr size_t kSlabBytes = size_t{64} << 20;
  static constexpr size_t kLargeBytes = size_t{8} << 20;

  /// Its pages are made by threads of `pool`, those of a slab a few at a time. A piece of kLargeBytes or more has a
  /// slab of its own. Throws Error(device) when the system has no memory left.
  WeightMemory take(size_t bytes, ThreadPool& pool);

 private:
  std::shared_ptr<const MappedMemory> slab_;  // the one that is being filled
  size_t used_ = 0, placed_ = 0;              // bytes of it; with pages
};

}  // namespace paceline
