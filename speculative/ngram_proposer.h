#pragma once
// Prompt lookup: the longest suffix of the text that occurs earlier is continued as it went on there; where none does,
// one that occurs in a corpus. Policies of the field side by side: docs/speculation.md.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/speculation.h"
#include "speculative/ngram_corpus.h"

namespace paceline {

/// Which earlier occurrence is continued.
enum class NgramMatch : uint8_t {
  first,              // longest n, leftmost occurrence (vLLM)
  last,               // longest n, latest occurrence (llama.cpp ngram-simple)
  most_frequent,      // longest n, the continuation token seen most often; its latest occurrence
  full_continuation,  // n from max to min: leftmost occurrence that max_len tokens follow (Saxena's prompt lookup)
  tree,               // longest n, all occurrences: the tree of their most frequent continuations
};

/// Whose n and match.
enum class NgramPolicy : uint8_t { own, vllm, llama_cpp, transformers, spec_bench };

struct NgramOptions {
  int min_n = 2;
  int max_n = 4;
  NgramMatch match = NgramMatch::last;
  NgramPolicy policy = NgramPolicy::own;  // another one's sets the three above
  std::string corpus = {};                // file of a TokenCorpus; empty: none
};

/// What `options` come to: with their policy's n and match.
NgramOptions effective(const NgramOptions& options);

/// At most max_len tokens that followed the matched occurrence, fewer near the end of `tokens`; empty without a
/// match of at least min_n. The occurrence may overlap the suffix itself, never equal it. Linear in tokens.size().
/// REQUIRES options.policy own and a match other than tree.
std::vector<int32_t> ngram_continuation(std::span<const int32_t> tokens, int max_len, const NgramOptions& options);

/// At most max_nodes tokens in max_depth levels: the likeliest paths behind all occurrences of the longest suffix of
/// min_n to max_n tokens. A path is as likely as the share of them that goes on so; of two alike, the one that occurs
/// first. Scores are shares of the parent's. REQUIRES options.policy own.
DraftTree ngram_tree(std::span<const int32_t> tokens, int max_nodes, int max_depth, const NgramOptions& options);

/// What follows the longest suffix of `text` in a corpus: a chain, or with match tree a tree. Of a suffix that occurs
/// more often than 4,096 times, so many occurrences are looked at. REQUIRES options.policy own.
DraftTree corpus_drafts(const NgramCorpus& corpus, std::span<const int32_t> text, int max_nodes, int max_depth,
                        const NgramOptions& options);

class NgramProposer final : public Proposer {
 public:
  /// corpus: made for suffixes of effective(options).max_n tokens; null: none.
  explicit NgramProposer(const NgramOptions& options, std::shared_ptr<const NgramCorpus> corpus = nullptr)
      : options_(effective(options)), corpus_(std::move(corpus)) {}
  std::string_view name() const override { return "ngram"; }
  bool branches() const override { return options_.match == NgramMatch::tree; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void end(const Sequence&) override {}
  void preempt(SeqId) override {}

 private:
  const NgramOptions options_;
  const std::shared_ptr<const NgramCorpus> corpus_;
};

}  // namespace paceline
