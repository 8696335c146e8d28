#include "kernels/cuda/yardstick/nccl_sums.h"

#include <nccl.h>

#include "kernels/error.h"

namespace paceline {
namespace {

void check(ncclResult_t status, const char* what) {
  if (status != ncclSuccess) fail(ExitCode::comm, "{}: {}", what, ncclGetErrorString(status));
}

}  // namespace

struct NcclSums::Comms {
  std::vector<ncclComm_t> of_device;
  ~Comms() {
    for (ncclComm_t comm : of_device) ncclCommDestroy(comm);
  }
};

NcclSums::NcclSums(int devices) : comms_(std::make_unique<Comms>()) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(devices));
  check(ncclCommInitAll(comms.data(), devices, nullptr), "ncclCommInitAll");
  comms_->of_device = std::move(comms);
}
NcclSums::~NcclSums() = default;

void NcclSums::sum(int rank, float* x, size_t count, CUstream_st* stream) {
  check(ncclAllReduce(x, x, count, ncclFloat32, ncclSum, comms_->of_device[size_t(rank)], stream), "ncclAllReduce");
}

}  // namespace paceline
