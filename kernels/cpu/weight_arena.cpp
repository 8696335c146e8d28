#include "kernels/cpu/weight_arena.h"

#include <algorithm>

#include "kernels/cpu/extent.h"

namespace paceline {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kMostPagesAhead = 4;

size_t up_to_whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// A page that two threads write into first is cleared by both, and one of the two thrown away.
void place_pages(char* begin, size_t bytes, ThreadPool& pool) {
  permit_extent(begin, bytes);
  const int64_t num_pages = int64_t(up_to_whole(bytes, MappedMemory::kHugePage) / MappedMemory::kHugePage);
  pool.parallel_for(num_pages, [&](int64_t page, int) { begin[size_t(page) * MappedMemory::kHugePage] = 0; });
}

}  // namespace

WeightMemory WeightArena::take(size_t bytes, ThreadPool& pool) {
  if (bytes >= kLargeBytes) {
    auto own = std::make_shared<const MappedMemory>(bytes);
    char* const data = static_cast<char*>(own->data());
    place_pages(data, bytes, pool);
    return {std::move(own), data};
  }
  const size_t taken = up_to_whole(bytes, kLine);
  if (!slab_ || used_ + taken > slab_->bytes()) {
    slab_ = std::make_shared<const MappedMemory>(kSlabBytes);
    forbid_extent(slab_->data(), kSlabBytes);
    used_ = placed_ = 0;
  }
  char* const slab = static_cast<char*>(slab_->data());
  WeightMemory piece{slab_, slab + used_};
  used_ += taken;
  if (used_ > placed_) {
    const size_t at_a_time = MappedMemory::kHugePage * std::min(size_t(pool.num_threads()), kMostPagesAhead);
    const size_t end = std::min(up_to_whole(used_, at_a_time), kSlabBytes);
    place_pages(slab + placed_, end - placed_, pool);
    forbid_extent(slab + placed_, end - placed_);
    placed_ = end;
  }
  permit_extent(piece.data, bytes);
  return piece;
}

}  // namespace paceline
