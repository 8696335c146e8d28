#include "kernels/backend.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cuda/cuda_backend.h"

namespace paceline {
namespace {

#if defined(__x86_64__)
/// Clang has no name for this one.
bool machine_has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

const CpuKernels* built_kernels(Isa isa) {
  switch (isa) {
    case Isa::scalar: return scalar_kernels();
    case Isa::avx2: return avx2_kernels();
    case Isa::avx512: return avx512_kernels();
    case Isa::avx512_bf16: return avx512_bf16_kernels();
  }
  return nullptr;
}

}  // namespace

size_t packed_bytes(int64_t rows, int64_t k, DType dtype, int k_chunks) {
  const int64_t panels = (rows + kPanel - 1) / kPanel;
  return size_t(panels * kPanel * PanelOrder(k, k_chunks, storage_index(dtype)).values()) * dtype_bytes(dtype);
}

size_t row_copy_bytes(int64_t n, int64_t k, const PackSpec& spec) {
  constexpr int64_t kAligned = 8;  // values of 16 bytes: of a row, and of a half of one that is gated
  const bool fits = spec.dtype == DType::bf16 && k % kAligned == 0 && (!spec.pair_panels || n % (2 * kAligned) == 0);
  return fits && !spec.looked_up_only ? size_t(n) * size_t(k) * dtype_bytes(spec.dtype) : 0;
}

std::vector<float> download_rows(Backend& backend, const MatView& rows, int64_t cols) {
  std::vector<float> values(size_t(rows.rows) * size_t(cols));
  backend.sync();
  for (int64_t row = 0; row < rows.rows; ++row)
    backend.download(values.data() + row * cols, rows.f32_row(row), size_t(cols) * sizeof(float));
  return values;
}

void* Backend::alloc_host(size_t bytes) {
  void* const data = std::malloc(bytes);
  if (!data) fail(ExitCode::device, "host memory: {} bytes for swapped KV blocks are not to be had", bytes);
  return data;
}
void Backend::free_host(void* data) noexcept { std::free(data); }

void Backend::swap_blocks(void* pages, void* host, size_t block_bytes, std::span<const BlockSwap> swaps) {
  for (const BlockSwap& swap : swaps) {
    char* const here = static_cast<char*>(pages) + size_t(swap.block) * block_bytes;
    char* const there = static_cast<char*>(host) + size_t(swap.host_block) * block_bytes;
    swap.to_host ? copy_block(there, here, block_bytes) : copy_block(here, there, block_bytes);
  }
}
void Backend::copy_block(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

uint64_t Backend::pass_key(uint64_t owner, std::span<const size_t> parts) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // multiplying by it spreads low bits (Knuth 1998, section 6.4)
  uint64_t key = owner;
  for (const size_t part : parts) key = (key ^ part) * kOdd;
  return key;
}

void Backend::norm_gemm(const NormArgs& norm_args, const GemmArgs& gemm_args) {
  norm(norm_args);
  gemm(gemm_args);
}

void Backend::rope_attention(const RopeArgs& rope_args, const StoreKvArgs& store, const AttentionArgs& attention_args) {
  rope(rope_args);
  store_kv(store);
  attention(attention_args);
}

bool build_has(Isa isa) { return built_kernels(isa) != nullptr; }

bool machine_has(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512_bf16) return __builtin_cpu_supports("avx512bf16") && machine_has(Isa::avx512);
  if (isa == Isa::avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && machine_has(Isa::avx2);
  if (isa == Isa::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && machine_has_f16c();
#endif
  return isa == Isa::scalar;
}

const CpuKernels* kernels_for(Isa isa) { return machine_has(isa) ? built_kernels(isa) : nullptr; }

Isa best_isa() {
  Isa best = Isa::scalar;
  for (const Isa isa : kIsas)
    if (kernels_for(isa)) best = isa;
  return best;
}

Isa fastest_isa() {
  const Isa best = best_isa();
#if defined(__x86_64__)
  if (best == Isa::avx512_bf16 && __builtin_cpu_is("intel")) return Isa::avx512;
#endif
  return best;
}

std::string isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar: return "scalar";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512_bf16: return "avx512-bf16";
  }
  return "?";
}

int cuda_index(const std::string& device) {
  constexpr std::string_view kCuda = "cuda:";
  int index = -1;
  if (!device.starts_with(kCuda)) return -1;
  const char* end = device.data() + device.size();
  const auto [at, error] = std::from_chars(device.data() + kCuda.size(), end, index);
  return error == std::errc() && at == end ? index : -1;
}

std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions& options) {
  if (device == "cpu" && options.numerics == Numerics::fast)
    fail(ExitCode::device, "device cpu: found fast numerics, expected strict, which costs nothing on the CPU");
  if (device == "cpu") return std::make_unique<CpuBackend>(options);
  if (const int index = cuda_index(device); index >= 0) return make_cuda_backend(index, options);
  fail(ExitCode::device, "device \"{}\" is unknown; expected \"cpu\" or \"cuda:N\"", device);
}

}  // namespace paceline
