#include "speculative/suffix_proposer.h"

#include "speculative/proposer_entry.h"

namespace paceline {

SuffixProposer::SuffixProposer(const SuffixOptions& options, std::shared_ptr<SuffixTree> answers)
    : options_(options), answers_(std::move(answers)) {}

const SuffixTree& SuffixProposer::tree_of(const Sequence& seq) {
  const auto [found, is_new] = own_.try_emplace(seq.id, options_.depth);
  SuffixTree& tree = found->second;
  if (is_new) tree.begin_text();
  tree.append(std::span(seq.tokens).subspan(size_t(tree.num_tokens())));
  return tree;
}

void SuffixProposer::prefill(std::span<const Sequence* const> sequences) {
  for (const Sequence* const seq : sequences) tree_of(*seq);
}

void SuffixProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    out[i] = {.committed = seq.length(), .draft = {}, .probs = {}};
    if (requests[i].max_drafts == 0) continue;
    const SuffixQuery query{.max_drafts = requests[i].max_drafts,
                            .max_depth = requests[i].max_depth,
                            .factor = options_.factor,
                            .min_prob = options_.min_prob,
                            .branches = options_.branches};
    SuffixDraft own = tree_of(seq).draft(seq.tokens, query, true);
    if (answers_) {
      SuffixDraft others = answers_->draft(seq.tokens, query, false);
      if (others.sum > own.sum) own = std::move(others);
    }
    out[i].draft = seq.plan ? seq.plan->allowed(own.tree) : std::move(own.tree);
  }
}

void SuffixProposer::end(const Sequence& seq) {
  own_.erase(seq.id);
  if (!answers_ || seq.num_output() == 0) return;
  answers_->begin_text();
  answers_->append(std::span(seq.tokens).last(size_t(seq.num_output())));
  while (answers_->num_texts() > options_.requests) answers_->drop_oldest();
}

ProposerEntry suffix_entry() {
  return {
      .name = "suffix",
      .help = "what most often followed in its text and in earlier answers",
      .defaults = SuffixOptions{},
      .options = {proposer_option("depth", &SuffixOptions::depth, {.min = 2, .max = 256, .unit = "tokens"},
                                  "Longest string that is counted: the suffix looked up and its drafts."),
                  proposer_option("factor", &SuffixOptions::factor, {.min = 0, .max = 64, .above_min = true},
                                  "Tokens drafted for each token of the suffix that they continue, at most."),
                  proposer_option("min_prob", &SuffixOptions::min_prob, {.min = 0, .max = 1},
                                  "Least probability of a draft: the product of the shares along its path."),
                  proposer_option("branches", &SuffixOptions::branches, {},
                                  "Drafts trees of num_speculative_tokens nodes, the likeliest, in place of chains."),
                  proposer_choice("store", &SuffixOptions::store, {"request", "run", "warm"},
                                  "Whose text drafts come from: the request's own, also answers of the same "
                                  "repetition, or also those of earlier repetitions of the cell."),
                  proposer_option("requests", &SuffixOptions::requests, {.min = 1, .max = 1000000, .unit = "requests"},
                                  "Answers that are kept, the newest; void with store request.")},
      .remembers_texts = true,
      .form = [](const std::any& options) -> DraftForm {
        return {.width = std::any_cast<const SuffixOptions&>(options).branches ? 2 : 1, .option = "branches"};
      },
      .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
        const auto& options = setup.options_as<SuffixOptions>();
        std::shared_ptr<SuffixTree> answers;
        if (options.store == SuffixStore::warm && setup.kept) {
          if (!setup.kept->has_value()) *setup.kept = std::make_shared<SuffixTree>(options.depth);
          answers = std::any_cast<std::shared_ptr<SuffixTree>>(*setup.kept);
        } else if (options.store != SuffixStore::request) {
          answers = std::make_shared<SuffixTree>(options.depth);
        }
        return std::make_unique<SuffixProposer>(options, std::move(answers));
      }};
}

}  // namespace paceline
