#pragma once
// The only list of proposer and rule names.

#include <memory>
#include <string_view>

#include "speculative/chain_verifier.h"
#include "speculative/draft_proposer.h"
#include "speculative/ngram_proposer.h"

namespace paceline {

/// What a proposer may need; unused members stay default.
struct ProposerSetup {
  NgramOptions ngram;
  Model* draft_model = nullptr;  // "draft"
  DraftOptions draft;
};

/// null for "none". Throws Error(usage) listing the names for an unknown one.
std::unique_ptr<Proposer> make_proposer(std::string_view name, const ProposerSetup& setup);

/// "auto": greedy for temperature 0, else rejection.
VerifyRule parse_rule(std::string_view name, bool greedy_sampling);

/// "first", "last", "most_frequent", "full_continuation".
NgramMatch parse_ngram_match(std::string_view name);

/// How a draft model must draw for a rule.
DraftSampling draft_sampling(VerifyRule rule);

}  // namespace paceline
