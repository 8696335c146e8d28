#pragma once
// Drafts of stated quality: how good would drafts have to be? The text is known from an earlier pass over the same
// requests, so each step gets as many right drafts as stated and wrong ones behind them: acceptance is set by hand, the
// text stays the model's, and what another proposer's drafting costs can be paid.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "speculative/oracle_proposer.h"
#include "speculative/proposer_decorator.h"

namespace paceline {

struct SyntheticOptions {
  double acceptance_length = 0;  // mean tokens of a step, bonus included; 0: `rates`
  std::string rates = {};        // of position 1, 2, …: the share that keeps a draft there, once all before are kept
  std::string costs = {};        // the proposer that drafts in earnest, and in vain; empty: none
};

/// "0.8, 0.65": numbers from 0 to 1, at least one; empty where the text is something else.
std::vector<double> stated_rates(std::string_view text);

/// How many drafts of a step are right.
class StatedAcceptance {
 public:
  /// rates: as stated_rates(), the last also for positions behind; empty: acceptance_length, kept as a running mean
  /// with the least variance from step to step.
  StatedAcceptance(double acceptance_length, std::vector<double> rates)
      : acceptance_length_(acceptance_length), rates_(std::move(rates)) {}

  /// Of the next step, behind `committed` verified tokens of request `key`; at most num_drafts. By rates it depends on
  /// these numbers alone.
  int next(int64_t key, int committed, int num_drafts);

 private:
  const double acceptance_length_;
  const std::vector<double> rates_;
  int64_t num_steps_ = 0;
};

class SyntheticProposer final : public ProposerDecorator {
 public:
  /// costs: drafts in vain; a cascade without stages costs nothing.
  SyntheticProposer(StatedAcceptance acceptance, int vocab_size, std::shared_ptr<KnownTexts> texts,
                    std::unique_ptr<Proposer> costs);

  std::string_view name() const override { return "synthetic"; }
  bool branches() const override { return false; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void end(const Sequence& seq) override;

 private:
  StatedAcceptance acceptance_;
  const int vocab_size_;
  const std::shared_ptr<KnownTexts> texts_;
};

}  // namespace paceline
