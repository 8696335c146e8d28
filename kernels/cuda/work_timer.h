#pragma once
// How long a device works on pieces of a stream, by pairs of events that are read when they have passed anyway: nothing
// waits for them. A record costs the host a microsecond, and a kernel behind one starts when its predecessor has ended,
// not before (no dependent launch across it). So a piece ends where the next one begins, with one record for both, and
// two of a kind go on as one; unless the host pauses, which cuts a piece.

#include <deque>
#include <memory>
#include <vector>

#include "kernels/cuda/stream.h"
#include "kernels/work.h"

namespace paceline::cuda {

/// Used on the thread of its backend, with the backend's device current. Not while the stream is captured.
class WorkTimer {
 public:
  /// The piece begins with the next launch; where the one before it was not cut, with its end. Throws Error(device), as
  /// do the others.
  void begin(WorkKind kind, cudaStream_t stream);
  /// Nothing without a piece that has begun.
  void end() {
    is_waiting_ = false;
    is_over_ = open_.begin != nullptr;
  }
  /// Before the host waits for the stream, or for something to give it: the piece ends here. One that is not over goes
  /// on with the next launch.
  void pause(cudaStream_t stream);
  /// Before each launch.
  void resume(cudaStream_t stream) {
    if (is_waiting_) go_on(stream);
  }
  /// Adds the seconds of pieces that the device has ended; of those that are over, all before the last pause().
  void collect(WorkLedger& ledger);

 private:
  using Mark = std::shared_ptr<TimedEvent>;  // of two pieces at most
  struct Piece {
    WorkKind kind = WorkKind::target;
    Mark begin, end;
  };
  Mark record(cudaStream_t stream);
  void go_on(cudaStream_t stream);
  void give_back(Mark mark);

  Piece open_;               // the last one, without an end; begin is null: none
  bool is_over_ = false;     // it is, and goes on if the next one is of its kind
  bool is_waiting_ = false;  // a piece that is not over waits for its next launch; open_ says its kind
  std::deque<Piece> ended_;  // for the stream, in its order
  std::vector<Mark> spare_;  // read, to be used again
};

}  // namespace paceline::cuda
