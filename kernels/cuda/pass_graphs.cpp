#include "kernels/cuda/pass_graphs.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "kernels/error.h"

namespace paceline::cuda {
namespace {

/// First driver that lets a kernel of a graph start early.
constexpr int kOldestDriver = 12030;

/// The node that the last launch into a stream under capture has added.
cudaGraphNode_t last_node(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
#if CUDART_VERSION >= 13000
  check(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count),
        "cudaStreamGetCaptureInfo");
#else
  check(cudaStreamGetCaptureInfo_v3(stream, &status, nullptr, nullptr, &nodes, &edges, &count),
        "cudaStreamGetCaptureInfo");
#endif
  return count == 1 ? nodes[0] : nullptr;
}

struct FreeGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
struct FreeExec {
  void operator()(cudaGraphExec_t exec) const { cudaGraphExecDestroy(exec); }
};
using OwnGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, FreeGraph>;
using OwnExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, FreeExec>;

}  // namespace

void launch_all(LaunchList& list, LaunchTo to) {
  for (size_t i = 0; i < list.size(); ++i) launch_call(to, list.call(i));
}

struct PassGraphs::Graph {
  uint64_t key, hash;
  LaunchList list;  // as set in exec
  OwnGraph graph;
  OwnExec exec;                       // null: not made yet, or what is set in it is not known
  std::vector<cudaGraphNode_t> node;  // of each of the list's

  /// `from` becomes the graph's list. capture: nothing is launched.
  void make(LaunchList& from, LaunchTo capture) {
    exec.reset();
    node.clear();
    check(cudaStreamBeginCapture(capture.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    const auto end = [&] {
      cudaGraph_t made = nullptr;
      const cudaError_t ended = cudaStreamEndCapture(capture.stream, &made);
      graph.reset(made);
      return ended;
    };
    try {
      for (size_t i = 0; i < from.size(); ++i) {
        launch_call(capture, from.call(i));
        node.push_back(last_node(capture.stream));
      }
    } catch (...) {
      static_cast<void>(end());
      throw;
    }
    check(end(), "cudaStreamEndCapture");
    cudaGraphExec_t made = nullptr;
    check(cudaGraphInstantiate(&made, graph.get(), 0), "cudaGraphInstantiate");
    exec.reset(made);
    list = from;
  }

  /// REQUIRES the kernels of `from`, which becomes the graph's list. False: it cannot be set, and exec is void.
  bool set(LaunchList& from) {
    for (size_t i = 0; i < from.size(); ++i) {
      if (!from.differs_at(i, list)) continue;
      const KernelCall call = from.call(i);
      cudaKernelNodeParams params{};
      params.func = const_cast<void*>(call.function);
      params.gridDim = call.grid;
      params.blockDim = call.block;
      params.sharedMemBytes = unsigned(call.shared_bytes);
      params.kernelParams = const_cast<void**>(call.argument);
      if (cudaGraphExecKernelNodeSetParams(exec.get(), node[i], &params) != cudaSuccess) return false;
    }
    std::swap(list, from);
    return true;
  }
};

PassGraphs::PassGraphs() {
  int driver = 0;
  makes_more_ = cudaDriverGetVersion(&driver) == cudaSuccess && driver >= kOldestDriver;
}
PassGraphs::~PassGraphs() = default;

void PassGraphs::launch(uint64_t key, LaunchList& list, LaunchTo to) {
  if (list.size() < 2) return launch_all(list, to);
  const uint64_t hash = list.hash_of_kernels();
  const auto found =
      std::ranges::find_if(graphs_, [&](const Graph& graph) { return graph.key == key && graph.hash == hash; });
  if (found == graphs_.end()) {
    if (graphs_.size() == kMostGraphs) graphs_.pop_back();
    graphs_.push_front({.key = key, .hash = hash, .list = {}, .graph = nullptr, .exec = nullptr, .node = {}});
    return launch_all(list, to);
  }
  graphs_.splice(graphs_.begin(), graphs_, found);
  Graph& graph = graphs_.front();
  if (graph.exec && graph.list.has_kernels_of(list)) {
    if (graph.set(list)) {
      ++num_launches_;
      return check(cudaGraphLaunch(graph.exec.get(), to.stream), "cudaGraphLaunch");
    }
    cudaGetLastError();
    graph.exec.reset();
    return launch_all(list, to);
  }
  launch_all(list, to);
  if (!makes_more_) return;
  to.stream = capture_.stream;
  try {
    graph.make(list, to);   // while the device works
  } catch (const Error&) {  // no memory for it, say: it would only have been faster
    cudaGetLastError();
    graphs_.pop_front();
    makes_more_ = false;
  }
}

}  // namespace paceline::cuda
