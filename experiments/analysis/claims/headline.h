#pragma once
// What a reader needs before anything else, in three sentences at most.

#include <string>
#include <vector>

namespace paceline {

class VerdictView;
struct Pick;

inline constexpr size_t kMostHeadlines = 3;
inline constexpr size_t kMostHeadlineWords = 30;

/// How far a run came that ended early; the fastest cell and its gain, or that none is shown; whether the run is valid
/// and lossless, before the gain where it is not valid; and the first of these that there is: a concurrency that was
/// not reached, goodput, saturation, over which loads speculation pays, what more ranks give, a proposer that does not
/// pay, the best cell per user and per device. None is longer than kMostHeadlineWords.
std::vector<std::string> make_headline(const VerdictView& view);

/// Of whose best cell it speaks: that under which load speculation gains most, by the lower end, else the first; null
/// without closed loops that are ranked.
const Pick* telling_pick(const VerdictView& view);

size_t num_words(const std::string& text);

}  // namespace paceline
