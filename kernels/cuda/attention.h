#pragma once
// Attention over pages, in chunks of kDeviceChunk absolute positions whose parts are added from left to right, so that
// a row's bits depend on its own keys only. Shorter chunks than the CPU's: one sequence must keep all SMs busy.

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/operand.h"
#include "kernels/cuda/page_maps.h"
#include "kernels/op_args.h"
#include "kernels/work.h"

namespace paceline::cuda {

inline constexpr int kDeviceChunk = 64;
/// Neighbouring keys of a chunk that a warp takes; that come into shared memory together. A page holds a multiple.
inline constexpr int kWarpKeys = 8, kCopiedKeys = 16;

/// Lines of one sequence that a block works on together, reading each key once for all of them: kMmaLines where tensor
/// cores do. Line l of a sequence is its row l / group and query head l % group of a KV head.
inline constexpr int kLineTile = 32, kMmaLines = 64;
/// Of kMmaLines: as many as warps share rather than take alone where a block takes all chunks; as a block takes of one
/// chunk, so that more blocks run at once.
inline constexpr int kFewLines = 32, kChunkLines = 48;
int attention_line_tile(const AttentionArgs& args, bool whole = true);
/// Tiles of a call, beyond which its rows are taken in slices: a grid has 65,535 blocks in y, and they are staged.
inline constexpr int kMostTiles = 32'768;
/// Query heads of a KV head.
constexpr int group_of(const AttentionArgs& args) {
  return args.group ? args.group : args.num_heads / args.kv.num_kv_heads;
}
/// Of a row of `len` keys, the first that it sees. window: 0 for all.
constexpr int32_t first_key(int32_t window, int32_t len) { return window > 0 && len > window ? len - window : 0; }
constexpr int32_t chunks_of(int32_t positions) { return (positions + kDeviceChunk - 1) / kDeviceChunk; }
/// Keys that any row of a tile sees, and those that all see; rows that see none left out.
struct KeyRange {
  int32_t first = INT32_MAX, last = 0, seen_first = 0, seen_last = INT32_MAX;

  void add_row(int32_t window, int32_t len) {
    if (len <= 0) return;
    const int32_t key = first_key(window, len);
    first = std::min(first, key), last = std::max(last, len);
    seen_first = std::max(seen_first, key), seen_last = std::min(seen_last, len);
  }
  /// Chunks that hold them.
  constexpr int32_t first_chunk() const { return first < last ? first / kDeviceChunk : 0; }
  constexpr int32_t end_chunk() const { return first < last ? chunks_of(last) : 0; }
  /// Of the chunk that begins there: whether all rows see each of its keys; those that any sees.
  constexpr bool all_see_whole(int32_t chunk_begin) const {
    return seen_first <= chunk_begin && seen_last >= chunk_begin + kDeviceChunk;
  }
  constexpr bool all_see(int32_t chunk_begin) const {
    return seen_first <= std::max(first, chunk_begin) && seen_last >= std::min(last, chunk_begin + kDeviceChunk);
  }
};
struct LineTile {
  int32_t first_row = 0;  // of the sequence
  int32_t num_lines = 0;  // of the tile
  int32_t first_line = 0;
  int32_t block_begin = 0;  // into `block`
  KeyRange keys;
  int32_t own = 0;  // position of first_row: keys before it are old
  // Of a block that takes all chunks, or those of a piece (attention_cuts.h). From 0 on: it adds them; else each chunk
  // leaves its part.
  int32_t begin_chunk = 0, end_chunk = INT32_MAX;
  int32_t before_part = 0;  // chunk c's part is number c - before_part
  int32_t row_parts = 0;    // of a row and head; none: its outputs are written. Number 0 is the first piece's sum
  int32_t first_part = 0;   // where those of the sequence's first row and head begin
};

static_assert(std::has_unique_object_representations_v<LineTile>, "what is staged is compared byte by byte");

/// Those of rows [first_row, first_row + num_rows), of `line_tile` lines at most.
std::vector<LineTile> line_tiles(const AttentionArgs& args, int32_t first_row, int32_t num_rows, int line_tile);

/// Where drafts branch: lines of all rows of a sequence for the chunks that lie wholly below its tree, where every row
/// finds its keys in one place; lines of the rows of one path for the others, whose keys are gathered along it.
struct TreeTile : LineTile {
  int32_t rows = -1;                      // of one path: where they begin in AttentionPlan::row; -1: from first_row on
  int32_t tree_begin = SeqSpan::kNoTree;  // position
  int32_t path = 0;                       // where its places begin in AttentionPlan::place
};
static_assert(std::has_unique_object_representations_v<TreeTile>);
/// What a block takes that takes one chunk.
struct TileChunk {
  int32_t tile = 0, chunk = 0;
};
struct TreeTiles {
  std::vector<TreeTile> tiles;    // those of all rows first
  int32_t num_below = 0;          // of all rows
  std::vector<TileChunk> chunks;  // whole: of the paths; else of all tiles
  std::vector<int32_t> row;
  std::vector<int32_t> chunks_below;  // [m] whole: of the row, what blocks that take all chunks have added
  int32_t most_lines = 0, most_lines_below = 0;
  int32_t num_parts = 0;  // whole: that a row leaves, at most

  size_t bytes() const {
    return tiles.size() * sizeof(TreeTile) + chunks.size() * sizeof(TileChunk) +
           (row.size() + chunks_below.size()) * sizeof(int32_t);
  }
};
/// whole: blocks take all chunks below a tree. line_tile: most lines of a tile there; those of paths have no more than
/// a block of one chunk takes.
TreeTiles tree_tiles(const AttentionArgs& args, int32_t first_row, int32_t num_rows, int line_tile, bool whole);
/// A row of a sequence that is cut (attention_cuts.h): the sum of the chunks before `border`, then each one's part.
struct MergedRow {
  int32_t row = 0, border = 0;
  int32_t first_part = 0, row_parts = 0;  // as LineTile's, of this row
};
/// Throws Error(device) for what no kernel takes. device: for the message.
void check_attention(const AttentionArgs& args, int device);

/// Of the sequence, that its rows see: keys lie below.
int32_t places_of(const AttentionArgs& args, const SeqSpan& seq);
/// KV read and operations, whatever the tiles.
Traffic attention_traffic(const AttentionArgs& args);

/// What a launch works on; device memory.
struct AttentionPlan {
  const int32_t* kv_len = nullptr;    // [m]
  const LineTile* tile = nullptr;     // [num_tiles]
  const MergedRow* merged = nullptr;  // [num_merged]
  const int32_t* block = nullptr;     // [num_blocks]
  // where drafts branch, in place of `tile` (TreeTiles)
  const TreeTile* tree_tile = nullptr;
  const TileChunk* chunk = nullptr;  // [num_tile_chunks]
  const int32_t* row = nullptr;
  const int32_t* place = nullptr;         // KeyPaths::place
  const int32_t* chunks_below = nullptr;  // [m]; null: each chunk has left its part
  int32_t num_tile_chunks = 0;
  int32_t most_chunk_lines = 0;  // of a tile of those chunks
  int32_t num_blocks = 0;
  int32_t num_tiles = 0;
  int32_t num_merged = 0;
  int32_t num_chunks = 0;  // of the longest row
  int32_t num_parts = 0;   // that a row's chunks leave, at most
  int32_t first_row = 0;   // of those that the tiles cover
  int32_t num_rows = 0;
  bool whole = false;      // a block takes all chunks of its lines
  int ring_stages = 0;     // chunks in shared memory of blocks that take all of few lines; 0: there are no such blocks
  int warp_sets = 1;       // of blocks that take all chunks of many lines; two take chunks by turns
  int team_blocks = 1;     // that take the chunks of a tile of few lines by turns; more than one are a cluster
  int32_t most_lines = 0;  // of a tile
  // keys before a tile's first row, and FreshRows::factors, are complete even before wait_for_predecessor()
  bool keys_stay = false;
};
/// A call in slices of rows, so that what chunks leave fits the scratch, and tiles are no more than kMostTiles.
struct AttentionSlices {
  AttentionPlan plan;             // without what lies in device memory
  std::vector<LineTile> tiles;    // of all rows
  std::vector<MergedRow> merged;  // of the long ones among them, whose tiles are cut
  TreeTiles tree;                 // in their place where drafts branch
  int line_tile = 0;
  size_t cut_bytes = 0;  // of the scratch, for what pieces leave
  size_t row_bytes = 0;  // of the scratch, for a row
  int32_t slice_rows = 0;

  size_t scratch_bytes() const { return cut_bytes + size_t(plan.num_rows) * row_bytes; }
};
/// REQUIRES rows. Throws Error(device) for a context that is too long for what merges its parts.
AttentionSlices plan_attention(const AttentionArgs& args, size_t scratch_bytes, const cudaDeviceProp& device);
/// Those of plan.num_rows rows from plan.first_row on.
void make_tiles(const AttentionArgs& args, AttentionSlices& slices);

/// What of them is staged: how much, in how many pieces; and `plan` pointed there by stage(span), which
/// returns where a span's copy is.
inline size_t staged_bytes(const AttentionArgs& args, const AttentionSlices& slices) {
  return args.kv_len.size_bytes() + slices.tiles.size() * sizeof(LineTile) + slices.merged.size() * sizeof(MergedRow) +
         slices.tree.bytes() + args.paths.place.size_bytes();
}
inline size_t staged_pieces(const AttentionArgs& args) { return args.paths.place.empty() ? 3 : 6; }
template <class StageSpan>
void stage_plan(const AttentionArgs& args, AttentionSlices& slices, StageSpan&& stage) {
  AttentionPlan& plan = slices.plan;
  const TreeTiles& tree = slices.tree;
  plan.kv_len = stage(args.kv_len);
  if (args.paths.place.empty()) {
    plan.tile = stage(std::span<const LineTile>(slices.tiles));
    if (plan.num_merged > 0) plan.merged = stage(std::span<const MergedRow>(slices.merged));
    return;
  }
  plan.tree_tile = stage(std::span<const TreeTile>(tree.tiles));
  plan.chunk = stage(std::span<const TileChunk>(tree.chunks));
  plan.row = stage(std::span<const int32_t>(tree.row));
  plan.place = stage(args.paths.place);
  plan.chunks_below = plan.whole ? stage(std::span<const int32_t>(tree.chunks_below)) : nullptr;
}

/// Whether warps share lines: where those are few, or blocks take one chunk each.
inline bool attention_is_few(const AttentionPlan& plan) { return !plan.whole || plan.ring_stages > 0; }
/// Blocks of whole lines that run at once on a multiprocessor.
int attention_blocks_each(int most_lines);
/// AttentionPlan::ring_stages of whole lines, as far as the device has the room.
int attention_ring_stages(const KvView& kv, int num_tiles, int most_lines, int team_blocks,
                          const cudaDeviceProp& device);
/// AttentionPlan::team_blocks of num_rows rows in as many pairs of a tile and a KV head: so many that, of 132
/// multiprocessors, all run at once.
int attention_team_blocks(int num_rows, int num_pairs, const cudaDeviceProp& device);
/// AttentionPlan::warp_sets of its tiles, where those are of many lines.
int attention_warp_sets(const KvView& kv, const AttentionPlan& plan, const cudaDeviceProp& device);

/// Rows whose queries attention turns itself: with factors; and whose keys it turns and stores with their values: with
/// k, too (few lines). The rest has been done before.
struct FreshRows {
  const float* k = nullptr;  // [m][kv head][dim], rows `stride` apart
  const float* v = nullptr;
  int64_t stride = 0;
  const float2* factors = nullptr;  // [position][k_dim / 2]
  void* k_pages = nullptr;
  void* v_pages = nullptr;
};
/// Whether attention may turn queries: whole heads, by the position behind a row's other keys.
bool turns_queries(const RopeArgs& rope, const AttentionArgs& args);
/// Whether it may do all: all rows of all sequences at once, and warps share lines.
bool takes_fresh_rows(const RopeArgs& rope, const StoreKvArgs& store, const AttentionArgs& args,
                      const AttentionPlan& plan);
/// Whether kernels copy this layer's keys and values by tensor maps.
bool copies_boxes(const AttentionArgs& args, const cudaDeviceProp& device);
/// Whether so many tiles fill the device without cutting their lines into chunks. The bits are the same.
bool attention_takes_whole_lines(const AttentionArgs& args, int num_tiles, int most_lines,
                                 const cudaDeviceProp& device);

/// Once for the current device, before its first attention.
void prepare_attention(const cudaDeviceProp& device);
/// Parts of a row that the device merges; so many times kDeviceChunk positions.
int attention_most_parts(const cudaDeviceProp& device);
/// Bytes for so many parts of a row.
size_t attention_row_bytes(const AttentionArgs& args, int32_t num_parts);
/// Contract: Backend::attention, for the plan's rows, with the spans of args replaced by `plan`. workspace:
/// AttentionSlices::scratch_bytes(). operand: null, or what is written in place of args.out. fresh: as far as
/// turns_queries, takes_fresh_rows. maps: args.kv's where copies_boxes, else anything.
void attention(const AttentionArgs& args, const AttentionPlan& plan, const FreshRows& fresh, const PageMaps& maps,
               const Operand& operand, void* workspace, LaunchTo queue);

}  // namespace paceline::cuda
