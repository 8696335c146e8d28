#pragma once
// Bulk copies into shared memory and the barriers that count their bytes (compute capability 9.0 and newer).

#include <cstdint>

namespace paceline::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* of) { return uint32_t(__cvta_generic_to_shared(of)); }

#if __CUDA_ARCH__ >= 900
/// barrier: an address in shared memory, here and below.
__device__ __forceinline__ void init_barrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
/// One arrival, and `bytes` to come before the phase ends.
__device__ __forceinline__ void expect_bytes(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Until the phase of this parity has ended.
__device__ __forceinline__ void wait_at(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nwait%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra wait%=;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
/// Whether it has.
__device__ __forceinline__ bool is_past(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred done;\nmbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done;
}
/// Whole 16 bytes from global memory to the address `to` in shared memory.
__device__ __forceinline__ void copy_here(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
#endif

}  // namespace paceline::cuda
