#pragma once
// The host's waits for a device's work: they end when a peer is gone, too, and when the device hangs.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/error.h"

namespace paceline::cuda {

/// A wait for a device that may wait for those of peers: no mark of any rank for peers.timeout_s ends it. The host's
/// marks tell of work that was given out, not of its end, so a device has timeout_s for what lies behind the newest.
class PeerWait {
 public:
  explicit PeerWait(const PeerWatch& peers)
      : peers_(peers), start_(now()), mark_(peers.marks, peers.rank, RankMarks::kAnybody, start_) {}
  bool is_over() const {
    const auto alive = peers_.marks ? std::max(start_, peers_.marks->newest()) : start_;
    return std::chrono::duration<double>(now() - alive).count() > peers_.timeout_s;
  }
  std::string story() const {
    return fmt::format("no rank has made a mark for {} s{}: one is dead or hangs", peers_.timeout_s,
                       peers_.marks ? " (" + peers_.marks->places() + ")" : "");
  }

 private:
  RankMarks::Time now() const { return peers_.marks ? peers_.marks->now() : AwakeClock::Steady::now(); }

  const PeerWatch& peers_;
  const RankMarks::Time start_;
  const RankWait mark_;
};

/// Until done(), or until all work of `stream` has ended. Throws Error(device) with the driver's words, and after
/// peers.timeout_s; with peers, Error(comm) then and when one of them has failed.
template <class Done>
void wait_for_work(cudaStream_t stream, int device, const PeerWatch& peers, Done&& done) {
  constexpr int kLooksBetween = 256;  // at the stream and the peers
  const PeerWait wait(peers);
  for (int looks = 0; !done(); ++looks) {
    if (looks % kLooksBetween != 0) continue;
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "cudaStreamQuery");
    if (peers.failed && peers.failed->load(std::memory_order_acquire))
      fail(ExitCode::comm, "device cuda:{}: given up, as another rank failed", device);
    if (wait.is_over())
      fail(peers.failed ? ExitCode::comm : ExitCode::device, "device cuda:{}: its work did not end within {} s; {}",
           device, peers.timeout_s, peers.failed ? wait.story() : "it hangs");
  }
}

inline void wait_for_work(cudaStream_t stream, int device, const PeerWatch& peers) {
  wait_for_work(stream, device, peers, [] { return false; });
}

}  // namespace paceline::cuda
