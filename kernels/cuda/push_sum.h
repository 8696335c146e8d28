#pragma once
// The sum over ranks of small messages, in one kernel on each device: every rank writes its part into the memory of all
// peers and waits for theirs, block by block. One stream of each device takes part; sums are math::tree_sum.

#include <array>
#include <cstdint>
#include <memory>

#include "kernels/cuda/device.h"

namespace paceline::cuda {

inline constexpr int kMostPushers = 8;
inline constexpr int64_t kPushFloats = 65536;  // of a message, at most

/// Where one rank receives: parts of all ranks and a mark a block, twice, as a rank may be one message ahead.
class PushRoom {
 public:
  explicit PushRoom(cudaStream_t stream);
  float* parts() const { return memory_.as<float>(); }

 private:
  DeviceMemory memory_;
};

/// One rank's view of a group.
struct PushGroup {
  std::array<float*, kMostPushers> room{};  // PushRoom::parts() of each rank
  int rank = 0;
  int size = 0;
  const int* given_up = nullptr;  // host memory that devices see: not 0, the wait is over and the sums are void
};

/// x[count] becomes the sum. message: 1, 2, … of this group, the same on all ranks. count <= kPushFloats.
void push_sum(float* x, int64_t count, uint32_t message, const PushGroup& group, cudaStream_t stream);

}  // namespace paceline::cuda
