#include "speculative/factory.h"

namespace paceline {

std::unique_ptr<Proposer> make_proposer(std::string_view name, const ProposerSetup& setup) {
  if (name == "none") return nullptr;
  if (name == "ngram") return std::make_unique<NgramProposer>(setup.ngram);
  if (name == "draft") {
    PACELINE_CHECK(setup.draft_model != nullptr, "proposer draft without a model");
    return std::make_unique<DraftProposer>(*setup.draft_model, setup.draft);
  }
  fail(ExitCode::usage, "speculation.proposer: found \"{}\", expected none, ngram or draft", name);
}

VerifyRule parse_rule(std::string_view name, bool greedy_sampling) {
  if (name == "auto") return greedy_sampling ? VerifyRule::greedy : VerifyRule::rejection;
  if (name == "greedy") return VerifyRule::greedy;
  if (name == "rejection") return VerifyRule::rejection;
  if (name == "coupled") return VerifyRule::coupled;
  fail(ExitCode::usage, "speculation.verifier.rule: found \"{}\", expected auto, greedy, rejection or coupled", name);
}

NgramMatch parse_ngram_match(std::string_view name) {
  if (name == "first") return NgramMatch::first;
  if (name == "last") return NgramMatch::last;
  if (name == "most_frequent") return NgramMatch::most_frequent;
  if (name == "full_continuation") return NgramMatch::full_continuation;
  fail(ExitCode::usage,
       "speculation.ngram.match: found \"{}\", expected first, last, most_frequent or full_continuation", name);
}

DraftSampling draft_sampling(VerifyRule rule) {
  switch (rule) {
    case VerifyRule::coupled: return DraftSampling::shared_noise;
    case VerifyRule::rejection: return DraftSampling::own_noise;
    case VerifyRule::greedy:
    case VerifyRule::forced: return DraftSampling::argmax;
  }
  return DraftSampling::argmax;
}

}  // namespace paceline
