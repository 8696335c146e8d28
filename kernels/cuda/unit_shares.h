#pragma once
// Who takes which part of a product's weights, and in which order. A unit is one tile of outputs, or two side by side;
// a team of warps takes it in stages.

#include "kernels/math/ceil_div.h"
#include "kernels/math/elementary.h"

namespace paceline::cuda {

struct UnitShares {
  int unit_stages;
  int teams;
  int turns, over;  // units / teams, and what is left of them
  bool cuts;        // which is cut in two

  /// units, unit_stages, teams >= 1. may_cut: whether what is left over may be shared by two teams each; it is where
  /// that leaves nobody with more than half a unit above the turns.
  static UnitShares of(int units, int unit_stages, int teams, bool may_cut) {
    const int turns = units / teams, over = units % teams;
    return {.unit_stages = unit_stages,
            .teams = teams,
            .turns = turns,
            .over = over,
            .cuts = may_cut && turns > 0 && unit_stages > 1 && 2 * over <= teams};
  }
};

using math::ceil_div;

/// What a launch may have.
struct BlockLimits {
  int most_blocks;  // as many as run at once
  int block_teams;
  bool may_cut;  // as in UnitShares::of
};
/// Blocks for a product of few turns: as few as most_blocks would take turns in, if that saves a tenth, so that blocks
/// of the norm before it do not hold up its own, and those of the next kernel find room beside them. With many turns
/// that costs more than it gives. attention_follows: whole turns even where cut units would need less than one more, as
/// attention fetches old keys in the room that this leaves.
inline int blocks_with_room(int units, int unit_stages, const BlockLimits& limits, bool attention_follows) {
  constexpr int kMostTurns = 4;
  const int teams = limits.most_blocks * limits.block_teams, turns = ceil_div(units, teams);
  const int fewest = ceil_div(ceil_div(units, turns), limits.block_teams);
  if (turns == 1) return fewest;
  const bool cuts = UnitShares::of(units, unit_stages, teams, limits.may_cut).cuts;
  const bool may_be_whole = !cuts || (attention_follows && turns == 2);
  return may_be_whole && turns <= kMostTurns && fewest <= limits.most_blocks * 9 / 10 ? fewest : limits.most_blocks;
}

/// A team's stages in the order in which it takes them. Teams take units in turn. Of those that are left over when
/// there are not enough for another turn each may be cut in two: the team that has the first half takes it before all
/// else, the one that has the second half, team number + over, after all else, so that nobody waits for sums.
struct Walk {
  int unit_stages;
  int stride;                 // teams
  int whole, num_whole;       // units to come that are the team's alone
  int last_unit, last_stage;  // where the piece begins that comes last
  int left;                   // stages
  int unit, stage;            // now
  int stop;                   // of the unit's stages: where this piece of it ends

  PACELINE_MATH Walk(const UnitShares& shares, int team)
      : unit_stages(shares.unit_stages), stride(shares.teams), whole(team), num_whole(shares.turns) {
    const int over = shares.over, first_over = num_whole * stride, half = unit_stages / 2;
    const bool begins = shares.cuts && team < over, ends = shares.cuts && team >= over && team < 2 * over;
    if (!shares.cuts && team < over) ++num_whole;
    last_unit = first_over + team - over, last_stage = half;
    left = num_whole * unit_stages + (begins ? half : ends ? unit_stages - half : 0);
    if (begins)
      unit = first_over + team, stage = 0, stop = half;
    else
      next_piece();
  }
  PACELINE_MATH void next_piece() {
    stop = unit_stages;
    if (num_whole > 0) {
      unit = whole, stage = 0;
      whole += stride;
      --num_whole;
    } else {
      unit = last_unit, stage = last_stage;
    }
  }
  /// Whether a piece begins.
  PACELINE_MATH bool advance() {
    --left;
    if (++stage < stop) return false;
    next_piece();
    return true;
  }
};

}  // namespace paceline::cuda
