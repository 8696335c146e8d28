#pragma once
// Prompt lookup: the longest suffix of the text that occurs earlier is continued as it went on there.
// Policies of the field side by side: docs/speculation.md.

#include <span>
#include <vector>

#include "engine/speculation.h"

namespace paceline {

/// Which earlier occurrence is continued.
enum class NgramMatch : uint8_t {
  first,              // longest n, leftmost occurrence (vLLM)
  last,               // longest n, latest occurrence (llama.cpp ngram-simple)
  most_frequent,      // longest n, the continuation token seen most often; its latest occurrence
  full_continuation,  // n from max to min: leftmost occurrence that max_len tokens follow (Saxena's prompt lookup)
};

struct NgramOptions {
  int min_n = 2;
  int max_n = 4;
  NgramMatch match = NgramMatch::last;
};

/// At most max_len tokens that followed the matched occurrence, fewer near the end of `tokens`; empty without a
/// match of at least min_n. The occurrence may overlap the suffix itself, never equal it. Linear in tokens.size().
std::vector<int32_t> ngram_continuation(std::span<const int32_t> tokens, int max_len, const NgramOptions& options);

class NgramProposer final : public Proposer {
 public:
  explicit NgramProposer(const NgramOptions& options) : options_(options) {}
  std::string_view name() const override { return "ngram"; }
  ProposerSide side() const override { return ProposerSide::host; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void end(const Sequence&) override {}
  void preempt(SeqId) override {}

 private:
  const NgramOptions options_;
};

}  // namespace paceline
