#include "engine/cache/swap_space.h"

#include "kernels/error.h"

namespace paceline {

SwapSpace::SwapSpace(int num_blocks) : num_blocks_(num_blocks) {
  for (int32_t block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

const SwapSpace::Place* SwapSpace::put(SeqId seq, int cached, int count) {
  PACELINE_CHECK(!places_.contains(seq), "sequence {} is in the swap space", seq);
  if (cached == 0 || count > num_free()) return nullptr;
  Place& place = places_[seq];
  place.cached = cached;
  place.block.assign(free_.end() - count, free_.end());
  free_.resize(free_.size() - size_t(count));
  return &place;
}

const SwapSpace::Place* SwapSpace::find(SeqId seq) const {
  const auto found = places_.find(seq);
  return found == places_.end() ? nullptr : &found->second;
}

void SwapSpace::drop(SeqId seq) {
  const auto found = places_.find(seq);
  if (found == places_.end()) return;
  free_.insert(free_.end(), found->second.block.begin(), found->second.block.end());
  places_.erase(found);
}

}  // namespace paceline
