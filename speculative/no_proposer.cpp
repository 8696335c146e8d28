// Plain decoding: a step without drafts.

#include "speculative/proposer_entry.h"

namespace paceline {

ProposerEntry no_entry() { return {.name = kNoProposer, .help = "nobody"}; }

}  // namespace paceline
