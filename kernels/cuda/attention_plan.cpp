#include <algorithm>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {

std::vector<LineTile> line_tiles(const AttentionArgs& args, int32_t first_row, int32_t num_rows, int line_tile) {
  const int group = args.group ? args.group : args.num_heads / args.kv.num_kv_heads;
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

AttentionSlices plan_attention(const AttentionArgs& args, size_t scratch_bytes, const cudaDeviceProp& device) {
  const int32_t longest = std::max(1, *std::max_element(args.kv_len.begin(), args.kv_len.end()));
  AttentionSlices slices{.plan = {.num_chunks = (longest + kDeviceChunk - 1) / kDeviceChunk}};
  AttentionPlan& plan = slices.plan;
  std::vector<LineTile>& tiles = slices.tiles;
  tiles = line_tiles(args, 0, args.q.rows, attention_line_tile(args));
  int32_t rows_of_seqs = 0;
  for (const SeqSpan& seq : args.seqs) rows_of_seqs += seq.num_rows;
  for (const LineTile& tile : tiles) plan.most_lines = std::max(plan.most_lines, tile.num_lines);
  plan.whole = rows_of_seqs == args.q.rows &&  // rows of no sequence are zeroed by the merge
               attention_takes_whole_lines(args, int(tiles.size()), plan.most_lines, device);
  const int line_tile = slices.line_tile = attention_line_tile(args, plan.whole);
  if (plan.most_lines > line_tile) tiles = line_tiles(args, 0, args.q.rows, line_tile);
  plan.most_lines = std::min(plan.most_lines, line_tile);
  if (plan.whole) plan.ring_stages = attention_ring_stages(args.kv, int(tiles.size()), plan.most_lines, device);
  slices.row_bytes = plan.whole ? 0 : attention_row_bytes(args, plan.num_chunks);
  slices.slice_rows = plan.whole ? args.q.rows : int32_t(std::max<size_t>(1, scratch_bytes / slices.row_bytes));
  return slices;
}

bool turns_queries(const RopeArgs& rope, const AttentionArgs& args) {
  const KvView& kv = args.kv;
  if (rope.layout != RopeLayout::half_split || rope.rotary_dim != kv.k_dim || rope.head_dim != kv.k_dim) return false;
  if ((kv.k_dim != 64 && kv.k_dim != 128) || attention_line_tile(args) != kMmaLines) return false;
  for (size_t row = 0; row < args.kv_len.size(); ++row)
    if (args.kv_len[row] != rope.position[row] + 1) return false;
  return lies_in_fours(args.q.f32_row(0), args.q.stride);
}

bool takes_fresh_rows(const RopeArgs& rope, const StoreKvArgs& store, const AttentionArgs& args,
                      const AttentionPlan& plan) {
  const KvView& kv = args.kv;
  if (!turns_queries(rope, args) || !attention_is_few(plan)) return false;
  if (plan.num_rows != args.q.rows || store.k.stride != store.v.stride || store.kv.k != kv.k || store.kv.v != kv.v)
    return false;
  for (const MatView& rows : {store.k, store.v})
    if (!lies_in_fours(rows.f32_row(0), rows.stride)) return false;
  int32_t num_rows = 0;
  for (const SeqSpan& seq : args.seqs) {
    num_rows += seq.num_rows;
    for (int32_t i = 0; i < seq.num_rows; ++i) {
      const size_t row = size_t(seq.first_row + i);
      const int32_t position = rope.position[row];
      if (position < 0 && store.slot[row] < 0) {  // padding, which comes last
        if (i + 1 < seq.num_rows && rope.position[row + 1] >= 0) return false;
        continue;
      }
      if (position < 0 || position != rope.position[size_t(seq.first_row)] + i) return false;
      const int32_t page = args.block[size_t(seq.block_begin + position / kv.block_size)];
      if (store.slot[row] != page * kv.block_size + position % kv.block_size) return false;
    }
  }
  return num_rows == args.q.rows;
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
