#pragma once
// Who takes which chunks of a product's weights where a team takes whole tiles of outputs in turn, and what is left
// over when there are not enough for another turn is cut at the borders of strict chunks, or into narrow tiles. (The
// idea of Stream-K, Osama et al. 2023; only sums of whole subtrees change hands, so that the order of additions stays.)

#include <algorithm>
#include <bit>

#include <climits>

#include "kernels/math/ceil_div.h"
#include "kernels/math/divisor.h"
#include "kernels/math/elementary.h"
#include "kernels/op_args.h"

namespace paceline::cuda {

/// Chunks of a piece, at most: a piece is one chunk, or 2 or 4 whose sum is a subtree of the tile's. Fewer than a whole
/// tile's: half of that waits where a block keeps rows of its last piece.
inline constexpr int kMostPieceChunks = 4;
static_assert(kMostPieceChunks < kStrictChunks);

/// Of the piece that begins at `chunk` of a tile, where its team takes the chunks up to `end`.
PACELINE_MATH constexpr int piece_chunks(int chunk, int end) {
  int count = 1;
  while (count < kMostPieceChunks && (chunk & (2 * count - 1)) == 0 && chunk + 2 * count <= end) count *= 2;
  return count;
}
/// Bit c: a piece begins at chunk c, for a team that takes chunks [begin, end).
PACELINE_MATH constexpr unsigned pieces_of(int begin, int end) {
  unsigned pieces = 0;
  for (int chunk = begin; chunk < end; chunk += piece_chunks(chunk, end)) pieces |= 1u << chunk;
  return pieces;
}

/// Places for sums, for each multiprocessor at most: one of each item.
inline constexpr size_t kSplitPlacesOfBlock = kStrictChunks;

/// A tile's outputs are quarters. A narrow tile lacks one, or two where it is made of what is left over: it takes as
/// many rows and instructions as another.
inline constexpr int kTileQuarters = 4, kNarrowQuarters = 3;

/// Tiles are numbered; the first `whole` are taken as a whole, in turns. The chunks of those left over, one after
/// another, are items, of which each team takes `share` side by side, as long as there are any: fewer than the chunks
/// of a tile, as else some teams take one more whole tile.
struct SplitShares {
  int chunks;  // of a tile: 1, 2, 4 or 8
  int teams;
  int whole;
  int over;                   // tiles left over
  int share;                  // items of a team, at most
  int width = kTileQuarters;  // of the tiles before first_narrow
  int first_narrow = INT_MAX;
  int wider = 0;  // of the narrow ones, which have kNarrowQuarters and come first; the others have one less
  // of these
  int chunk_bits = std::countr_zero(unsigned(chunks));
  math::Divisor by_share{share};
  int fewest_sharers = math::ceil_div(chunks, share);  // of a tile; others have one more
  math::Divisor by_sharers[2] = {math::Divisor(fewest_sharers), math::Divisor(fewest_sharers + 1)};

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
  /// As of(), or with narrow tiles of the same outputs, which spare sums that change hands, as long as no team gets
  /// more outputs x chunks. Those left over behind whole tiles make a narrow one for each team; and where nothing but
  /// shares is taken, all tiles are narrow if only then shares are halves or quarters of them.
  static SplitShares with_narrow(int tiles, int chunks, int most_teams) {
    const SplitShares plain = of(tiles, chunks, most_teams);
    if (plain.over == 0) return plain;
    const int most = plain.share * kTileQuarters;  // of what a team has of those left over, x chunks
    if (plain.whole == 0) {
      const int number = math::ceil_div(tiles * kTileQuarters, kNarrowQuarters);
      const SplitShares narrow = of(number, chunks, most_teams, kNarrowQuarters);
      const bool is_better = chunks % plain.share != 0 && narrow.whole == 0 && chunks % narrow.share == 0;
      return is_better && narrow.share * kNarrowQuarters <= most ? narrow : plain;
    }
    const int teams = plain.teams, quarters = plain.over * kTileQuarters;
    if (math::ceil_div(quarters, teams) != kNarrowQuarters || kNarrowQuarters * chunks > most) return plain;
    return {.chunks = chunks,
            .teams = teams,
            .whole = plain.whole + teams,
            .over = 0,
            .share = 1,
            .first_narrow = plain.whole,
            .wider = quarters - teams * (kNarrowQuarters - 1)};
  }
  /// Of a tile's outputs, in quarters of a tile.
  struct Outputs {
    int first, count;
  };
  PACELINE_MATH Outputs outputs(int tile) const {
    if (tile < first_narrow) return {tile * width, width};
    const int narrow = tile - first_narrow, wider_before = narrow < wider ? narrow : wider;
    return {first_narrow * width + narrow * (kNarrowQuarters - 1) + wider_before,
            narrow < wider ? kNarrowQuarters : kNarrowQuarters - 1};
  }
  PACELINE_MATH int items() const { return over * chunks; }
  /// Whether a block may keep sums in shared memory that its last piece leaves there: whole tiles would need the room.
  PACELINE_MATH bool keeps_last_piece() const { return whole == 0; }
  /// Of those left over, the one that an item belongs to, and the team that has it.
  PACELINE_MATH int tile_over(int item) const { return item >> chunk_bits; }
  PACELINE_MATH int team_of(int item) const { return by_share.quotient(item); }
  PACELINE_MATH int first_item(int team) const { return team * share < items() ? team * share : items(); }

  /// Of a team that has items: the tile left over of which it has the last ones, and where its last piece begins there.
  struct Piece {
    int index, chunk;
  };
  PACELINE_MATH Piece last_piece(int team) const {
    const int begin = first_item(team), stop = first_item(team + 1), index = tile_over(stop - 1);
    int chunk = begin > index * chunks ? begin - index * chunks : 0;
    const int end = stop - index * chunks;
    while (chunk + piece_chunks(chunk, end) < end) chunk += piece_chunks(chunk, end);
    return {index, chunk};
  }

  /// The teams that share a tile that is left over, the index-th of those.
  struct Sharers {
    int first, count;
  };
  PACELINE_MATH Sharers sharers(int index) const {
    const int first = team_of(index * chunks), last = team_of((index + 1) * chunks - 1);
    return {first, last - first + 1};
  }
  /// Rows of that tile, in tiles of 8, of which there are row_tiles, that one of its sharers finishes.
  struct Rows {
    int begin, end;
  };
  PACELINE_MATH Rows finished_by(int team, int index, int row_tiles) const {
    const Sharers of = sharers(index);
    const int number = team - of.first;
    const math::Divisor by_count = by_sharers[of.count - fewest_sharers];
    return {by_count.quotient(row_tiles * number), by_count.quotient(row_tiles * (number + 1))};
  }
  /// Bit c: a piece of that tile begins at chunk c.
  PACELINE_MATH unsigned pieces(int index) const {
    unsigned all = 0;
    for (int begin = 0; begin < chunks;) {
      const int rest = first_item(team_of(index * chunks + begin) + 1) - index * chunks;
      const int end = rest < chunks ? rest : chunks;
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
      const int index = shares.tile_over(item);
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
