#pragma once
// What a backend sends to its device: kernels and the small data that they read, in the order in which they are given
// out, one by one or as graphs.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/pass_graphs.h"
#include "kernels/cuda/staging.h"
#include "kernels/cuda/stream.h"

namespace paceline::cuda {

/// As BackendOptions says.
struct LaunchModes {
  bool graphs = true, early_starts = true;
};

/// Used on the thread of one backend, with its device current.
class LaunchQueue {
 public:
  /// wait: until all work of the stream has ended, or throws; the queue may be used in it. before_sending: called
  /// before kernels, or what now() is for, go to the stream.
  LaunchQueue(LaunchModes modes, std::function<void()> wait, std::function<void()> before_sending);

  const LaunchModes& modes() const { return modes_; }
  /// For a kernel: what is staged by now goes ahead of it.
  LaunchTo to();
  /// For anything else that goes to the stream: behind all that was given out.
  cudaStream_t now();
  /// For waits: all that was given out has been sent.
  cudaStream_t sent();
  /// For queries: nothing is sent.
  cudaStream_t stream() const { return stream_.stream; }

  /// Device memory that holds the bytes for the kernels that are given out next, which only read: until the ring comes
  /// round, within a pass until its end. A pass holds equal bytes once, wherever on the host they lay.
  void* stage(const void* host, size_t bytes);
  /// The next calls may stage `bytes` in `pieces` pieces without overwriting one another.
  void reserve(size_t bytes, size_t pieces);

  /// Words of a list in device memory that kernels given out before may read, kMostPutWords at most. leads: none of
  /// those that are not sent yet does.
  void put_words(int32_t* to, std::span<const WordAt> words, bool leads);
  /// Device memory that kernels given out before may read becomes what lies at `host`, for those given out next.
  void send(void* to, const void* host, size_t bytes);

  /// body() gives out a pass: kernels that the queue notes and sends as lists (PassGraphs::launch): the first when it
  /// is long enough to keep the device busy while the rest is given out, one before whatever else goes to the stream,
  /// one at the end. What is staged meanwhile lies where it lay in other passes, as far as the sizes, rounded up to
  /// powers of two, are the same; a pass that stages more than there is room for goes on kernel by kernel. Throws what
  /// body() throws; what it had given out by then is sent. A pass within a pass is a part of it.
  void run_pass(uint64_t key, const std::function<void()>& body);
  bool is_in_pass() const { return is_listing_; }
  uint64_t num_graphs_launched() const { return graphs_.num_launches(); }

 private:
  static constexpr size_t kFirstList = 12;                  // kernels
  static constexpr size_t kLists = 2;                       // of a pass, that may become graphs
  static constexpr size_t kPassBytes = 32 * kMostPutBytes;  // staged in a pass, at most
  static constexpr size_t kFewestBytes = 64;                // that a piece takes
  struct Piece {
    size_t bytes, at;
  };

  LaunchTo straight() const { return {stream_.stream, modes_.early_starts}; }
  void send_list();
  void end_pass();

  OwnStream stream_;
  const LaunchModes modes_;
  StagingRing ring_;
  const std::function<void()> before_sending_;
  PassGraphs graphs_;

  bool is_listing_ = false;
  uint64_t key_ = 0;
  size_t num_sent_ = 0;  // lists of this pass
  LaunchList list_;
  DeviceMemory pass_memory_;
  std::vector<std::byte> pass_bytes_;  // what is, or will be, in pass_memory_
  std::vector<Piece> pieces_;
  struct {
    size_t bytes = 0, pieces = 0;
  } reserved_;                 // by the last reserve()
  size_t used_ = 0, put_ = 0;  // of pass_bytes_: staged; in a list
};

}  // namespace paceline::cuda
