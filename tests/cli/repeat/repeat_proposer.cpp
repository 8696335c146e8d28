// A toy, to count what a proposer needs: the text goes on as its last `period` tokens did. See docs/adding.md.

#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

struct RepeatOptions {
  int period = 1;
  double share = 1;
  bool backward = false;
};

class RepeatProposer final : public Proposer {
 public:
  explicit RepeatProposer(const RepeatOptions& options) : options_(options) {}
  std::string_view name() const override { return "repeat"; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override {
    for (size_t i = 0; i < requests.size(); ++i) {
      const Sequence& seq = *requests[i].seq;
      const int period = std::min(options_.period, seq.length());
      out[i] = {.committed = seq.length(), .draft = {}, .probs = {}};
      for (int draft = 0; draft < int(options_.share * requests[i].max_drafts); ++draft) {
        const int at = options_.backward ? period - 1 - draft % period : draft % period;
        out[i].draft.add(seq.tokens[size_t(seq.length() - period + at)], draft - 1);
      }
    }
  }
  void end(const Sequence&) override {}
  void preempt(SeqId) override {}

 private:
  const RepeatOptions options_;
};

}  // namespace

ProposerEntry repeat_entry() {
  return {.name = "repeat",
          .help = "the last tokens over again",
          .defaults = RepeatOptions(),
          .options = {proposer_option("period", &RepeatOptions::period, {.min = 1, .max = 64, .unit = "tokens"},
                                      "How many of the last tokens are repeated."),
                      proposer_option("share", &RepeatOptions::share, {.min = 0, .max = 1, .above_min = true},
                                      "Part of the drafts asked for that are made."),
                      proposer_option("backward", &RepeatOptions::backward, {}, "The last token comes first.")},
          .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
            return std::make_unique<RepeatProposer>(setup.options_as<RepeatOptions>());
          }};
}

}  // namespace paceline
