#pragma once
// NCCL's own sum over devices, beside which ours is measured.

#include <cstddef>
#include <memory>

struct CUstream_st;

namespace paceline {

class NcclSums {
 public:
  /// One communicator for each of devices 0, 1, …; throws Error(comm).
  explicit NcclSums(int devices);
  ~NcclSums();
  /// to[count] of device `rank` becomes the sum of all ranks' `from`, in its stream. On every rank, by a thread each.
  void sum(int rank, const float* from, float* to, size_t count, CUstream_st* stream);
  /// A rank has failed: the others' kernels end. Any thread.
  void abort() noexcept;

 private:
  struct Comms;
  std::unique_ptr<Comms> comms_;
};

}  // namespace paceline
