#pragma once
// The tensor-core instruction of the GEMMs and of attention, and how its matrices come from shared memory.

#include <cstdint>

namespace paceline::cuda {

/// c += a (16 x 16) · b (16 x 8), bfloat16. Lane l: of c rows l / 4 and l / 4 + 8 in columns 2 (l % 4) and 2 (l % 4) +
/// 1, row by row; of a rows l / 4, l / 4 + 8 in the same columns, then both in columns + 8; of b column l / 4, the same
/// rows.
__device__ __forceinline__ void mma(float (&c)[4], uint4 a, uint2 b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}

/// Four matrices of 8 x 8 from shared memory; lane l gives row l % 8 of matrix l / 8, and gets of each two neighbours
/// of row l / 4.
__device__ __forceinline__ uint4 load_matrices(const uint4* row) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(uint32_t(__cvta_generic_to_shared(row)))
               : "memory");
  return v;
}
/// Each transposed.
__device__ __forceinline__ uint4 load_transposed(const uint4* row) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(uint32_t(__cvta_generic_to_shared(row)))
               : "memory");
  return v;
}

}  // namespace paceline::cuda
