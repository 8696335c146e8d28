#include "kernels/cpu/weight_arena.h"

#include "kernels/cpu/extent.h"

namespace paceline {

WeightMemory WeightArena::take(size_t bytes) {
  constexpr size_t kLine = 64;
  if (bytes >= kLargeBytes) {
    auto own = std::make_shared<const MappedMemory>(bytes);
    char* data = static_cast<char*>(own->data());
    return {std::move(own), data};
  }
  const size_t taken = (bytes + kLine - 1) / kLine * kLine;
  if (!slab_ || used_ + taken > slab_->bytes()) {
    slab_ = std::make_shared<const MappedMemory>(kSlabBytes);
    forbid_extent(slab_->data(), kSlabBytes);
    used_ = 0;
  }
  WeightMemory piece{slab_, static_cast<char*>(slab_->data()) + used_};
  permit_extent(piece.data, bytes);
  used_ += taken;
  return piece;
}

}  // namespace paceline
