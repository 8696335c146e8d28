#pragma once
// Who takes which chunks of a product's weights where a team takes whole tiles of outputs in turn, and what is left
// over when there are not enough for another turn is cut at the borders of strict chunks. (The idea of Stream-K, Osama
// et al. 2023; only sums of whole subtrees change hands, so that the order of additions stays.)

#include <algorithm>

#include <climits>

#include "kernels/math/ceil_div.h"
#include "kernels/math/elementary.h"

namespace paceline::cuda {

/// Chunks of a piece, at most: a piece is one chunk, or 2 or 4 whose sum is a subtree of the tile's.
inline constexpr int kMostPieceChunks = 4;

/// Of the piece that begins at `chunk` of a tile, where its team takes the chunks up to `end`.
PACELINE_MATH constexpr int piece_chunks(int chunk, int end) {
  int count = 1;
  while (count < kMostPieceChunks && chunk % (2 * count) == 0 && chunk + 2 * count <= end) count *= 2;
  return count;
}
/// Bit c: a piece begins at chunk c, for a team that takes chunks [begin, end).
PACELINE_MATH constexpr unsigned pieces_of(int begin, int end) {
  unsigned pieces = 0;
  for (int chunk = begin; chunk < end; chunk += piece_chunks(chunk, end)) pieces |= 1u << chunk;
  return pieces;
}

/// A tile's outputs in quarters: a narrow one has fewer.
inline constexpr int kTileQuarters = 4;

/// Tiles are numbered; the first `whole` are taken as a whole, in turns. The chunks of those left over, one after
/// another, are items, of which each team takes `share` side by side, as long as there are any: fewer than the chunks
/// of a tile, as else some teams take one more whole tile.
struct SplitShares {
  int chunks;  // of a tile: 1, 2, 4 or 8
  int teams;
  int whole;
  int over;                   // tiles left over
  int share;                  // items of a team, at most
  int width = kTileQuarters;  // of the tiles before `full`
  int full = INT_MAX;
  int rest_width = 0;  // of the wider ones of the others; the rest of them has one quarter less, which may be none
  int wider = 0;       // of the others, which come first

  /// tiles, of `width` quarters each, chunks, most_teams >= 1.
  static SplitShares of(int tiles, int chunks, int most_teams, int width = kTileQuarters) {
    const int teams = std::min(most_teams, tiles * chunks);
    int over = tiles % teams, share = math::ceil_div(over * chunks, teams);
    if (share == chunks) over = share = 0;
    return {.chunks = chunks,
            .teams = teams,
            .whole = tiles - over,
            .over = over,
            .share = std::max(1, share),
            .width = width};
  }
  /// As of(), or with narrow tiles of the same outputs. Each costs as many rows and instructions as another, but they
  /// spare sums that change hands. Outputs left over behind whole tiles make one for each team, where none is larger
  /// than its share; and where nothing but shares is taken, all tiles are narrow if only then, and no larger, shares
  /// are halves or quarters of them.
  static SplitShares with_narrow(int tiles, int chunks, int most_teams) {
    const SplitShares plain = of(tiles, chunks, most_teams);
    const int teams = plain.teams, rest = tiles % teams, full = tiles - rest;
    const int most = (plain.over > 0 ? plain.share : chunks) * kTileQuarters;  // of a team's rest
    if (full > 0 && rest > 0) {
      const int left = rest * kTileQuarters, rest_width = math::ceil_div(left, teams);
      const int wider = left - teams * (rest_width - 1);
      if (rest_width == kTileQuarters || rest_width * chunks > most) return plain;
      return {.chunks = chunks,
              .teams = teams,
              .whole = full + (rest_width > 1 ? teams : wider),
              .over = 0,
              .share = 1,
              .full = full,
              .rest_width = rest_width,
              .wider = wider};
    }
    if (plain.over == 0 || chunks % plain.share == 0) return plain;
    for (int width = kTileQuarters - 1; width > 1; --width) {
      const SplitShares all = of(math::ceil_div(tiles * kTileQuarters, width), chunks, most_teams, width);
      if (all.whole == 0 && chunks % all.share == 0 && all.share * width <= most) return all;
    }
    return plain;
  }
  /// Of a tile's outputs, in quarters of a tile.
  struct Outputs {
    int first, count;
  };
  PACELINE_MATH Outputs outputs(int tile) const {
    if (tile < full) return {tile * width, width};
    const int narrow = tile - full, wider_before = narrow < wider ? narrow : wider;
    return {full * width + narrow * (rest_width - 1) + wider_before, narrow < wider ? rest_width : rest_width - 1};
  }
  PACELINE_MATH int items() const { return over * chunks; }
  PACELINE_MATH int first_item(int team) const { return team * share < items() ? team * share : items(); }

  /// The teams that share a tile that is left over, the index-th of those.
  struct Sharers {
    int first, count;
  };
  PACELINE_MATH Sharers sharers(int index) const {
    const int first = index * chunks / share, last = ((index + 1) * chunks - 1) / share;
    return {first, last - first + 1};
  }
  /// Rows of that tile, in tiles of 8, of which there are row_tiles, that one of its sharers finishes.
  struct Rows {
    int begin, end;
  };
  PACELINE_MATH Rows finished_by(int team, int index, int row_tiles) const {
    const Sharers of = sharers(index);
    const int number = team - of.first;
    return {row_tiles * number / of.count, row_tiles * (number + 1) / of.count};
  }
  /// Bit c: a piece of that tile begins at chunk c.
  PACELINE_MATH unsigned pieces(int index) const {
    unsigned all = 0;
    for (int begin = 0; begin < chunks;) {
      const int rest = share - (index * chunks + begin) % share;
      const int end = begin + rest < chunks ? begin + rest : chunks;
      all |= pieces_of(begin, end);
      begin = end;
    }
    return all;
  }
};

/// A team's chunks in the order in which it takes them: its share of what is left over, so that others need not wait
/// for the sums, then whole tiles.
struct SplitWalk {
  const SplitShares& shares;
  int tile, chunk;
  int end;         // of the tile's chunks that come one after another
  int next_whole;  // tile that is the team's alone
  int item, stop;
  bool is_over = false;

  PACELINE_MATH SplitWalk(const SplitShares& shares_, int team)
      : shares(shares_), next_whole(team), item(shares_.first_item(team)), stop(shares_.first_item(team + 1)) {
    next_tile();
  }
  PACELINE_MATH bool is_left_over() const { return tile >= shares.whole; }
  PACELINE_MATH void next_tile() {
    if (item < stop) {
      const int index = item / shares.chunks;
      tile = shares.whole + index, chunk = item - index * shares.chunks;
      end = chunk + stop - item < shares.chunks ? chunk + stop - item : shares.chunks;
      item += end - chunk;
    } else if (next_whole < shares.whole) {
      tile = next_whole, chunk = 0, end = shares.chunks;
      next_whole += shares.teams;
    } else {
      is_over = true;
    }
  }
  PACELINE_MATH void advance() {
    if (++chunk == end) next_tile();
  }
};

}  // namespace paceline::cuda
