#include <algorithm>

#include "kernels/cuda/attention.h"

namespace paceline::cuda {

std::vector<LineTile> line_tiles(const AttentionArgs& args, int32_t first_row, int32_t num_rows) {
  const int group = args.group ? args.group : args.num_heads / args.kv.num_kv_heads;
  const int line_tile = attention_line_tile(args.kv);
  std::vector<LineTile> tiles;
  for (const SeqSpan& seq : args.seqs) {
    const int32_t begin = std::max(seq.first_row, first_row);
    const int32_t end = std::min(seq.first_row + seq.num_rows, first_row + num_rows);
    for (int32_t line = 0; line < (end - begin) * group; line += line_tile)
      tiles.push_back({.first_row = begin,
                       .num_lines = std::min(line_tile, (end - begin) * group - line),
                       .first_line = line,
                       .block_begin = seq.block_begin});
  }
  return tiles;
}

Traffic attention_traffic(const AttentionArgs& args) {
  Traffic traffic;
  const auto seen = [&](int32_t len, int32_t rows) {
    return args.window > 0 ? std::min(len, args.window + rows - 1) : len;
  };
  for (const SeqSpan& seq : args.seqs) {
    int32_t len = 0;
    for (int32_t row = 0; row < seq.num_rows; ++row) len = std::max(len, args.kv_len[size_t(seq.first_row + row)]);
    traffic.kv_bytes += uint64_t(seen(len, seq.num_rows)) * kv_block_bytes(args.kv) / uint64_t(args.kv.block_size);
  }
  for (const int32_t len : args.kv_len)
    traffic.attention_flops +=
        uint64_t(2) * uint64_t(seen(len, 1)) * uint64_t(args.num_heads) * uint64_t(args.kv.k_dim + args.kv.v_dim);
  traffic.flops = traffic.attention_flops;
  return traffic;
}

}  // namespace paceline::cuda
