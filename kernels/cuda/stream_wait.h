#pragma once
// The host's waits for a device's work: they end when a peer is gone, too, and when the device hangs.

#include <atomic>
#include <chrono>
#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/error.h"

namespace paceline::cuda {

/// Until done(), or until all work of `stream` has ended. Throws Error(device) with the driver's words, and after
/// peers.timeout_s; with peers, Error(comm) then and when one of them has failed.
template <class Done>
void wait_for_work(cudaStream_t stream, int device, const PeerWatch& peers, Done&& done) {
  constexpr int kLooksBetween = 256;  // at the stream and the peers
  const auto start = std::chrono::steady_clock::now();
  for (int looks = 0; !done(); ++looks) {
    if (looks % kLooksBetween != 0) continue;
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "cudaStreamQuery");
    if (peers.failed && peers.failed->load(std::memory_order_acquire))
      fail(ExitCode::comm, "device cuda:{}: given up, as another rank failed", device);
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > peers.timeout_s)
      fail(peers.failed ? ExitCode::comm : ExitCode::device, "device cuda:{}: its work did not end within {} s; {}",
           device, peers.timeout_s, peers.failed ? "a rank is dead or hangs" : "it hangs");
  }
}

inline void wait_for_work(cudaStream_t stream, int device, const PeerWatch& peers) {
  wait_for_work(stream, device, peers, [] { return false; });
}

}  // namespace paceline::cuda
