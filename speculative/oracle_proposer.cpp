#include "speculative/oracle_proposer.h"

#include <algorithm>

#include "speculative/proposer_entry.h"

namespace paceline {

void KnownTexts::learn(const Sequence& seq) {
  if (seq.key == 0) return;
  std::vector<int32_t>& text = texts_[seq.key];
  if (text.size() < seq.tokens.size()) text = seq.tokens;
}

std::span<const int32_t> KnownTexts::continuation(const Sequence& seq, int max_len) const {
  const auto found = texts_.find(seq.key);
  if (found == texts_.end()) return {};
  const std::vector<int32_t>& text = found->second;
  if (text.size() <= seq.tokens.size() || !std::equal(seq.tokens.begin(), seq.tokens.end(), text.begin())) return {};
  const auto rest = std::span(text).subspan(seq.tokens.size());
  return rest.first(std::min(rest.size(), size_t(std::max(max_len, 0))));
}

void OracleProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    const auto text = texts_->continuation(seq, requests[i].max_drafts);
    std::vector<int32_t> drafts(text.begin(), text.end());
    if (drafts_ == OracleDrafts::wrong)
      for (int32_t& token : drafts) token = (token + 1) % vocab_size_;
    out[i] = {.committed = seq.length(), .draft = DraftTree::chain(std::move(drafts)), .probs = {}};
  }
}

std::shared_ptr<KnownTexts> known_texts(const ProposerSetup& setup) {
  if (setup.kept && setup.kept->has_value()) return std::any_cast<std::shared_ptr<KnownTexts>>(*setup.kept);
  auto texts = std::make_shared<KnownTexts>();
  if (setup.kept) *setup.kept = texts;
  return texts;
}

namespace {

template <OracleDrafts kDrafts>
std::unique_ptr<Proposer> make_oracle(const ProposerSetup& setup) {
  return std::make_unique<OracleProposer>(kDrafts, setup.target_vocab_size, known_texts(setup));
}

}  // namespace

ProposerEntry oracle_entry() {
  return {.name = "oracle",
          .help = "the text itself, known from warming up: the most that drafts can gain",
          .bound = DraftBound::most_gain,
          .make = make_oracle<OracleDrafts::right>};
}

ProposerEntry reject_all_entry() {
  return {.name = "reject_all",
          .help = "drafts that are all refused: the most that drafts can cost",
          .bound = DraftBound::most_cost,
          .make = make_oracle<OracleDrafts::wrong>};
}

}  // namespace paceline
