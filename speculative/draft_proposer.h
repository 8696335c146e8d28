#pragma once
// A second, smaller model drafts (Leviathan et al. 2023, section 2): chains, or trees level by level. Owns its
// BlockPool and, per sequence, the knowledge of which tokens its cache was fed.

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "engine/speculation.h"

namespace paceline {

/// How drafts are drawn; must match what the verifier's rule expects of them. Greedy requests always draft argmax.
enum class DraftSampling : uint8_t {
  argmax,        // certain: any rule
  shared_noise,  // coupled rule: the target's own noise for the position
  own_noise,     // rejection and block rule: purpose draft, probabilities kept
};
/// What users choose, for requests that sample.
enum class DraftDraws : uint8_t {
  own,     // from the draft model's distribution, with the noise that the rule wants
  argmax,  // its most likely token: vLLM's default
};
/// The options of the proposer "draft". Trees where width > 1: as GrowthLimits, of num_speculative_tokens nodes. They
/// hold the most likely tokens, whatever `sampling` says.
struct DraftModelOptions {
  DraftDraws sampling = DraftDraws::own;
  int width = 1;
  int depth = 6;
};

struct DraftOptions {
  DraftSampling sampling = DraftSampling::argmax;
  BlockPoolOptions pool;
  int max_num_seqs = 1;
  int max_num_rows = 512;  // rows of one pass: catch-up is chunked under it
  int max_draft_len = 8;
  int vocab_size = 0;         // ids at and beyond are never drafted: min of both vocabularies
  int target_vocab_size = 0;  // columns of the probabilities handed to the verifier
  int width = 1, depth = 6;   // as DraftModelOptions

  bool branches() const { return width > 1; }
  /// Nodes of a tree that may get children: each has a row, and KV until the next proposal.
  int max_parents() const { return std::min(kMaxDraftLen, width * (depth - 1)); }
};

DraftSampling draft_sampling(VerifyRule rule, DraftDraws draws);

struct ProposerSetup;
/// Of the proposer "draft".
DraftOptions draft_options(const ProposerSetup& setup);

/// What own_noise takes on the rank that samples.
size_t draft_probs_bytes(const DraftOptions& options);

class DraftProposer final : public Proposer {
 public:
  /// The model outlives the proposer and is used by nobody else meanwhile.
  DraftProposer(Model& model, const DraftOptions& options);
  ~DraftProposer() override;
  std::string_view name() const override { return "draft"; }
  bool branches() const override { return options_.branches(); }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void prefill(std::span<const Sequence* const> sequences) override;
  void end(const Sequence& seq) override { drop(seq.id); }
  void preempt(SeqId seq) override { drop(seq); }
  ProposerStats stats() const override { return stats_; }
  const BlockPool& pool() const { return pool_; }

 private:
  /// What the cache holds beyond its committed length: drafts fed in the last proposal. Node i lies in the slot of
  /// position begin + i.
  struct Fed {
    int begin = 0;  // position of the first
    DraftTree drafts;
  };
  /// One sequence in the proposal under way.
  struct Active {
    const Sequence* seq = nullptr;
    size_t request = 0;
    int draft_len = 0;    // nodes
    int max_depth = 0;    // levels
    int max_parents = 0;  // of a tree: nodes that may be fed
    int next_row = 0;     // first position not yet fed
    bool reset = true;    // SeqState must be set up by the next batch
  };

  /// Its cache and what it was fed.
  void drop(SeqId seq);
  std::vector<Active> select(std::span<const DraftRequest> requests);
  int settle_cache(const Sequence& seq);
  void move_kept();
  void draft_chains(std::vector<Active>& active, std::span<Proposal> out);
  void draft_trees(std::vector<Active>& active, std::span<Proposal> out);
  std::vector<int> feed_known(std::vector<Active>& active);
  void likeliest(const LogitEdits& edits, std::span<int32_t> tokens, std::span<float> probs);
  void catch_up(std::vector<Active>& active, int max_left);
  void next_pass(const std::vector<Active>& active, int index);
  void feed(Batch& batch, Active& active, int end) const;
  void sample(const std::vector<Active>& active, int index, const std::vector<int>& known_rows);
  void await_draws();
  std::shared_ptr<Batch> new_batch();
  /// Row of probs_ with the distribution of draft `index` of the sequence in `slot`. By slot, since verdicts on other
  /// micro-batches may be on their way while these are drafted.
  int32_t probs_row(int32_t slot, int index) const { return index * options_.max_num_seqs + slot; }
  int32_t* drafted_of_pass(int index) { return drafted_.data() + size_t(index) * size_t(options_.max_num_seqs); }

  Model& model_;
  const DraftOptions options_;
  BlockPool pool_;
  std::unordered_map<SeqId, Fed> fed_;
  std::vector<SlotMove> moves_;   // that settle_cache has asked for
  Backend* backend_ = nullptr;    // of the rank that samples
  float* probs_ = nullptr;        // [max_draft_len, max_num_seqs, target_vocab] in its memory, with own_noise
  std::vector<int32_t> drafted_;  // [max_draft_len, max_num_seqs]: of a pass, those of its sequences side by side
  uint64_t next_step_ = 1;
  ProposerStats stats_;
};

}  // namespace paceline
