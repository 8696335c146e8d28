#include "speculative/synthetic_proposer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/util/suggest.h"
#include "kernels/fnv1a.h"
#include "kernels/mix64.h"
#include "speculative/cascade_proposer.h"
#include "speculative/proposer_entry.h"

namespace paceline {

std::vector<double> stated_rates(std::string_view text) {
  std::vector<double> rates;
  for (const std::string_view part : split_at_commas(text)) {
    double rate = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), rate);
    if (error != std::errc() || end != part.data() + part.size() || !(rate >= 0 && rate <= 1)) return {};
    rates.push_back(rate);
  }
  return rates;
}

namespace {

/// A number from 0 to 1 of each bit pattern, neighbours far apart.
double uniform_of(uint64_t bits) { return double(mix64(bits) >> 11) * 0x1p-53; }

}  // namespace

int StatedAcceptance::next(int64_t key, int committed, int num_drafts) {
  int right = 0;
  if (rates_.empty()) {
    const double extra = acceptance_length_ - 1.0;
    const auto total = [&](int64_t steps) { return int64_t(std::floor(double(steps) * extra + 1e-9)); };
    right = int(total(num_steps_ + 1) - total(num_steps_));
    ++num_steps_;
    return std::min(right, num_drafts);
  }
  for (; right < num_drafts; ++right) {
    Fnv1a hash;
    for (const int64_t part : {key, int64_t{committed}, int64_t{right}}) hash.add(&part, sizeof part);
    if (uniform_of(hash.value()) >= rates_[std::min(size_t(right), rates_.size() - 1)]) break;
  }
  return right;
}

SyntheticProposer::SyntheticProposer(StatedAcceptance acceptance, int vocab_size, std::shared_ptr<KnownTexts> texts,
                                     std::unique_ptr<Proposer> costs)
    : ProposerDecorator(std::move(costs)),
      acceptance_(std::move(acceptance)),
      vocab_size_(vocab_size),
      texts_(std::move(texts)) {}

void SyntheticProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  inner().propose(requests, out);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    const auto text = texts_->continuation(seq, requests[i].max_drafts);
    std::vector<int32_t> drafts(text.begin(), text.end());
    const int right = drafts.empty() ? 0 : acceptance_.next(seq.key, seq.length(), int(drafts.size()));
    for (size_t j = size_t(right); j < drafts.size(); ++j) drafts[j] = (drafts[j] + 1) % vocab_size_;
    out[i] = {.committed = seq.length(), .draft = DraftTree::chain(std::move(drafts)), .probs = {}};
  }
}

void SyntheticProposer::end(const Sequence& seq) {
  texts_->learn(seq);
  inner().end(seq);
}

namespace {

std::optional<OptionConflict> fault_of_statement(const SyntheticOptions& options) {
  const auto refuse = [](std::string_view option, std::string message) {
    return OptionConflict{
        .option = option, .involved = {"acceptance_length", "rates", "costs"}, .message = std::move(message)};
  };
  if ((options.acceptance_length > 0) == !options.rates.empty())
    return refuse(
        "acceptance_length",
        "proposer synthetic needs one of speculation.synthetic.acceptance_length (mean tokens of a step, from "
        "1) and speculation.synthetic.rates (\"0.8, 0.65\")");
  if (options.rates.empty() && options.acceptance_length < 1)
    return refuse("acceptance_length", fmt::format("speculation.synthetic.acceptance_length {}: a step has at least 1 "
                                                   "token",
                                                   options.acceptance_length));
  if (!options.rates.empty() && stated_rates(options.rates).empty())
    return refuse("rates",
                  fmt::format("speculation.synthetic.rates: found \"{}\", expected numbers from 0 to 1, apart by "
                              "commas",
                              options.rates));
  if (options.costs.empty()) return std::nullopt;
  std::vector<std::string> known;
  for (const ProposerEntry& entry : proposer_list())
    if (entry.drafts() && !entry.stages && !entry.knows_texts()) known.emplace_back(entry.name);
  if (std::find(known.begin(), known.end(), options.costs) != known.end()) return std::nullopt;
  return refuse("costs", fmt::format("speculation.synthetic.costs: found \"{}\"{}, expected {}", options.costs,
                                     did_you_mean(options.costs, known), fmt::join(known, ", ")));
}

}  // namespace

ProposerEntry synthetic_entry() {
  return {
      .name = "synthetic",
      .help = "the text itself, right as often as stated",
      .defaults = SyntheticOptions{},
      .options = {proposer_option(
                      "acceptance_length", &SyntheticOptions::acceptance_length,
                      {.min = 0, .max = 65, .unit = "tokens"},
                      "Mean tokens of a step with drafts, bonus included: from 1, all refused, to k + 1; 0: "
                      "rates says it."),
                  proposer_text("rates", &SyntheticOptions::rates,
                                "Shares of steps that keep the draft at position 1, 2, … where they kept all before, "
                                "apart by commas; the last goes for all behind."),
                  proposer_text("costs", &SyntheticOptions::costs,
                                "The proposer that drafts beside it, so that its cost is paid; empty: none.")},
      .bound = DraftBound::stated,
      .stages = [](const std::any& options) -> std::vector<std::string_view> {
        const auto& costs = std::any_cast<const SyntheticOptions&>(options).costs;
        return costs.empty() ? std::vector<std::string_view>{} : std::vector<std::string_view>{costs};
      },
      .find_conflict =
          [](const std::any& options) { return fault_of_statement(std::any_cast<const SyntheticOptions&>(options)); },
      .most_tokens = [](const std::any& options) -> std::optional<double> {
        return std::any_cast<const SyntheticOptions&>(options).acceptance_length;
      },
      .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
        const auto& options = setup.options_as<SyntheticOptions>();
        ProposerSetup own = setup;
        own.kept = setup.kept ? kept_of_stage(*setup.kept, "synthetic") : nullptr;
        std::unique_ptr<Proposer> costs;
        if (setup.stages.empty())
          costs = std::make_unique<CascadeProposer>(std::vector<std::unique_ptr<Proposer>>(), 0);
        else
          costs = make_stage(setup, setup.stages.front());
        return std::make_unique<SyntheticProposer>(
            StatedAcceptance(options.acceptance_length, stated_rates(options.rates)), setup.target_vocab_size,
            known_texts(own), std::move(costs));
      }};
}

}  // namespace paceline
