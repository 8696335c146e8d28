#pragma once
// How long a device works on pieces of a stream, by pairs of events that are read when they have passed anyway: nothing
// waits for them. Two records a piece, about a microsecond each for the host; a kernel behind one starts when its
// predecessor has ended, not before (no dependent launch across it).

#include <deque>
#include <memory>
#include <vector>

#include "kernels/cuda/stream.h"
#include "kernels/work.h"

namespace paceline::cuda {

/// Used on the thread of its backend, with the backend's device current. Not while the stream is captured.
class WorkTimer {
 public:
  /// Throws Error(device), as do the others.
  void begin(WorkKind kind, cudaStream_t stream);
  /// Nothing without a piece that has begun.
  void end(cudaStream_t stream);
  /// Adds the seconds of pieces that the device has ended.
  void collect(WorkLedger& ledger);

 private:
  struct Piece {
    WorkKind kind = WorkKind::target;
    std::unique_ptr<TimedEvent> begin, end;
  };
  std::unique_ptr<TimedEvent> take();

  Piece open_;                                      // begin is null: none
  std::deque<Piece> ended_;                         // for the stream, in its order
  std::vector<std::unique_ptr<TimedEvent>> spare_;  // read, to be used again
};

}  // namespace paceline::cuda
