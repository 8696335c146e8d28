#include "speculative/chain_verifier.h"

#include <chrono>
#include <cmath>

#include "engine/comm/work_scope.h"

namespace paceline {

std::string_view ChainVerifier::rule_name() const {
  switch (options_.rule) {
    case VerifyRule::greedy: return "greedy";
    case VerifyRule::rejection: return "rejection";
    case VerifyRule::coupled: return "coupled";
    case VerifyRule::forced: return "forced";
  }
  return "?";
}

Ticket ChainVerifier::launch(std::shared_ptr<const Batch> batch, Model& target, std::vector<VerifyRow> rows) {
  auto step = std::make_unique<Step>(
      Step{.batch = std::move(batch), .target = &target, .rows = std::move(rows), .verdicts = {}, .ticket = {}});
  step->ticket = target.post([this, raw = step.get()](Rank& rank) { run(*raw, rank); });
  const Ticket ticket = step->ticket;
  in_flight_.push_back(std::move(step));
  return ticket;
}

// Keeps the running mean of emitted tokens at the forced length, with the least variance per step.
int ChainVerifier::forced_accept() {
  const double extra = options_.forced_acceptance_length - 1.0;
  const auto total = [&](int64_t steps) { return int64_t(std::floor(double(steps) * extra + 1e-9)); };
  const int accepted = int(total(num_forced_ + 1) - total(num_forced_));
  ++num_forced_;
  return accepted;
}

void ChainVerifier::run(Step& step, Rank& rank) {
  const auto start = std::chrono::steady_clock::now();
  SeqState& state = step.target->state();
  const size_t count = step.rows.size();
  std::vector<AcceptRow> rows(count);
  std::vector<std::vector<int32_t>> drafts(count);
  for (size_t i = 0; i < count; ++i) {
    const VerifyRow& wanted = step.rows[i];
    const SeqSlot& slot = state[step.batch->seqs[wanted.batch_seq].seq];
    if (wanted.deferred) {
      drafts[i].assign(
          slot.draft.begin(),
          slot.draft.begin() + std::min<int>(slot.num_drafts, step.batch->seqs[wanted.batch_seq].num_drafts));
    } else {
      PACELINE_CHECK(wanted.proposal.token.empty() || wanted.proposal.committed == slot.length,
                     "request {}: drafts made for {} verified tokens, it has {}", wanted.request,
                     wanted.proposal.committed, slot.length);
      drafts[i] = wanted.proposal.token;
    }
    rows[i] = {.logits_row = wanted.first_logit,
               .draft_len = int32_t(drafts[i].size()),
               .draft = drafts[i].data(),
               .kind = wanted.proposal.probs.kind,
               .draft_prob = wanted.proposal.probs.value,
               .first_position = slot.length,
               .params = wanted.sampler,
               .rule = options_.rule};
    if (options_.rule == VerifyRule::forced && !drafts[i].empty()) rows[i].forced_accept = forced_accept();
  }
  std::vector<AcceptResult> results(count);
  const Logits logits = step.target->logits();
  if (count > 0) {
    const WorkScope work(rank, WorkKind::decide);
    rank.backend->accept({.logits = logits.rows, .vocab_size = logits.vocab_size, .rows = rows, .result = results});
  }
  step.verdicts.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Verdict& verdict = step.verdicts[i];
    const AcceptResult& result = results[i];
    verdict.num_drafts = int(drafts[i].size());
    verdict.numerical_error = result.numerical_error;
    if (result.numerical_error) continue;
    for (int32_t draft = 0; draft < result.num_accepted; ++draft) verdict.path.push_back(draft);
    verdict.token.assign(drafts[i].begin(), drafts[i].begin() + result.num_accepted);
    verdict.token.push_back(result.next);
    state.accept(step.batch->seqs[step.rows[i].batch_seq].seq, step.rows[i].known_rows, drafts[i].data(),
                 result.num_accepted, result.next, step.batch->step);
  }
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Verdict> ChainVerifier::collect(Ticket ticket) {
  PACELINE_CHECK(!in_flight_.empty() && in_flight_.front()->ticket.job == ticket.job, "collect of job {} out of order",
                 ticket.job);
  in_flight_.front()->target->wait(ticket);
  std::vector<Verdict> verdicts = std::move(in_flight_.front()->verdicts);
  in_flight_.pop_front();
  return verdicts;
}

}  // namespace paceline
