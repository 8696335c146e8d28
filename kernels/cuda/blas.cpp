#include "kernels/cuda/blas.h"

#include <array>
#include <compare>
#include <cublasLt.h>
#include <dlfcn.h>
#include <map>
#include <vector>

#include "kernels/error.h"

namespace paceline::cuda {
namespace {

/// What NVIDIA recommends for the products of its newest devices (cuBLAS documentation, cublasSetWorkspace).
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
/// Kept at most: mixed batches bring ever new numbers of rows.
constexpr size_t kMostPlans = 512;
constexpr int kMostGuesses = 8;
constexpr int kMostAlignment = 256;

/// The calls that are used, of the library as it was found. It stays loaded for good.
class Library {
 public:
  Library() {
    const size_t major = get_version() / 10000;
    if (major != CUBLAS_VER_MAJOR)
      fail(ExitCode::device, "device cuda: {} is version {}; this build's headers are of {}: {}", name_, major,
           CUBLAS_VER_MAJOR, fix());
  }

 private:
  static std::string fix() {
    return fmt::format("install libcublas of CUDA {} or name its folder in LD_LIBRARY_PATH, or use strict numerics",
                       CUBLAS_VER_MAJOR);
  }
  void* open() {
    std::string reason;
    for (const std::string& name :
         {fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR), std::string("libcublasLt.so")}) {
      name_ = name;
      if (void* const found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
      if (reason.empty()) reason = dlerror();
    }
    fail(ExitCode::device, "device cuda: fast numerics need cuBLASLt: {}; {}", reason, fix());
  }
  template <class Call>
  Call* find(const char* name) const {
    void* const found = dlsym(handle_, name);
    if (!found) fail(ExitCode::device, "device cuda: {} has no {}: {}", name_, name, fix());
    return reinterpret_cast<Call*>(found);
  }
  std::string name_;
  void* const handle_ = open();

 public:
#define CALL(member, name) decltype(name)* const member = find<decltype(name)>(#name)
  CALL(get_version, cublasLtGetVersion);
  CALL(status_text, cublasLtGetStatusString);
  CALL(create, cublasLtCreate);
  CALL(destroy, cublasLtDestroy);
  CALL(create_product, cublasLtMatmulDescCreate);
  CALL(destroy_product, cublasLtMatmulDescDestroy);
  CALL(set_of_product, cublasLtMatmulDescSetAttribute);
  CALL(create_layout, cublasLtMatrixLayoutCreate);
  CALL(destroy_layout, cublasLtMatrixLayoutDestroy);
  CALL(create_preference, cublasLtMatmulPreferenceCreate);
  CALL(destroy_preference, cublasLtMatmulPreferenceDestroy);
  CALL(set_of_preference, cublasLtMatmulPreferenceSetAttribute);
  CALL(guess, cublasLtMatmulAlgoGetHeuristic);
  CALL(multiply, cublasLtMatmul);
#undef CALL
};

/// An opaque thing of the library, destroyed by the call that belongs to it.
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;

std::string describe(const BlasProduct& product) {
  return fmt::format("{} rows x {} outputs x {} inputs in {} (stride {}{}{})", product.rows, product.n, product.k,
                     dtype_name(product.y_dtype), product.y_stride, product.bias ? ", bias" : "",
                     product.add ? ", added" : "");
}

/// The largest power of two, at most kMostAlignment, that divides an address.
int alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | kMostAlignment;
  return int(address & ~(address - 1));
}

/// All that the library's choice depends on.
struct Key {
  int rows, n, k;
  int64_t y_stride;
  DType y_dtype;
  bool add, has_bias;
  int y_alignment, bias_alignment;

  explicit Key(const BlasProduct& product)
      : rows(product.rows),
        n(product.n),
        k(product.k),
        y_stride(product.y_stride),
        y_dtype(product.y_dtype),
        add(product.add),
        has_bias(product.bias != nullptr),
        y_alignment(alignment_of(product.y)),
        bias_alignment(alignment_of(product.bias)) {}
  auto operator<=>(const Key&) const = default;
};

struct Plan {
  Owned<cublasLtMatmulDesc_t> product;
  Owned<cublasLtMatrixLayout_t> w, x, y;
  cublasLtMatmulAlgo_t algorithm;
};

}  // namespace

struct Blas::State {
  const Library library;
  const Owned<cublasLtHandle_t> handle;
  const cudaStream_t stream;
  const DeviceMemory workspace;
  std::map<Key, Plan> plans;

  explicit State(cudaStream_t stream_)
      : handle(make_handle(), library.destroy), stream(stream_), workspace(kWorkspaceBytes, stream_) {}

  /// what: the call, product: what it is for.
  void check(cublasStatus_t status, const char* what, const BlasProduct& product) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      fail(ExitCode::device, "device cuda: {} failed for {}: {}", what, describe(product), library.status_text(status));
  }
  cublasLtHandle_t make_handle() const {
    cublasLtHandle_t made = nullptr;
    const cublasStatus_t status = library.create(&made);
    if (status != CUBLAS_STATUS_SUCCESS)
      fail(ExitCode::device, "device cuda: cublasLtCreate failed: {}", library.status_text(status));
    return made;
  }
  Owned<cublasLtMatrixLayout_t> layout(DType dtype, int values, int rows, int64_t stride,
                                       const BlasProduct& product) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(library.create_layout(&made, dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF, uint64_t(values), uint64_t(rows),
                                stride),
          "cublasLtMatrixLayoutCreate", product);
    return {made, library.destroy_layout};
  }
  template <class Value>
  void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const Value& value,
           const BlasProduct& product) const {
    check(library.set_of_product(plan.product.get(), attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute",
          product);
  }

  // Column-major, as the library sees it: yᵀ [n, rows] = W [n, k] · xᵀ [k, rows].
  Plan make_plan(const BlasProduct& product) const {
    PACELINE_CHECK(product.k % 8 == 0 && product.y_stride >= product.n &&
                       (product.y_dtype == DType::f32 || (!product.bias && !product.add)),
                   "{}", describe(product));
    cublasLtMatmulDesc_t made = nullptr;
    check(library.create_product(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate", product);
    Plan plan{.product = {made, library.destroy_product},
              .w = layout(DType::bf16, product.k, product.n, product.k, product),
              .x = layout(DType::bf16, product.k, product.rows, product.k, product),
              .y = layout(product.y_dtype, product.n, product.rows, product.y_stride, product),
              .algorithm = {}};
    set(plan, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T, product);
    if (product.bias) {
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, product);
      set(plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F, product);
      set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias, product);
    }
    plan.algorithm = guesses(product, plan, 1).front();
    return plan;
  }

  /// At least one.
  std::vector<cublasLtMatmulAlgo_t> guesses(const BlasProduct& product, const Plan& plan, int most) const {
    cublasLtMatmulPreference_t made = nullptr;
    check(library.create_preference(&made), "cublasLtMatmulPreferenceCreate", product);
    const Owned<cublasLtMatmulPreference_t> preference(made, library.destroy_preference);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(library.set_of_preference(preference.get(), attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute", product);
    };
    const uint32_t alignment = uint32_t(alignment_of(product.y));
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
    // parts of a sum meet in float32, also where y is bfloat16
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    std::array<cublasLtMatmulHeuristicResult_t, kMostGuesses> found{};
    int count = 0;
    check(library.guess(handle.get(), plan.product.get(), plan.w.get(), plan.x.get(), plan.y.get(), plan.y.get(),
                        preference.get(), most, found.data(), &count),
          "cublasLtMatmulAlgoGetHeuristic", product);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i)
      if (found[size_t(i)].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(found[size_t(i)].algo);
    if (algorithms.empty())
      fail(ExitCode::device, "device cuda: cuBLASLt has no way to multiply {}", describe(product));
    return algorithms;
  }

  /// Kept for the next such product.
  Plan& plan_for(const BlasProduct& product) {
    const Key key(product);
    if (const auto known = plans.find(key); known != plans.end()) return known->second;
    if (plans.size() >= kMostPlans) plans.clear();
    return plans.emplace(key, make_plan(product)).first->second;
  }

  void run(const BlasProduct& product, const Plan& plan) const {
    const float one = 1.0f, standing = product.add ? 1.0f : 0.0f;
    if (product.bias) set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias, product);
    check(library.multiply(handle.get(), plan.product.get(), &one, product.w, plan.w.get(), product.x, plan.x.get(),
                           &standing, product.y, plan.y.get(), product.y, plan.y.get(), &plan.algorithm,
                           workspace.as<void>(), kWorkspaceBytes, stream),
          "cublasLtMatmul", product);
  }
};

Blas::Blas(cudaStream_t stream) : state_(std::make_unique<State>(stream)) {}
Blas::~Blas() = default;

void Blas::multiply(const BlasProduct& product) { state_->run(product, state_->plan_for(product)); }

void Blas::tune(const BlasProduct& product, const std::function<double(const std::function<void()>&)>& seconds) {
  Plan& plan = state_->plan_for(product);
  cublasLtMatmulAlgo_t fastest = plan.algorithm;
  double best = 0.0;
  for (const cublasLtMatmulAlgo_t& algorithm : state_->guesses(product, plan, kMostGuesses)) {
    plan.algorithm = algorithm;
    state_->run(product, plan);  // warm
    const double took = seconds([&] { state_->run(product, plan); });
    if (best == 0.0 || took < best) best = took, fastest = algorithm;
  }
  plan.algorithm = fastest;
}

}  // namespace paceline::cuda
