#pragma once
// Lists of kernels as CUDA graphs. In a graph a kernel follows its predecessor half a microsecond sooner than in a
// stream, and the host launches all of them in two microseconds (docs/performance.md).

#include <cstdint>
#include <list>

#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/stream.h"

namespace paceline::cuda {

/// One after another. to: no list.
void launch_all(LaunchList& list, LaunchTo to);

/// Used on the thread of one backend, with its device current.
class PassGraphs {
 public:
  PassGraphs();
  ~PassGraphs();
  PassGraphs(const PassGraphs&) = delete;

  /// Launches what the list holds, in its order and in stream order, one kernel after another; as a graph from the
  /// third time on that the same kernels come under the same key, when arguments and grids that have changed since
  /// are set in it. (The second time shows that they come again, and makes the graph; the first that cannot be made is
  /// the last that is tried.) The first kernel of a graph starts when all before it has ended. key: tells lists apart
  /// that would otherwise take one graph in turns and set most of its arguments each time. to: no list; the same each
  /// time.
  void launch(uint64_t key, LaunchList& list, LaunchTo to);
  /// Graphs launched so far.
  uint64_t num_launches() const { return num_launches_; }

 private:
  struct Graph;
  static constexpr size_t kMostGraphs = 128;

  bool makes_more_;
  uint64_t num_launches_ = 0;
  OwnStream capture_;
  std::list<Graph> graphs_;  // the last one used first
};

}  // namespace paceline::cuda
