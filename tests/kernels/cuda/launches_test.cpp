// Launches say whether they may start early, as a capture of the stream shows. In builds with CUDA only.

#include <cuda_runtime.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device.h"
#include "tests/kernels/backend_fixture.h"

namespace paceline::test {
namespace {

/// Of the graph's edges, those along which a kernel may start before the other has ended; and all.
struct Edges {
  size_t early = 0, all = 0;
};

Edges edges_of(cudaGraph_t graph) {
  const auto get = [&](cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data, size_t* count) {
#if CUDART_VERSION >= 13000
    cuda::check(cudaGraphGetEdges(graph, from, to, data, count), "cudaGraphGetEdges");
#else
    cuda::check(cudaGraphGetEdges_v2(graph, from, to, data, count), "cudaGraphGetEdges");
#endif
  };
  Edges edges;
  get(nullptr, nullptr, nullptr, &edges.all);
  std::vector<cudaGraphNode_t> from(edges.all), to(edges.all);
  std::vector<cudaGraphEdgeData> data(edges.all);
  get(from.data(), to.data(), data.data(), &edges.all);
  for (const cudaGraphEdgeData& edge : data) edges.early += edge.type == cudaGraphDependencyTypeProgrammatic;
  return edges;
}

TEST(EarlyStarts, AreInEachLaunchUnlessTurnedOffOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  for (const bool early_starts : {true, false}) {
    const auto backend = make_backend("cuda:0", {.early_starts = early_starts});
    const GuardedRows x(*backend, 2, 64, random_values(128, 1));
    const auto give_out = [&] {
      for (int i = 0; i < 3; ++i) backend->softcap({.x = x.view(), .cap = 2.0f});
    };
    backend->run(1, give_out);  // takes memory, which a capture does not allow
    backend->sync();
    for (const bool in_pass : {false, true}) {
      cudaStream_t const stream = cuda_stream(*backend).stream;
      cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
      in_pass ? backend->run(2, give_out) : give_out();
      cudaGraph_t graph = nullptr;
      cuda::check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
      const Edges edges = edges_of(graph);
      cudaGraphDestroy(graph);
      EXPECT_EQ(edges.all, 2u) << in_pass;
      EXPECT_EQ(edges.early, early_starts ? 2u : 0u) << in_pass;
    }
  }
}

}  // namespace
}  // namespace paceline::test
