#include "engine/weights/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/storage.h"
#include "kernels/host_weight.h"

namespace paceline {
namespace {

using Bytes = const uint8_t*;

template <class T>
T load_bytes(Bytes at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float half_at(Bytes at) { return to_f32(Half{load_bytes<uint16_t>(at)}); }

// One struct a format: kElements values in kBytes bytes; put() writes all of a block. Inner loops run over whole
// bytes with constant bounds, so that the compiler makes vectors of them.

struct PlainF32 {
  static constexpr int kElements = 1, kBytes = 4;
  static void put(Bytes in, float* out) { *out = load_bytes<float>(in); }
};

struct PlainF16 {
  static constexpr int kElements = 1, kBytes = 2;
  static void put(Bytes in, float* out) { *out = half_at(in); }
};

struct PlainBf16 {
  static constexpr int kElements = 1, kBytes = 2;
  static void put(Bytes in, float* out) { *out = to_f32(BFloat{load_bytes<uint16_t>(in)}); }
};

constexpr int64_t kRun = 1024;  // columns decoded at a time; a multiple of every block
constexpr int kSmall = 32;      // values in a block of the older formats
constexpr int kHalf = kSmall / 2;

/// scale f16 | 16 bytes: low nibbles are values 0 to 15, high ones 16 to 31; each less 8.
struct Q4_0 {
  static constexpr int kElements = kSmall, kBytes = 18;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in);
    const Bytes q = in + 2;
    for (int i = 0; i < kHalf; ++i) out[i] = float((q[i] & 15) - 8) * scale;
    for (int i = 0; i < kHalf; ++i) out[kHalf + i] = float((q[i] >> 4) - 8) * scale;
  }
};

/// scale f16 | least f16 | 16 bytes of nibbles as in Q4_0.
struct Q4_1 {
  static constexpr int kElements = kSmall, kBytes = 20;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in), least = half_at(in + 2);
    const Bytes q = in + 4;
    for (int i = 0; i < kHalf; ++i) out[i] = float(q[i] & 15) * scale + least;
    for (int i = 0; i < kHalf; ++i) out[kHalf + i] = float(q[i] >> 4) * scale + least;
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
    spread_fifth_bits(load_bytes<uint32_t>(in + 2), fifth);
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
    spread_fifth_bits(load_bytes<uint32_t>(in + 4), fifth);
    for (int i = 0; i < kHalf; ++i) out[i] = float((q[i] & 15) | fifth[i]) * scale + least;
    for (int i = 0; i < kHalf; ++i) out[kHalf + i] = float((q[i] >> 4) | fifth[kHalf + i]) * scale + least;
  }
};

/// scale f16 | 32 signed bytes.
struct Q8_0 {
  static constexpr int kElements = kSmall, kBytes = 34;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in);
    for (int i = 0; i < kSmall; ++i) out[i] = float(int8_t(in[2 + i])) * scale;
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
constexpr std::array<float, 16> kLevels = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// 16 bytes of nibbles as in Q4_0.
void put_levels(float scale, Bytes q, float* out) {
  for (int i = 0; i < kHalf; ++i) out[i] = scale * kLevels[q[i] & 15];
  for (int i = 0; i < kHalf; ++i) out[kHalf + i] = scale * kLevels[q[i] >> 4];
}

/// scale f16 | 16 bytes of nibbles.
struct Iq4Nl {
  static constexpr int kElements = kSmall, kBytes = 18;
  static void put(Bytes in, float* out) { put_levels(half_at(in), in + 2, out); }
};

/// scale f16 | high two bits of 8 scales u16 | low four, 4 bytes of nibbles | 128 bytes of nibbles, 16 for each run of
/// 32 values. Scales are of six bits, less 32.
struct Iq4Xs {
  static constexpr int kElements = kSuper, kBytes = 136;
  static void put(Bytes in, float* out) {
    const float scale = half_at(in);
    const uint32_t high = load_bytes<uint16_t>(in + 2);
    for (int run = 0; run < 8; ++run) {
      const int six = (in[4 + run / 2] >> (run % 2 * 4) & 15) | int(high >> (run * 2) & 3u) << 4;
      put_levels(scale * float(six - 32), in + 8 + run * 16, out + run * 32);
    }
  }
};

/// Columns [begin, end) of the row of blocks at `row`.
template <class Format>
void decode_run(Bytes row, int64_t begin, int64_t end, float* out) {
  for (int64_t col = begin; col < end;) {
    const int64_t skipped = col % Format::kElements, count = std::min(Format::kElements - skipped, end - col);
    float values[Format::kElements];  // not `out`, which might be the bytes that are read
    Format::put(row + col / Format::kElements * Format::kBytes, values);
    if (count == Format::kElements)
      std::memcpy(out, values, sizeof values);
    else
      std::copy(values + skipped, values + skipped + count, out);
    col += count;
    out += count;
  }
}

using DecodeRun = void (*)(Bytes row, int64_t begin, int64_t end, float* out);

struct Decoder {
  GgufType type;
  int elements, bytes;  // of a block
  DecodeRun decode;
};

template <class Format>
constexpr Decoder decoder_of(GgufType type) {
  return {type, Format::kElements, Format::kBytes, decode_run<Format>};
}

constexpr std::array kDecoders = {
    decoder_of<PlainF32>(GgufType::f32), decoder_of<PlainF16>(GgufType::f16), decoder_of<PlainBf16>(GgufType::bf16),
    decoder_of<Q8_0>(GgufType::q8_0),    decoder_of<Q4_0>(GgufType::q4_0),    decoder_of<Q4_1>(GgufType::q4_1),
    decoder_of<Q5_0>(GgufType::q5_0),    decoder_of<Q5_1>(GgufType::q5_1),    decoder_of<Q2K>(GgufType::q2_k),
    decoder_of<Q3K>(GgufType::q3_k),     decoder_of<Q4K>(GgufType::q4_k),     decoder_of<Q5K>(GgufType::q5_k),
    decoder_of<Q6K>(GgufType::q6_k),     decoder_of<Iq4Nl>(GgufType::iq4_nl), decoder_of<Iq4Xs>(GgufType::iq4_xs),
};

const Decoder* find_decoder(const GgufTypeInfo& type) {
  const auto found = std::find_if(kDecoders.begin(), kDecoders.end(),
                                  [&](const Decoder& each) { return uint32_t(each.type) == type.number; });
  return found == kDecoders.end() ? nullptr : &*found;
}

}  // namespace

std::string decodable_gguf_types() {
  std::string list;
  for (const Decoder& decoder : kDecoders)
    list += (list.empty() ? "" : ", ") + std::string(find_gguf_type(uint32_t(decoder.type))->name);
  return list;
}

bool is_decodable(const GgufTypeInfo& type) { return find_decoder(type) != nullptr; }

std::optional<DType> plain_dtype(const GgufTypeInfo& type) {
  switch (GgufType(type.number)) {
    case GgufType::f32: return DType::f32;
    case GgufType::f16: return DType::f16;
    case GgufType::bf16: return DType::bf16;
    default: return std::nullopt;
  }
}

void decode_gguf(const GgufTypeInfo& type, const std::byte* tensor, int64_t tensor_cols, const TensorRange& range,
                 DType dtype, void* out) {
  const Decoder* const decoder = find_decoder(type);
  PACELINE_CHECK(decoder && uint32_t(decoder->elements) == type.block_elements &&
                     uint32_t(decoder->bytes) == type.block_bytes && tensor_cols % decoder->elements == 0,
                 "{} blocks in rows of {}", type.name, tensor_cols);
  const int64_t row_bytes = tensor_cols / decoder->elements * decoder->bytes;
  const int64_t end = range.col_begin + range.num_cols;
  auto* to = static_cast<std::byte*>(out);
  for (int64_t row = range.row_begin; row < range.row_begin + range.num_rows; ++row) {
    for (int64_t col = range.col_begin; col < end;) {
      std::array<float, kRun> values;
      const int64_t count = std::min(kRun - col % kRun, end - col);
      decoder->decode(reinterpret_cast<Bytes>(tensor) + row * row_bytes, col, col + count, values.data());
      round_values({values.data(), size_t(count)}, dtype, to);
      col += count;
      to += size_t(count) * dtype_bytes(dtype);
    }
  }
}

}  // namespace paceline
