#pragma once
// Values that travel with a number beside each, so that who takes them sees by themselves whether they have come: no
// fence, no second trip for a mark. Every 8 bytes, a value and its mark, are written and read whole.

#include <cstdint>

namespace paceline::cuda {

__device__ __forceinline__ void put_marked(uint2* to, float x, uint32_t mark) {
  asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(__float_as_uint(x)), "r"(mark) : "memory");
}
__device__ __forceinline__ void put_marked(uint4* to, float x, float y, uint32_t mark) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %3, %2, %3};" ::"l"(to), "r"(__float_as_uint(x)),
               "r"(__float_as_uint(y)), "r"(mark)
               : "memory");
}

/// Two values with their marks, as they were when somebody looked.
struct MarkedPair {
  uint4 words{};

  __device__ __forceinline__ static MarkedPair at(const uint4* from) {
    MarkedPair pair;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pair.words.x), "=r"(pair.words.y), "=r"(pair.words.z), "=r"(pair.words.w)
                 : "l"(from)
                 : "memory");
    return pair;
  }
  __device__ __forceinline__ bool has(uint32_t mark) const { return words.y == mark && words.w == mark; }
  __device__ __forceinline__ float first() const { return __uint_as_float(words.x); }
  __device__ __forceinline__ float second() const { return __uint_as_float(words.z); }
};

}  // namespace paceline::cuda
