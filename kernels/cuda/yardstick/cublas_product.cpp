#include "kernels/cuda/yardstick/cublas_product.h"

#include <array>
#include <cublasLt.h>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/yardstick/device_timer.h"
#include "kernels/error.h"

namespace paceline {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(ExitCode::device, "device cuda: {} failed with cublasStatus_t {}", what, int(status));
}

constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kGuesses = 8, kRounds = 5;

}  // namespace

struct CublasProduct::Plan {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  cudaStream_t stream = nullptr;
  cuda::DeviceMemory x_memory, y_memory, workspace;

  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {w, x, y})
      if (layout) cublasLtMatrixLayoutDestroy(layout);
    if (product) cublasLtMatmulDescDestroy(product);
    if (handle) cublasLtDestroy(handle);
  }
  void run(const void* weights, const cublasLtMatmulAlgo_t& by) const {
    const float one = 1.0f, zero = 0.0f;
    check(cublasLtMatmul(handle, product, &one, weights, w, x_memory.as<void>(), x, &zero, y_memory.as<void>(), y,
                         y_memory.as<void>(), y, &by, workspace.as<void>(), kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }
};

// Column-major, as the library sees it: yᵀ [n, m] = W [n, k] · xᵀ [k, m].
CublasProduct::CublasProduct(int m, int n, int k, CUstream_st* stream) : plan_(std::make_unique<Plan>()) {
  Plan& plan = *plan_;
  plan.stream = stream;
  check(cublasLtCreate(&plan.handle), "cublasLtCreate");
  check(cublasLtMatmulDescCreate(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
        "cublasLtMatmulDescSetAttribute");
  check(cublasLtMatrixLayoutCreate(&plan.w, CUDA_R_16BF, uint64_t(k), uint64_t(n), k), "cublasLtMatrixLayoutCreate");
  check(cublasLtMatrixLayoutCreate(&plan.x, CUDA_R_16BF, uint64_t(k), uint64_t(m), k), "cublasLtMatrixLayoutCreate");
  check(cublasLtMatrixLayoutCreate(&plan.y, CUDA_R_16BF, uint64_t(n), uint64_t(m), n), "cublasLtMatrixLayoutCreate");
  plan.x_memory = cuda::DeviceMemory(size_t(m) * size_t(k) * 2, stream);
  plan.y_memory = cuda::DeviceMemory(size_t(m) * size_t(n) * 2, stream);
  plan.workspace = cuda::DeviceMemory(kWorkspaceBytes, stream);

  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, decltype(&cublasLtMatmulPreferenceDestroy)>
      own_preference(preference, cublasLtMatmulPreferenceDestroy);
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                                             sizeof kWorkspaceBytes),
        "cublasLtMatmulPreferenceSetAttribute");
  std::array<cublasLtMatmulHeuristicResult_t, kGuesses> guess{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(plan.handle, plan.product, plan.w, plan.x, plan.y, plan.y, preference, kGuesses,
                                       guess.data(), &found),
        "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) fail(ExitCode::device, "device cuda: cublasLt has no way to multiply {} x {} x {}", m, n, k);

  const cuda::DeviceMemory weights(size_t(n) * size_t(k) * 2, stream);
  double best = 0.0;
  for (int i = 0; i < found; ++i) {
    const auto run = [&] { plan.run(weights.as<void>(), guess[size_t(i)].algo); };
    run();  // warm
    const double seconds = device_seconds(stream, kRounds, run);
    if (i == 0 || seconds < best) best = seconds, plan.algorithm = guess[size_t(i)].algo;
  }
}

CublasProduct::~CublasProduct() = default;

void CublasProduct::run(const void* w) { plan_->run(w, plan_->algorithm); }

}  // namespace paceline
