#pragma once
// What the processor can do at all: plain reads of given memory, fused multiply-adds, dot products. Speeds are judged
// as shares of these, measured in the same process in the same minute. Rates are per second, of all threads of a pool
// together; 0 where this processor lacks the instructions they are measured with.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"

namespace paceline::ceilings {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Region {
  const char* data = nullptr;
  size_t bytes = 0;
};

enum class Prefetch { off, on };

#if defined(__x86_64__)
#define PACELINE_READ_TARGET __attribute__((target("avx2")))
#define PACELINE_FMA_TARGET __attribute__((target("avx512f,avx512bf16")))
typedef float FloatWide __attribute__((vector_size(64)));
inline constexpr Isa kReadNeeds = Isa::avx2;
#else
#define PACELINE_READ_TARGET
#define PACELINE_FMA_TARGET
inline constexpr Isa kReadNeeds = Isa::scalar;
typedef float FloatWide __attribute__((vector_size(16)));
#endif
typedef float Float8 __attribute__((vector_size(32)));

/// Reads `bytes` as eight independent streams of 64-byte lines.
template <Prefetch prefetch>
PACELINE_READ_TARGET inline void read_streams(const char* from, size_t bytes) {
  const size_t part = bytes / 8 / 64 * 64;
  Float8 sum[8] = {};
  for (size_t at = 0; at < part; at += 64)
    for (int stream = 0; stream < 8; ++stream) {
      const char* line = from + size_t(stream) * part + at;
      if constexpr (prefetch == Prefetch::on) __builtin_prefetch(line + 1024, 0, 3);
      sum[stream] += *reinterpret_cast<const Float8*>(line);
      sum[stream] += *reinterpret_cast<const Float8*>(line + 32);
    }
  for (int i = 1; i < 8; ++i) sum[0] += sum[i];
  asm volatile("" : : "x"(sum[0]) : "memory");
}

/// Bytes per second of all threads of `pool` over all regions, once each.
template <Prefetch prefetch>
double read_rate(ThreadPool& pool, std::span<const Region> regions) {
  if (best_isa() < kReadNeeds) return 0.0;
  constexpr size_t kPiece = size_t{256} << 10;
  std::vector<Region> pieces;
  size_t total = 0;
  for (const Region& region : regions) {
    for (size_t at = 0; at < region.bytes; at += kPiece)
      pieces.push_back({region.data + at, std::min(kPiece, region.bytes - at)});
    total += region.bytes;
  }
  const auto begin = Clock::now();
  pool.parallel_for(int64_t(pieces.size()), [&](int64_t piece, int) {
    read_streams<prefetch>(pieces[size_t(piece)].data, pieces[size_t(piece)].bytes);
  });
  return double(total) / seconds_since(begin);
}

#if defined(__x86_64__)
// 12 independent chains; written out, for an array would live in memory.
#define PACELINE_TWELVE_CHAINS(op)                                                                               \
  op "%0\n\t" op "%1\n\t" op "%2\n\t" op "%3\n\t" op "%4\n\t" op "%5\n\t" op "%6\n\t" op "%7\n\t" op "%8\n\t" op \
     "%9\n\t" op "%10\n\t" op "%11"
#define PACELINE_CHAIN_OPERANDS                                                                                    \
  : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7), "+v"(s8), "+v"(s9), "+v"(s10), \
    "+v"(s11)                                                                                                        \
  : "v"(a), "v"(b)
#endif

/// Chains of fused multiply-adds, or of bfloat16 dot products of pairs.
enum class Arithmetic { fma, bfloat_pairs };

template <Arithmetic arithmetic>
PACELINE_FMA_TARGET inline float chains(int64_t steps) {
  FloatWide s0{}, s1{}, s2{}, s3{}, s4{}, s5{}, s6{}, s7{}, s8{}, s9{}, s10{}, s11{};
  const FloatWide a = FloatWide{} + 0.999f, b = FloatWide{} + 0.001f;
  for (int64_t step = 0; step < steps; ++step) {
#if defined(__x86_64__)
    if constexpr (arithmetic == Arithmetic::fma)
      asm volatile(PACELINE_TWELVE_CHAINS("vfmadd213ps %13, %12, ") PACELINE_CHAIN_OPERANDS);
    else
      asm volatile(PACELINE_TWELVE_CHAINS("vdpbf16ps %13, %12, ") PACELINE_CHAIN_OPERANDS);
#else
    s0 = s0 * a + b, s1 = s1 * a + b, s2 = s2 * a + b, s3 = s3 * a + b, s4 = s4 * a + b, s5 = s5 * a + b;
    s6 = s6 * a + b, s7 = s7 * a + b, s8 = s8 * a + b, s9 = s9 * a + b, s10 = s10 * a + b, s11 = s11 * a + b;
#endif
  }
  const FloatWide sum = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 + s10 + s11;
  return sum[0];
}

#if defined(__x86_64__)
/// Fused multiply-adds of half the width, for machines without AVX-512.
__attribute__((target("avx2,fma"))) inline float half_chains(int64_t steps) {
  Float8 s0{}, s1{}, s2{}, s3{}, s4{}, s5{}, s6{}, s7{}, s8{}, s9{}, s10{}, s11{};
  const Float8 a = Float8{} + 0.999f, b = Float8{} + 0.001f;
  for (int64_t step = 0; step < steps; ++step)
    asm volatile(PACELINE_TWELVE_CHAINS("vfmadd213ps %13, %12, ") PACELINE_CHAIN_OPERANDS);
  const Float8 sum = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 + s10 + s11;
  return sum[0];
}
#else
inline float half_chains(int64_t steps) { return chains<Arithmetic::fma>(steps); }
#endif

/// Chains of float32, as wide as the machine has them. It has AVX2.
inline float fma_chains(int64_t steps) {
  return best_isa() < Isa::avx512 ? half_chains(steps) : chains<Arithmetic::fma>(steps);
}

/// Operations per second of all threads together; 0 where the machine lacks AVX2, or AVX512_BF16 for the pairs.
template <Arithmetic arithmetic>
double chain_rate(ThreadPool& pool) {
  constexpr bool kPairs = arithmetic == Arithmetic::bfloat_pairs;
  if (best_isa() < (kPairs ? Isa::avx512_bf16 : Isa::avx2)) return 0.0;
  const bool half = !kPairs && best_isa() < Isa::avx512;
  const int64_t steps = 100'000;
  const int tasks = pool.num_threads() * 4;
  const auto begin = Clock::now();
  pool.parallel_for(tasks, [&](int64_t, int) {
    const float sum = kPairs ? chains<Arithmetic::bfloat_pairs>(steps) : fma_chains(steps);
    asm volatile("" : : "x"(sum));
  });
  const double operations = (kPairs ? 4 : 2) * double((half ? sizeof(Float8) : sizeof(FloatWide)) / sizeof(float));
  return double(tasks) * double(steps) * 12 * operations / seconds_since(begin);
}
inline double fma_rate(ThreadPool& pool) { return chain_rate<Arithmetic::fma>(pool); }

/// Whether a GEMM over weights of a type runs on dot products of pairs.
inline bool multiplies_pairs(DType weights) { return weights == DType::bf16 && fastest_isa() == Isa::avx512_bf16; }
/// Operations per second that a GEMM over weights of a type can reach.
inline double gemm_rate(ThreadPool& pool, DType weights) {
  return multiplies_pairs(weights) ? chain_rate<Arithmetic::bfloat_pairs>(pool) : fma_rate(pool);
}

/// The faster of the two ways of reading: which one it is depends on where the regions lie.
inline double best_read_rate(ThreadPool& pool, std::span<const Region> regions) {
  return std::max(read_rate<Prefetch::off>(pool, regions), read_rate<Prefetch::on>(pool, regions));
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace paceline::ceilings
