// The shipped list and one proposer more.

#include "speculative/proposer_entry.h"

#define proposer_list shipped_proposer_list
#include "speculative/proposer_list.cpp"
#undef proposer_list

namespace paceline {

ProposerEntry repeat_entry();

const std::vector<ProposerEntry>& proposer_list() {
  static const std::vector<ProposerEntry> kList = [] {
    std::vector<ProposerEntry> list = shipped_proposer_list();
    list.push_back(repeat_entry());
    return list;
  }();
  return kList;
}

}  // namespace paceline
