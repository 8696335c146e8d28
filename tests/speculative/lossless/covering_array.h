#pragma once
// Pairwise covering arrays: few rows in which every pair of values of every two factors occurs (greedy construction
// after Cohen, Dalal, Fredman, Patton, "The AETG system", 1997).

#include <cstdint>
#include <vector>

namespace paceline::test {

/// Rows of value indices, one per factor; the same rows for the same seed on every machine.
std::vector<std::vector<int>> covering_array(const std::vector<int>& num_values, uint64_t seed);

/// Pairs of values of different factors that no row holds.
int64_t num_missing_pairs(const std::vector<int>& num_values, const std::vector<std::vector<int>>& rows);

}  // namespace paceline::test
