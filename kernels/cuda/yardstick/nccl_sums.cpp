#include "kernels/cuda/yardstick/nccl_sums.h"

#include <mutex>
#include <nccl.h>
#include <utility>
#include <vector>

#include "kernels/error.h"

namespace paceline {
namespace {

void check(ncclResult_t status, const char* what) {
  if (status != ncclSuccess) fail(ExitCode::comm, "{}: {}", what, ncclGetErrorString(status));
}

}  // namespace

struct NcclSums::Comms {
  std::vector<ncclComm_t> of_device;
  std::mutex mutex;  // of abort()
  bool aborted = false;
  ~Comms() {
    for (ncclComm_t comm : of_device)
      if (!aborted) ncclCommDestroy(comm);
  }
};

NcclSums::NcclSums(int devices) : comms_(std::make_unique<Comms>()) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(devices));
  check(ncclCommInitAll(comms.data(), devices, nullptr), "ncclCommInitAll");
  comms_->of_device = std::move(comms);
}
NcclSums::~NcclSums() = default;

void NcclSums::sum(int rank, const float* from, float* to, size_t count, CUstream_st* stream) {
  check(ncclAllReduce(from, to, count, ncclFloat32, ncclSum, comms_->of_device[size_t(rank)], stream), "ncclAllReduce");
}

void NcclSums::abort() noexcept {
  const std::lock_guard lock(comms_->mutex);
  if (std::exchange(comms_->aborted, true)) return;
  for (ncclComm_t comm : comms_->of_device) ncclCommAbort(comm);
}

}  // namespace paceline
