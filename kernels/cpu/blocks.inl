// From the blocks of packed weights to floats. Formats are those of ggml (ggml-common.h has the structs, ggml-quants.c
// the formulas), evaluated in float32 in the same order, so that float32 has ggml's own bits. Little-endian throughout.
// Included by kernels_<isa>.cpp.

#include "kernels/cpu/storage.h"

namespace paceline {
namespace {

using Bytes = const uint8_t*;

template <class T>
T load_bytes_as(Bytes at) {
  T value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

float half_at(Bytes at) { return to_f32(Half{load_bytes_as<uint16_t>(at)}); }

F32x16 scale_at(Bytes at) { return in_all_lanes(Half{load_bytes_as<uint16_t>(at)}); }

// One struct a format: kElements values in kBytes bytes; put() writes all of a block. Inner loops run over whole
// bytes with constant bounds, so that the compiler makes vectors of them.

struct PlainF32 {
  static constexpr int kElements = 1, kBytes = 4;
  static void put(Bytes in, float* out) { *out = load_bytes_as<float>(in); }
};

struct PlainF16 {
  static constexpr int kElements = 1, kBytes = 2;
  static void put(Bytes in, float* out) { *out = half_at(in); }
};

struct PlainBf16 {
  static constexpr int kElements = 1, kBytes = 2;
  static void put(Bytes in, float* out) { *out = to_f32(BFloat{load_bytes_as<uint16_t>(in)}); }
};

constexpr float kNibbles[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr int kSmall = 32;  // values in a block of the older formats
constexpr int kHalf = kSmall / 2;

/// scale f16 | 16 bytes: low nibbles are values 0 to 15, high ones 16 to 31; each less 8.
struct Q4_0 {
  static constexpr int kElements = kSmall, kBytes = 18;
  template <class T>
  static void put(Bytes in, T* out) {
    put_levels((load(kNibbles) - F32x16(8.0f)) * scale_at(in), in + 2, out);
  }
};

/// scale f16 | least f16 | 16 bytes of nibbles as in Q4_0.
struct Q4_1 {
  static constexpr int kElements = kSmall, kBytes = 20;
  template <class T>
  static void put(Bytes in, T* out) {
    put_levels(load(kNibbles) * scale_at(in) + scale_at(in + 2), in + 4, out);
  }
};

/// Bit i of `high` is the fifth of value i. Beside each other as values 0 or 16, for loops over bytes.
void spread_fifth_bits(uint32_t high, uint8_t (&fifth)[kSmall]) {
  for (int i = 0; i < kSmall; ++i) fifth[i] = uint8_t((high >> i & 1u) << 4);
}

/// scale f16 | fifth bits u32 | 16 bytes of nibbles; each less 16.
struct Q5_0 {
  static constexpr int kElements = kSmall, kBytes = 22;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in);
    const Bytes q = in + 6;
    uint8_t fifth[kSmall];
    spread_fifth_bits(load_bytes_as<uint32_t>(in + 2), fifth);
    for (int i = 0; i < kHalf; ++i) out[i] = float(((q[i] & 15) | fifth[i]) - 16) * scale;
    for (int i = 0; i < kHalf; ++i) out[kHalf + i] = float(((q[i] >> 4) | fifth[kHalf + i]) - 16) * scale;
  }
};

/// scale f16 | least f16 | fifth bits u32 | 16 bytes of nibbles.
struct Q5_1 {
  static constexpr int kElements = kSmall, kBytes = 24;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in), least = half_at(in + 2);
    const Bytes q = in + 8;
    uint8_t fifth[kSmall];
    spread_fifth_bits(load_bytes_as<uint32_t>(in + 4), fifth);
    for (int i = 0; i < kHalf; ++i) out[i] = float((q[i] & 15) | fifth[i]) * scale + least;
    for (int i = 0; i < kHalf; ++i) out[kHalf + i] = float((q[i] >> 4) | fifth[kHalf + i]) * scale + least;
  }
};

/// scale f16 | 32 signed bytes.
struct Q8_0 {
  static constexpr int kElements = kSmall, kBytes = 34;
  template <class T>
  static void put(Bytes in, T* out) {
    const F32x16 scale = scale_at(in);
    const auto* const q = reinterpret_cast<const int8_t*>(in + 2);
    store(out, load_bytes(q) * scale);
    store(out + kHalf, load_bytes(q + kHalf) * scale);
  }
};

constexpr int kSuper = 256;  // values in a block of the K formats and of IQ4_XS

/// 16 bytes, scale in the low nibble, least in the high one, of 16 values each | 64 bytes of four values | scale of the
/// scales f16 | scale of the leasts f16. Byte b of a half's 32 holds values b, b + 32, b + 64, b + 96, low bits first.
struct Q2K {
  static constexpr int kElements = kSuper, kBytes = 84;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in + 80), least = half_at(in + 82);
    for (int group = 0; group < 16; ++group) {
      const Bytes q = in + 16 + group / 8 * 32 + group % 2 * 16;
      const int shift = group % 8 / 2 * 2;
      const float group_scale = scale * float(in[group] & 15), group_least = least * float(in[group] >> 4);
      for (int i = 0; i < 16; ++i) out[i] = group_scale * float(q[i] >> shift & 3) - group_least;
      out += 16;
    }
  }
};

/// 32 bytes of high bits, bit g for run g of 32 values | 64 bytes of two low bits, as Q2_K | 12 bytes: 16 scales of six
/// bits (low four: 8 bytes of nibbles; high two: 4 bytes), each less 32 | scale f16. A value without its high bit is
/// less 4.
struct Q3K {
  static constexpr int kElements = kSuper, kBytes = 110;
  static void put(Bytes in, float* out) {
    const Bytes scales = in + 96;
    const float scale = half_at(in + 108);
    for (int group = 0; group < 16; ++group) {
      const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
      const int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
      const float group_scale = scale * float((low | high << 4) - 32);
      const Bytes bits = in + group % 2 * 16, q = in + 32 + group / 8 * 32 + group % 2 * 16;
      const int shift = group % 8 / 2 * 2, bit = group / 2;
      for (int i = 0; i < 16; ++i) out[i] = group_scale * float((q[i] >> shift & 3) - 4 + (bits[i] >> bit & 1) * 4);
      out += 16;
    }
  }
};

/// Scale and least of run `run` of 32 values, six bits each, in the 12 bytes of Q4_K and Q5_K.
struct SixBits {
  float scale, least;
  SixBits(Bytes in, int run) {
    if (run < 4) {
      scale = float(in[run] & 63);
      least = float(in[run + 4] & 63);
    } else {
      scale = float((in[run + 4] & 15) | in[run - 4] >> 6 << 4);
      least = float(in[run + 4] >> 4 | in[run] >> 6 << 4);
    }
  }
};

/// scale of the scales f16 | scale of the leasts f16 | 12 bytes of both | 128 bytes: of each 32 the low nibbles are a
/// run of 32 values, the high ones the next.
struct Q4K {
  static constexpr int kElements = kSuper, kBytes = 144;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in), least = half_at(in + 2);
    for (int run = 0; run < 8; ++run) {
      const SixBits six(in + 4, run);
      const Bytes q = in + 16 + run / 2 * 32;
      const int shift = run % 2 * 4;
      const float run_scale = scale * six.scale, run_least = least * six.least;
      for (int i = 0; i < 32; ++i) out[i] = run_scale * float(q[i] >> shift & 15) - run_least;
      out += 32;
    }
  }
};

/// As Q4_K, with 32 bytes of fifth bits before the nibbles: bit r of byte i for value i of run r.
struct Q5K {
  static constexpr int kElements = kSuper, kBytes = 176;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in), least = half_at(in + 2);
    const Bytes fifth = in + 16;
    for (int run = 0; run < 8; ++run) {
      const SixBits six(in + 4, run);
      const Bytes q = in + 48 + run / 2 * 32;
      const int shift = run % 2 * 4;
      const float run_scale = scale * six.scale, run_least = least * six.least;
      for (int i = 0; i < 32; ++i)
        out[i] = run_scale * float((q[i] >> shift & 15) + (fifth[i] >> run & 1) * 16) - run_least;
      out += 32;
    }
  }
};

/// 128 bytes of low nibbles | 64 bytes of two high bits | 16 signed scales | scale f16. A half of 128 values has 64 and
/// 32 bytes: runs of 32 values take the low nibbles of the first and second 32 bytes, then the high ones; each less 32.
struct Q6K {
  static constexpr int kElements = kSuper, kBytes = 210;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in + 208);
    for (int group = 0; group < 16; ++group) {
      const int run = group % 8 / 2;  // of the half
      const Bytes low = in + group / 8 * 64 + run % 2 * 32 + group % 2 * 16;
      const Bytes high = in + 128 + group / 8 * 32 + group % 2 * 16;
      const int low_shift = run / 2 * 4, high_shift = run * 2;
      const float group_scale = scale * float(int8_t(in[192 + group]));
      for (int i = 0; i < 16; ++i)
        out[i] = group_scale * float(((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
      out += 16;
    }
  }
};

/// What the nibbles of the IQ4 formats stand for.
constexpr float kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// scale f16 | 16 bytes of nibbles as in Q4_0.
struct Iq4Nl {
  static constexpr int kElements = kSmall, kBytes = 18;
  template <class T>
  static void put(Bytes in, T* out) {
    put_levels(scale_at(in) * load(kLevels), in + 2, out);
  }
};

/// scale f16 | high two bits of 8 scales u16 | low four, 4 bytes of nibbles | 128 bytes of nibbles, 16 for each run of
/// 32 values. Scales are of six bits, less 32.
struct Iq4Xs {
  static constexpr int kElements = kSuper, kBytes = 136;
  template <class T>
  static void put(Bytes in, T* out) {
    const F32x16 scale = scale_at(in), levels = load(kLevels);
    const uint32_t high = load_bytes_as<uint16_t>(in + 2);
    for (int run = 0; run < 8; ++run) {
      const int six = (in[4 + run / 2] >> (run % 2 * 4) & 15) | int(high >> (run * 2) & 3u) << 4;
      put_levels(scale * F32x16(float(six - 32)) * levels, in + 8 + run * 16, out + run * 32);
    }
  }
};

/// Most formats are put as floats; what most files consist of, as it is stored.
template <class Format, class T>
void put_block(Bytes in, T* out) {
  if constexpr (requires { Format::put(in, out); }) {
    Format::put(in, out);
  } else {
    float values[Format::kElements];
    Format::put(in, values);
    if constexpr (Format::kElements % 16 == 0) {
      for (int i = 0; i < Format::kElements; i += 16) store(out + i, load(values + i));
    } else {
      for (int i = 0; i < Format::kElements; ++i) from_f32(values[i], out + i);
    }
  }
}

/// Columns [begin, end) of the row of blocks at `row`, as T.
template <class Format, class T>
void decode_blocks(Bytes row, int64_t begin, int64_t end, void* to) {
  T* out = static_cast<T*>(to);
  Bytes in = row + begin / Format::kElements * Format::kBytes;
  for (int64_t col = begin; col < end; in += Format::kBytes) {
    const int64_t skipped = col % Format::kElements, whole = Format::kElements - skipped;
    const int64_t count = whole < end - col ? whole : end - col;
    if (count == Format::kElements) {
      put_block<Format>(in, out);
    } else {
      T values[Format::kElements];
      put_block<Format>(in, values);
      __builtin_memcpy(out, values + skipped, size_t(count) * sizeof(T));
    }
    col += count;
    out += count;
  }
}

template <class Format>
constexpr BlockDecoder decoder_of() {
  return {Format::kElements,
          Format::kBytes,
          {decode_blocks<Format, float>, decode_blocks<Format, Half>, decode_blocks<Format, BFloat>}};
}

}  // namespace
}  // namespace paceline
