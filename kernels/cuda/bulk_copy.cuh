#pragma once
// Copies into shared memory beside a warp's own work, and the barriers that count what has come.

#include <cstdint>
#include <cuda.h>

namespace paceline::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* of) { return uint32_t(__cvta_generic_to_shared(of)); }

/// barrier: an address in shared memory, here and below.
__device__ __forceinline__ void init_barrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
/// Barriers that have been made, for copies, and for whoever else uses them after the block's barrier that follows.
__device__ __forceinline__ void publish_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
/// Whether the phase of this parity has ended.
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
/// Until it has.
__device__ __forceinline__ void wait_at(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred done;\nwait%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra wait%=;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
#else
  while (!is_past(barrier, parity)) {
  }
#endif
}

__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}

/// No branch: the compiler would let wgmmas wait for those that take it.
__device__ __forceinline__ void arrive_if(bool arrives, uint32_t barrier) {
  asm volatile(
      "{\n.reg .pred arrives;\n.reg .b64 state;\nsetp.ne.u32 arrives, %0, 0;\n"
      "@arrives mbarrier.arrive.shared::cta.b64 state, [%1];\n}" ::"r"(uint32_t(arrives)),
      "r"(barrier)
      : "memory");
}

/// The thread has read or written shared memory that a copy will overwrite.
__device__ __forceinline__ void fence_before_copy() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// 16 bytes from global memory, by the thread itself: the first `bytes` of them, the rest are zeros.
__device__ __forceinline__ void copy_16(uint32_t to, const void* from, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

#if __CUDA_ARCH__ >= 900
/// One arrival, and `bytes` to come before the phase ends.
__device__ __forceinline__ void expect_bytes(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Whole 16 bytes from global memory to the address `to` in shared memory.
__device__ __forceinline__ void copy_here(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
/// Of what is read once: the L2 gives its place away first, and keeps what is read again.
__device__ __forceinline__ uint64_t read_once() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// As copy_here(), of what is read once.
__device__ __forceinline__ void copy_once(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
      "%4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(read_once())
      : "memory");
}
/// The block's place in its cluster.
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// In two steps: what comes before the first is done where others have passed the second.
__device__ __forceinline__ void arrive_at_cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void await_cluster_barrier() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
/// Every thread of the cluster.
__device__ __forceinline__ void cluster_barrier() {
  arrive_at_cluster_barrier();
  await_cluster_barrier();
}
/// Where that address of the block's shared memory lies in another block of its cluster.
__device__ __forceinline__ uint32_t address_in_block(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
/// 16 bytes to another block, whose barrier counts them; both addresses are address_in_block()'s.
__device__ __forceinline__ void send_four(uint32_t to, float4 x, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(barrier)
               : "memory");
}
/// As copy_box_once(), to the same place of each block of the cluster whose bit is set, and its barrier there.
__device__ __forceinline__ void copy_box_once_to_cluster(uint32_t to, const CUtensorMap* map, int32_t column,
                                                         int32_t row, uint32_t barrier, unsigned blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(uint16_t(blocks)), "l"(read_once())
      : "memory");
}
/// At the barrier that lies there in another block of the cluster.
__device__ __forceinline__ void arrive_at_block(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
/// As copy_box_here() below, of what is read once.
__device__ __forceinline__ void copy_box_once(uint32_t to, const CUtensorMap* map, int32_t column, int32_t row,
                                              uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(read_once())
      : "memory");
}
/// A box of a map of two dimensions, the one that begins there. map: a kernel's __grid_constant__ argument.
__device__ __forceinline__ void copy_box_here(uint32_t to, const CUtensorMap* map, int32_t column, int32_t row,
                                              uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
#endif

}  // namespace paceline::cuda
