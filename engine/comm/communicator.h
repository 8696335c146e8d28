#pragma once
// How ranks talk: threads of one process, and NCCL behind the same verbs.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/mat_view.h"

namespace paceline {

class ActivityLog;
class RankMarks;
struct PeerSum;

/// What a rank has spent on communication so far.
struct CommStats {
  uint64_t collectives = 0;      // all_reduce, gather, broadcast, barrier
  uint64_t bytes = 0;            // payload this rank put in
  double collective_wait_s = 0;  // waiting for peers inside collectives
  double receive_wait_s = 0;     // waiting in recv: the pipeline's bubble
};

/// Floats of x as a message of `call`: its rows lie without holes, on every kind of group.
inline size_t message_floats(const char* call, const MatView& x) {
  PACELINE_CHECK(x.stride == x.cols, "{}: rows of {} floats, {} apart", call, x.cols, x.stride);
  return size_t(x.rows) * size_t(x.cols);
}

/// One rank's end of a group. Every rank of the group makes the same calls in the same order; one thread per
/// rank. Every wait ends: when those it waits for make no marks for timeout_s (kernels/rank_marks.h), or by abort. Then
/// it throws Error(comm) that names the call, its sequence number, the rank that is missing and where that one was.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// x[m, n] f32 becomes the sum over ranks, added along the rank tree ((r0+r1)+(r2+r3))…: with the GEMM's chunk
  /// tree the bits equal those of one rank (docs/numerics.md). Same bits on every rank.
  virtual void all_reduce(const MatView& x) = 0;

  /// The same, carried out by the ops that make x and that read it: what GemmArgs::sum of the product with y = x takes,
  /// then NormArgs::sum of the norm with delta = x, before any other call here. Null: x is for all_reduce.
  virtual const PeerSum* next_sum(const MatView& x) {
    static_cast<void>(x);
    return nullptr;
  }

  /// Column blocks of all ranks, rank order, land in `out` [m, size * n] on `root`; out is ignored elsewhere.
  virtual void gather_columns(const MatView& part, const MatView& out, int root) = 0;

  /// Point to point; rows of x are copied out at send, which never waits for the receiver.
  virtual void send(const MatView& x, int peer) = 0;
  virtual void recv(const MatView& x, int peer) = 0;

  /// Control plane: every rank ends with root's bytes.
  virtual void broadcast(std::vector<std::byte>& message, int root) = 0;
  virtual void barrier() = 0;

  /// Groups of equal `color`, ordered by `key`; collective over this group.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Wakes every waiting rank of every group of this family; they throw Error(comm) with `reason`.
  virtual void abort(const std::string& reason) noexcept = 0;

  virtual CommStats stats() const = 0;
};

struct ThreadGroupOptions {
  int size = 1;
  double timeout_s = 60.0;              // longest silence of a rank that is waited for
  bool may_spin = true;                 // false: waits go to futex at once (threads > cores)
  std::vector<ActivityLog*> logs = {};  // [size] where each rank's waits are recorded, in groups split off as well;
                                        // they outlive the group; empty: nowhere
  RankMarks* marks = nullptr;           // of the ranks as numbered here; outlives the group; null: the group's own
};

/// The ends of a group of threads of this process, one per rank.
std::vector<std::unique_ptr<Communicator>> make_thread_group(const ThreadGroupOptions& options);

}  // namespace paceline
