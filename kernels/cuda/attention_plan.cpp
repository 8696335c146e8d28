#include <algorithm>
#include <utility>

#include "kernels/cpu/cpu_weight.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_cuts.h"
#include "kernels/cuda/row_ops.h"
#include "kernels/error.h"

namespace paceline::cuda {
namespace {

/// What its rows see, to `tile`; row_of(i): row i of its sequence or path.
template <class RowOf>
void add_keys(const AttentionArgs& args, LineTile& tile, RowOf&& row_of) {
  const int group = group_of(args);
  tile.own = args.kv_len[size_t(tile.first_row)] - 1;
  tile.keys = {};
  for (int32_t row = tile.first_line / group; row * group < tile.first_line + tile.num_lines; ++row)
    tile.keys.add_row(args.window, args.kv_len[size_t(row_of(row))]);
}

}  // namespace

std::vector<LineTile> line_tiles(const AttentionArgs& args, int32_t first_row, int32_t num_rows, int line_tile) {
  const int group = group_of(args);
  std::vector<LineTile> tiles;
  for (const SeqSpan& seq : args.seqs) {
    const int32_t begin = std::max(seq.first_row, first_row);
    const int32_t end = std::min(seq.first_row + seq.num_rows, first_row + num_rows);
    for (int32_t line = 0; line < (end - begin) * group; line += line_tile) {
      LineTile tile{.first_row = begin,
                    .num_lines = std::min(line_tile, (end - begin) * group - line),
                    .first_line = line,
                    .block_begin = seq.block_begin};
      add_keys(args, tile, [&](int32_t row) { return begin + row; });
      tiles.push_back(tile);
    }
  }
  return tiles;
}

namespace {

/// Rows of `seq` at [begin, end) that see keys from `first_key` on, by paths: each row once, with its leaf, and those
/// below the tree with the first.
struct PathRows {
  int32_t leaf = 0;
  std::vector<int32_t> rows;
};
std::vector<PathRows> rows_of_paths(const AttentionArgs& args, const SeqSpan& seq, int32_t first_key, int32_t begin,
                                    int32_t end) {
  const int32_t end_of_seq = seq.first_row + seq.num_rows;
  int32_t first_draft = end_of_seq;
  while (first_draft > seq.first_row && args.kv_len[size_t(first_draft - 1)] > seq.tree_begin) --first_draft;
  const int32_t first_place = first_draft < end_of_seq ? last_place(args, seq, first_draft) : 0;
  std::vector<PathRows> paths;
  std::vector<char> taken(size_t(seq.num_rows));
  const auto take = [&](int32_t row, std::vector<int32_t>& rows) {
    if (std::exchange(taken[size_t(row - seq.first_row)], char{1})) return;
    if (row >= begin && row < end && args.kv_len[size_t(row)] > first_key) rows.push_back(row);
  };
  for (int32_t leaf = end_of_seq - 1; leaf >= first_draft; --leaf) {  // who is on no later row's path has no children
    if (taken[size_t(leaf - seq.first_row)]) continue;
    PathRows path{.leaf = leaf, .rows = {}};
    if (paths.empty())
      for (int32_t row = seq.first_row; row < first_draft; ++row) take(row, path.rows);
    const int32_t* const place = args.paths.place.data() + args.paths.begin[size_t(leaf)];
    const int32_t depth = args.kv_len[size_t(leaf)] - seq.tree_begin;
    for (int32_t node = 0; node < depth; ++node)
      if (place[node] >= first_place) take(first_draft + place[node] - first_place, path.rows);
    paths.push_back(std::move(path));
  }
  return paths;
}

}  // namespace

TreeTiles tree_tiles(const AttentionArgs& args, int32_t first_row, int32_t num_rows, int line_tile, bool whole) {
  const int group = group_of(args);
  TreeTiles made{.num_parts = 1};
  std::vector<TreeTile> of_paths;
  std::vector<TileChunk> chunks_of_paths;
  if (whole) made.chunks_below.resize(args.kv_len.size());
  const auto add_chunks = [&](const TreeTile& tile, size_t index, int32_t from, int32_t to,
                              std::vector<TileChunk>& chunks) {
    for (int32_t chunk = std::max(from, tile.keys.first_chunk()); chunk < std::min(to, tile.keys.end_chunk());
         ++chunk) {
      chunks.push_back({.tile = int32_t(index), .chunk = chunk});
      made.num_parts = std::max(made.num_parts, chunk - tile.before_part + 1);
    }
  };
  for (const SeqSpan& seq : args.seqs) {
    const int32_t begin = std::max(seq.first_row, first_row);
    const int32_t end = std::min(seq.first_row + seq.num_rows, first_row + num_rows);
    if (begin >= end) continue;
    const bool has_tree = seq.tree_begin != SeqSpan::kNoTree;
    const int32_t below = has_tree ? seq.tree_begin / kDeviceChunk : INT32_MAX;
    TreeTile tile;
    tile.first_row = begin, tile.block_begin = seq.block_begin, tile.tree_begin = seq.tree_begin;
    tile.end_chunk = below;
    for (int32_t row = begin; whole && row < end; ++row)
      made.chunks_below[size_t(row)] = std::min(below, chunks_of(args.kv_len[size_t(row)]));
    for (int32_t line = 0; below > 0 && line < (end - begin) * group; line += line_tile) {
      tile.first_line = line, tile.num_lines = std::min(line_tile, (end - begin) * group - line);
      add_keys(args, tile, [&](int32_t row) { return begin + row; });
      made.most_lines_below = std::max(made.most_lines_below, tile.num_lines);
      if (!whole) add_chunks(tile, made.tiles.size(), 0, below, made.chunks);
      made.tiles.push_back(tile);
    }
    if (!has_tree) continue;
    tile.before_part = whole ? below - 1 : 0;
    const int path_tile = std::min(line_tile, attention_line_tile(args, false));
    for (const PathRows& path : rows_of_paths(args, seq, below * kDeviceChunk, begin, end)) {
      tile.rows = int32_t(made.row.size());
      tile.path = args.paths.begin[size_t(path.leaf)];
      made.row.insert(made.row.end(), path.rows.begin(), path.rows.end());
      const int num_lines = int(path.rows.size()) * group;
      for (int32_t line = 0; line < num_lines; line += path_tile) {
        tile.first_line = line, tile.num_lines = std::min(path_tile, num_lines - line);
        add_keys(args, tile, [&](int32_t row) { return path.rows[size_t(row)]; });
        made.most_lines = std::max(made.most_lines, tile.num_lines);
        add_chunks(tile, of_paths.size(), below, INT32_MAX, chunks_of_paths);
        of_paths.push_back(tile);
      }
    }
  }
  made.num_below = int32_t(made.tiles.size());
  if (!whole) made.most_lines = std::max(made.most_lines, made.most_lines_below);
  for (TileChunk& chunk : chunks_of_paths) chunk.tile += made.num_below;
  made.chunks.insert(made.chunks.end(), chunks_of_paths.begin(), chunks_of_paths.end());
  made.tiles.insert(made.tiles.end(), of_paths.begin(), of_paths.end());
  return made;
}

namespace {

/// Of `slices`, whose tiles hold a sequence each: the long ones become pieces. fills_device: whole ones keep it busy.
void cut_long(const AttentionArgs& args, size_t scratch_bytes, const cudaDeviceProp& device, bool fills_device,
              AttentionSlices& slices) {
  AttentionPlan& plan = slices.plan;
  const int group = group_of(args);
  std::vector<CutChunks> chunks;
  for (const LineTile& tile : slices.tiles) {
    chunks.push_back({.begin = tile.keys.first_chunk(),
                      .end = tile.keys.end_chunk(),
                      .num_lines = int64_t{tile.num_lines / group} * args.num_heads});
  }
  const size_t part_bytes = attention_row_bytes(args, 1) / size_t(args.num_heads);
  cut_chunks(chunks, args.kv.num_kv_heads, device.multiProcessorCount, attention_blocks_each(plan.most_lines),
             fills_device, int64_t(scratch_bytes / part_bytes));
  std::vector<LineTile> whole, pieces;
  int32_t num_parts = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    LineTile tile = slices.tiles[i];
    const CutChunks& cut = chunks[i];
    if (!cut.is_cut()) {
      whole.push_back(tile);
      continue;
    }
    tile.before_part = cut.border - 1;
    tile.row_parts = cut.num_parts();
    tile.first_part = num_parts;
    for (int32_t row = tile.first_row; row < tile.first_row + tile.num_lines / group; ++row) {
      slices.merged.push_back({.row = row, .border = cut.border, .first_part = num_parts, .row_parts = tile.row_parts});
      num_parts += args.num_heads * tile.row_parts;
    }
    for (int32_t piece = 0; piece < cut.pieces; ++piece) {
      tile.begin_chunk = cut.begin_of(piece), tile.end_chunk = cut.end_of(piece);
      pieces.push_back(tile);
    }
  }
  whole.insert(whole.end(), pieces.begin(), pieces.end());
  slices.tiles = std::move(whole);
  slices.cut_bytes = size_t(num_parts) * part_bytes;
  plan.num_tiles = int32_t(slices.tiles.size());
  plan.num_merged = int32_t(slices.merged.size());
}

/// Blocks of kFewLines that take all chunks.
int64_t blocks_of_few_lines(const AttentionArgs& args) {
  int64_t tiles = 0;
  for (const SeqSpan& seq : args.seqs) tiles += (int64_t{seq.num_rows} * group_of(args) + kFewLines - 1) / kFewLines;
  return tiles * args.kv.num_kv_heads;
}

/// Chunks of tiles so few that their blocks leave most SMs without work, up to which teams take them all, not blocks of
/// one chunk: of more, those keep the device busy.
constexpr int kMostTeamChunks = 16;

}  // namespace

AttentionSlices plan_attention(const AttentionArgs& args, size_t scratch_bytes, const cudaDeviceProp& device) {
  const int32_t longest = std::max(1, *std::max_element(args.kv_len.begin(), args.kv_len.end()));
  AttentionSlices slices{.plan = {.num_chunks = chunks_of(longest)}};
  AttentionPlan& plan = slices.plan;
  plan.num_rows = args.q.rows;
  const bool has_trees = !args.paths.place.empty();
  const auto find_tiles = [&](int line_tile) {
    slices.line_tile = line_tile;
    make_tiles(args, slices);
  };
  plan.whole = has_trees;
  find_tiles(attention_line_tile(args));
  const int64_t blocks = blocks_of_few_lines(args);
  // of lines that warps share, blocks are faster than those of kMmaLines, if they run at once
  const auto share_lines = [&] {
    return !has_trees && plan.num_merged == 0 && attention_line_tile(args) == kMmaLines &&
           blocks <= device.multiProcessorCount;
  };
  int32_t rows_of_seqs = 0;
  for (const SeqSpan& seq : args.seqs) rows_of_seqs += seq.num_rows;
  plan.whole = false;
  if (rows_of_seqs == args.q.rows) {  // rows of no sequence are zeroed by the merge
    const bool fills_device = attention_takes_whole_lines(args, plan.num_tiles, plan.most_lines, device);
    if (!has_trees && attention_line_tile(args) == kMmaLines && plan.num_tiles <= kMostTiles &&
        attention_ring_stages(args.kv, plan.num_tiles, plan.most_lines, 1, device) > 0)
      cut_long(args, scratch_bytes, device, fills_device, slices);
    const bool is_beyond_merge =
        attention_line_tile(args) == kMmaLines && plan.num_chunks > attention_most_parts(device);
    plan.whole = fills_device || plan.num_merged > 0 || is_beyond_merge;
    plan.team_blocks = share_lines() ? attention_team_blocks(args.q.rows, int(blocks), device) : 1;
    if (plan.team_blocks > 1 && !plan.whole) {
      plan.whole = plan.num_chunks <= kMostTeamChunks;
      if (!plan.whole) plan.team_blocks = 1;
    }
  }
  const int line_tile = plan.whole && share_lines() ? kFewLines : attention_line_tile(args, plan.whole);
  if (plan.most_lines > line_tile || (has_trees && !plan.whole)) find_tiles(line_tile);
  slices.line_tile = line_tile;
  if (plan.whole)
    plan.ring_stages = attention_ring_stages(args.kv, plan.num_tiles, plan.most_lines, plan.team_blocks, device);
  if (!has_trees && !attention_is_few(plan)) plan.warp_sets = attention_warp_sets(args.kv, plan, device);
  slices.row_bytes = plan.whole && !has_trees ? 0 : attention_row_bytes(args, plan.num_parts);
  slices.slice_rows =
      slices.row_bytes == 0 ? args.q.rows : int32_t(std::max<size_t>(1, scratch_bytes / slices.row_bytes));
  if (plan.num_tiles > kMostTiles) {  // of sequences of one row each, a tile more than their lines fill
    const int64_t lines = int64_t{kMostTiles} * slices.line_tile;
    slices.slice_rows = std::min(slices.slice_rows, int32_t(lines / (group_of(args) + slices.line_tile)));
  }
  if (slices.row_bytes > 0 && plan.num_parts > attention_most_parts(device))
    fail(ExitCode::device,
         "{}: a context of {} tokens; attention takes {} at most: lower engine.scheduler.max_model_len", device.name,
         longest, attention_most_parts(device) * kDeviceChunk);
  return slices;
}

void make_tiles(const AttentionArgs& args, AttentionSlices& slices) {
  AttentionPlan& plan = slices.plan;
  if (args.paths.place.empty()) {
    slices.tiles = line_tiles(args, plan.first_row, plan.num_rows, slices.line_tile);
    plan.num_tiles = int32_t(slices.tiles.size());
    plan.most_lines = 0;
    for (const LineTile& tile : slices.tiles) plan.most_lines = std::max(plan.most_lines, tile.num_lines);
    plan.num_parts = plan.num_chunks;
    return;
  }
  slices.tree = tree_tiles(args, plan.first_row, plan.num_rows, slices.line_tile, plan.whole);
  plan.num_tiles = slices.tree.num_below;
  plan.num_tile_chunks = int32_t(slices.tree.chunks.size());
  plan.most_lines = slices.tree.most_lines_below;
  plan.most_chunk_lines = slices.tree.most_lines;
  plan.num_parts = plan.whole ? slices.tree.num_parts : plan.num_chunks;
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
  if (!turns_queries(rope, args) || !attention_is_few(plan) || !args.paths.place.empty()) return false;
  // of a sequence in several tiles of whole lines, each would take the keys of all rows before its own
  const bool takes_once = !plan.whole || plan.num_merged > 0 || plan.num_tiles <= int32_t(args.seqs.size());
  if (!takes_once && (plan.team_blocks == 1 || plan.num_rows > kMaxRowTile)) return false;
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

void check_attention(const AttentionArgs& args, int device) {
  constexpr int kMostDims = 256;
  if (args.kv.k_dim > kMostDims || args.kv.v_dim > kMostDims)
    fail(ExitCode::device, "device cuda:{}: head dimensions {} and {}; at most {} are supported", device, args.kv.k_dim,
         args.kv.v_dim, kMostDims);
  storage_index(args.kv.dtype);
  PACELINE_CHECK(args.scale > 0, "scale {}", args.scale);  // the largest score stays the largest
  PACELINE_CHECK(args.kv.block_size % kCopiedKeys == 0, "block_size {} is not a multiple of {}", args.kv.block_size,
                 kCopiedKeys);
}

int32_t places_of(const AttentionArgs& args, const SeqSpan& seq) {
  int32_t places = 0;
  for (int32_t row = seq.first_row; row < seq.first_row + seq.num_rows; ++row) {
    const int32_t len = args.kv_len[size_t(row)];
    places = std::max(places, len > seq.tree_begin ? last_place(args, seq, row) + 1 : len);
  }
  return places;
}

Traffic attention_traffic(const AttentionArgs& args) {
  Traffic traffic;
  const auto seen = [&](int32_t len, int32_t rows) {
    return args.window > 0 ? std::min(len, args.window + rows - 1) : len;
  };
  for (const SeqSpan& seq : args.seqs)
    traffic.kv_bytes +=
        uint64_t(seen(places_of(args, seq), seq.num_rows)) * kv_block_bytes(args.kv) / uint64_t(args.kv.block_size);
  for (const int32_t len : args.kv_len)
    traffic.attention_flops +=
        uint64_t(2) * uint64_t(seen(len, 1)) * uint64_t(args.num_heads) * uint64_t(args.kv.k_dim + args.kv.v_dim);
  traffic.flops = traffic.attention_flops;
  return traffic;
}

}  // namespace paceline::cuda
