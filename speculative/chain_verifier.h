#pragma once
// Verification of drafts by the accept op; the formulas are kernels/math/accept.h.

#include <deque>

#include "engine/speculation.h"
#include "speculative/verify_rule.h"

namespace paceline {

struct VerifierOptions {
  VerifyRule rule = VerifyRule::greedy;  // greedy: of greedy requests alone, which every rule judges so
};

class ChainVerifier final : public Verifier {
 public:
  explicit ChainVerifier(const VerifierOptions& options) : options_(options) {}
  std::string_view rule_name() const override { return rule_word(options_.rule); }
  bool takes_branches() const override { return !takes_only_chains(options_.rule); }
  Ticket launch(std::shared_ptr<const Batch> batch, Model& target, std::vector<VerifyRow> rows) override;
  std::vector<Verdict> collect(Ticket ticket) override;
  double seconds() const override { return seconds_; }

 private:
  struct Step {
    std::shared_ptr<const Batch> batch;
    Model* target = nullptr;
    std::vector<VerifyRow> rows;
    std::vector<AcceptRow> windows;  // of each of `rows`
    std::vector<AcceptResult> results;
    std::vector<std::vector<float>> raw_rows;  // of each of `rows` that wants them, those of its window, or empty
    uint64_t draw = 0;                         // number of the accept call; 0: the backend completes such calls at once
    bool is_later = false;                     // SeqState has been told of tokens in cells
    std::vector<Verdict> verdicts;
    Ticket ticket;

    /// The results come with collect().
    bool is_awaited() const { return is_later && draw > 0; }
    int32_t slot(size_t row) const { return batch->seqs[rows[row].batch_seq].seq; }
  };

  void run(Step& step, Rank& rank);
  void make_verdicts(Step& step);
  static void keep_raw_rows(Step& step, const Logits& logits, Backend& backend);
  void add_logprobs(Step& step, const Logits& logits, Backend& backend);

  const VerifierOptions options_;
  std::deque<std::shared_ptr<Step>> in_flight_;  // shared with the jobs that fill them in
  double seconds_ = 0.0;
};

}  // namespace paceline
