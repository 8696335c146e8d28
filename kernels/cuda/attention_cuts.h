#pragma once
// Where long sequences among short ones are cut, so that all multiprocessors read to the end. Host arithmetic alone.
//
// A block that takes all chunks of a sequence adds their parts as it goes and leaves nothing. Of a sequence that is cut
// the first piece does the same; further pieces leave each chunk's part, as parts are added from left to right only
// (attention.h), and a merge adds them. So pieces are as few as keep the device busy.

#include <algorithm>
#include <cstdint>
#include <span>

namespace paceline::cuda {

/// Chunks that a piece has at least: fewer are done sooner by blocks of one each.
inline constexpr int64_t kPieceChunks = 3;

/// A sequence's chunks, and where they are cut. Pieces are numbered from 0; all but the first leave their parts.
struct CutChunks {
  int32_t begin = 0, end = 0;  // that its rows see
  int64_t num_lines = 0;       // its rows, times the query heads: each leaves parts of its own
  int32_t pieces = 1;
  int32_t border = 0;  // where the first piece ends: `end` where nothing is cut

  bool is_cut() const { return border < end; }
  /// The first piece begins at 0, as keys before `begin` are seen by nobody.
  int32_t begin_of(int32_t piece) const { return piece == 0 ? 0 : end_of(piece - 1); }
  int32_t end_of(int32_t piece) const {
    return piece == 0 ? border : border + int32_t(int64_t{end - border} * piece / (pieces - 1));
  }
  /// That a line leaves: the first piece's sum is one.
  int32_t num_parts() const { return end - border + 1; }
};

/// Cuts sequences (begin, end and num_lines are given), which each of num_heads KV heads reads: those that have a
/// quarter more than an even share of a multiprocessor, into pieces that are a share of the blocks that run at once on
/// all of them, blocks_each on one; rounded up, so that the pieces of a sequence alone run at once. fills_device: uncut
/// sequences keep it busy; else nothing is cut unless that share is kPieceChunks. most_parts: of all lines together,
/// that there is room for; first pieces grow where it is short.
inline void cut_chunks(std::span<CutChunks> sequences, int num_heads, int num_multiprocessors, int blocks_each,
                       bool fills_device, int64_t most_parts) {
  int64_t all = 0, lines_cut = 0;
  for (const CutChunks& chunks : sequences) all += int64_t{chunks.end - chunks.begin} * num_heads;
  const int64_t blocks = int64_t{num_multiprocessors} * blocks_each, even = (all + blocks - 1) / blocks;
  const int64_t share = std::max(even, kPieceChunks);
  for (CutChunks& chunks : sequences) {
    const int64_t count = chunks.end - chunks.begin;
    chunks.pieces = 1, chunks.border = chunks.end;
    if (count * 4 <= share * blocks_each * 5 || (!fills_device && even < kPieceChunks)) continue;
    chunks.pieces = int32_t(std::max<int64_t>(2, count / share));
    lines_cut += chunks.num_lines;
  }
  for (CutChunks& chunks : sequences) {
    if (chunks.pieces == 1) continue;
    const int64_t count = chunks.end - chunks.begin, parts = most_parts / lines_cut;
    const int64_t first = std::max((count + chunks.pieces - 1) / chunks.pieces, count + 1 - parts);
    if (first >= count) chunks.pieces = 1;
    chunks.border = chunks.begin + int32_t(std::min(first, count));
  }
}

}  // namespace paceline::cuda
