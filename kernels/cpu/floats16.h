#pragma once
// 16 neighbours of a row in whatever registers the instruction set has (GCC and Clang vector types), for what has no
// arithmetic. For inclusion by the files of one instruction set.

#include <cstdint>
#include <cstring>

#include "kernels/math/elementary.h"

namespace paceline {
namespace {

using Floats16 = float __attribute__((vector_size(64)));
using Words16 = uint32_t __attribute__((vector_size(64)));
PACELINE_MATH Floats16 load_floats16(const float* from) {
  Floats16 x;
  memcpy(&x, from, sizeof x);
  return x;
}

}  // namespace
}  // namespace paceline
