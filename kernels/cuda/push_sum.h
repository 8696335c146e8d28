#pragma once
// Small messages between devices that write into each other's memory: sums over ranks in one kernel on each device
// (alone, or within the norm that adds them), and logit columns gathered on one rank. One stream of each device takes
// part; sums are math::tree_sum.

#include <array>
#include <cstdint>
#include <memory>

#include "kernels/cuda/device.h"
#include "kernels/op_args.h"

namespace paceline {
namespace cuda {

inline constexpr int kMostPushers = 8;
inline constexpr int kMaxSummedCols = 8192;                // of rows that a norm sums
inline constexpr int64_t kPushFloats = 65536;              // of a message that is summed, at most
inline constexpr int64_t kPushColumns = int64_t{1} << 20;  // floats of a rank's columns, at most
inline constexpr int kColumnBlocks = 64;                   // that send and receive columns

/// Where one rank receives. Zeros at first: messages are numbered from 1.
class PushRoom {
 public:
  PushRoom(int ranks, cudaStream_t stream);
  uint4* pairs() const { return pairs_.as<uint4>(); }
  float* columns() const { return columns_.as<float>(); }
  uint32_t* marks() const { return marks_.as<uint32_t>(); }

 private:
  DeviceMemory pairs_;    // [message % 2][rank][kPushFloats / 2], peer_words.cuh
  DeviceMemory columns_;  // [gather % 2][rank][kPushColumns]
  DeviceMemory marks_;    // the last gather whose part has come: [rank][kColumnBlocks], was read: [root][kColumnBlocks]
};

/// One rank's view of a group.
struct PushGroup {
  std::array<uint4*, kMostPushers> room{};  // PushRoom::pairs() of each rank
  std::array<float*, kMostPushers> columns{};
  std::array<uint32_t*, kMostPushers> marks{};
  int rank = 0;
  int size = 0;
  const int* given_up = nullptr;  // host memory that devices see: not 0, the wait is over and the sums are void
};

/// x[count] becomes the sum. message: 1, 2, … of this group, the same on all ranks. count <= kPushFloats.
void push_sum(float* x, int64_t count, uint32_t message, const PushGroup& group, LaunchTo queue);

/// part [rows, cols] of every rank lands in `out` [rows, size * cols] on `root`; out is ignored elsewhere. gather: 1,
/// 2, … of this group's gathers on this root. rows * cols <= kPushColumns.
void push_columns(const MatView& part, const MatView& out, int root, uint32_t gather, const PushGroup& group,
                  LaunchTo queue);

}  // namespace cuda

/// A sum over ranks that ops carry out (GemmArgs::sum, NormArgs::sum).
struct PeerSum {
  cuda::PushGroup group;
  uint32_t message = 0;
  const uint32_t* base = nullptr;  // device memory; set: `message` counts from what stands there
};

namespace cuda {

/// This rank's part of a sum, in the rooms of all peers: a value and the message's number for each float.
struct PushWords {
  std::array<uint2*, kMostPushers - 1> to{};  // of even messages
  int64_t odd = 0;                            // from there to those of odd ones
  int count = 0;                              // peers; 0: nothing is sent
  uint32_t message = 0;                       // as in PeerSum
  const uint32_t* base = nullptr;
};
PushWords words_of(const PeerSum& sum);

}  // namespace cuda

}  // namespace paceline
