// The list of proposers, a line each: NAME for the function NAME_entry(), with which a file *_proposer.cpp ends.

#include "speculative/proposer_entry.h"

// clang-format off
#define ENTRIES(e) \
  e(no)            \
  e(ngram)         \
  e(draft)         \
  e(eagle3)        \
  e(suffix)        \
  e(cascade)       \
  e(oracle)        \
  e(reject_all)    \
  e(synthetic)     \
  e(replay)
// clang-format on

namespace paceline {

#define PACELINE_DECLARED(name) ProposerEntry name##_entry();
#define PACELINE_LISTED(name) name##_entry(),

ENTRIES(PACELINE_DECLARED)

const std::vector<ProposerEntry>& proposer_list() {
  static const std::vector<ProposerEntry> kList = {ENTRIES(PACELINE_LISTED)};
  return kList;
}

#undef PACELINE_DECLARED
#undef PACELINE_LISTED

}  // namespace paceline

#undef ENTRIES
