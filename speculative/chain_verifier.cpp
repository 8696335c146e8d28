#include "speculative/chain_verifier.h"

#include <algorithm>
#include <span>

#include "engine/comm/work_scope.h"
#include "engine/util/clock.h"

namespace paceline {

Ticket ChainVerifier::launch(std::shared_ptr<const Batch> batch, Model& target, std::vector<VerifyRow> rows) {
  auto step = std::make_shared<Step>(
      Step{.batch = std::move(batch), .target = &target, .rows = std::move(rows), .verdicts = {}, .ticket = {}});
  step->ticket = target.post([this, step](Rank& rank) { run(*step, rank); });
  const Ticket ticket = step->ticket;
  in_flight_.push_back(std::move(step));
  return ticket;
}

// Windows without drafts move every sequence by one token: where SeqState has cells the next step can begin before the
// host knows it.
void ChainVerifier::run(Step& step, Rank& rank) {
  const auto start = Clock::now();
  SeqState& state = step.target->state();
  const size_t count = step.rows.size();
  step.windows.resize(count);
  step.results.resize(count);
  bool any_drafts = false, any_logprobs = false;
  LogitEdits edits;
  for (size_t i = 0; i < count; ++i) {
    const VerifyRow& wanted = step.rows[i];
    const SeqSlot& slot = state[step.slot(i)];
    const DraftTree& drafts = wanted.proposal.draft;
    PACELINE_CHECK(drafts.empty() || wanted.proposal.committed == slot.length,
                   "request {}: drafts made for {} verified tokens, it has {}", wanted.request,
                   wanted.proposal.committed, slot.length);
    const bool is_chain = drafts.is_chain();
    PACELINE_CHECK(is_chain || takes_branches(), "request {}: rule {} takes no drafts that branch", wanted.request,
                   rule_name());
    PACELINE_CHECK(drafts.empty() || options_.rule != VerifyRule::greedy || wanted.sampler.greedy(),
                   "request {}: the greedy rule would not sample it", wanted.request);
    any_drafts = any_drafts || !drafts.empty();
    step.windows[i] = {.logits_row = wanted.first_logit,
                       .draft_len = int32_t(drafts.size()),
                       .draft = drafts.token.data(),
                       .parent = is_chain ? nullptr : drafts.parent.data(),
                       .kind = wanted.proposal.probs.kind,
                       .draft_prob = wanted.proposal.probs.value,
                       .first_position = slot.length,
                       .params = wanted.sampler,
                       .rule = options_.rule,
                       .token_cell = step.slot(i)};
    any_logprobs = any_logprobs || wanted.logprobs.any();
    if (!wanted.plan) continue;
    PACELINE_CHECK(wanted.plan->length() == slot.length, "request {}: a sampling plan that knows {} of {} tokens",
                   wanted.request, wanted.plan->length(), slot.length);
    wanted.plan->add_window(drafts, wanted.first_logit, edits);
  }
  if (count == 0) return;
  const Logits logits = step.target->logits();
  step.is_later = state.cells() && !any_drafts && !any_logprobs;  // logprobs need the rows: the next pass has others
  const WorkScope work(rank, WorkKind::decide, step.batch->step);
  if (any_logprobs && !edits.empty()) keep_raw_rows(step, logits, *rank.backend);
  if (!edits.empty()) rank.backend->edit_logits(edits.args(logits.rows, logits.vocab_size));
  rank.backend->accept({.logits = logits.rows,
                        .vocab_size = logits.vocab_size,
                        .rows = step.windows,
                        .result = step.results,
                        .token_cells = step.is_later ? state.cells() : nullptr,
                        .later = true});
  step.draw = rank.backend->num_draws();
  seconds_ += seconds_since(start);
  if (step.is_later)
    for (size_t i = 0; i < count; ++i)
      state.accept(step.slot(i), step.rows[i].known_rows, nullptr, 0, token_in_cell(step.slot(i)), step.batch->step);
  if (step.is_awaited()) return;
  rank.backend->await_draws(step.draw);
  make_verdicts(step);
  if (any_logprobs) add_logprobs(step, logits, *rank.backend);
}

// Of windows whose logits are about to be edited, and whose logprobs are of what they were.
void ChainVerifier::keep_raw_rows(Step& step, const Logits& logits, Backend& backend) {
  step.raw_rows.resize(step.rows.size());
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const VerifyRow& row = step.rows[i];
    if (!row.logprobs.any() || !row.plan) continue;
    const MatView window = logits.rows.row_range(row.first_logit, row.proposal.draft.size() + 1);
    step.raw_rows[i] = download_rows(backend, window, logits.vocab_size);
  }
}

void ChainVerifier::add_logprobs(Step& step, const Logits& logits, Backend& backend) {
  const auto start = Clock::now();
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const VerifyRow& row = step.rows[i];
    Verdict& verdict = step.verdicts[i];
    if (!row.logprobs.any()) continue;
    for (size_t j = 0; j < verdict.token.size(); ++j) {
      const int32_t place = j == 0 ? 0 : 1 + verdict.path[j - 1];  // of the row that the token was drawn from
      const bool is_kept = i < step.raw_rows.size() && !step.raw_rows[i].empty();
      std::vector<float> read;
      if (!is_kept) read = download_rows(backend, logits.rows.row_range(row.first_logit + place, 1), logits.vocab_size);
      const float* const logit = is_kept ? step.raw_rows[i].data() + int64_t{place} * logits.vocab_size : read.data();
      verdict.logprobs.push_back(logprobs_of(logit, logits.vocab_size, verdict.token[j], row.logprobs.num_top));
    }
  }
  seconds_ += seconds_since(start);
}

// The results have come.
void ChainVerifier::make_verdicts(Step& step) {
  const auto start = Clock::now();
  SeqState& state = step.target->state();
  step.verdicts.resize(step.rows.size());
  for (size_t i = 0; i < step.rows.size(); ++i) {
    Verdict& verdict = step.verdicts[i];
    const AcceptResult& result = step.results[i];
    const DraftTree& drafts = step.rows[i].proposal.draft;
    verdict.num_drafts = drafts.size();
    verdict.depth = drafts.depth();
    verdict.numerical_error = result.numerical_error;
    for (int32_t node = result.last; node != DraftTree::kRoot; node = drafts.parent[size_t(node)])
      verdict.path.push_back(node);
    std::reverse(verdict.path.begin(), verdict.path.end());
    for (const int32_t node : verdict.path) verdict.token.push_back(drafts.token[size_t(node)]);
    if (verdict.numerical_error) continue;  // the request ends: nobody asks for its state
    verdict.token.push_back(result.next);
    const std::span<const int32_t> moved = path_out_of_place(verdict.path);
    if (step.is_later)
      state.learn(step.slot(i), step.windows[i].first_position, result.next, step.batch->step);
    else
      state.accept(step.slot(i), step.rows[i].known_rows, verdict.token.data(), result.num_accepted, result.next,
                   step.batch->step, moved);
  }
  seconds_ += seconds_since(start);
}

std::vector<Verdict> ChainVerifier::collect(Ticket ticket) {
  PACELINE_CHECK(!in_flight_.empty() && in_flight_.front()->ticket.job == ticket.job, "collect of job {} out of order",
                 ticket.job);
  const std::shared_ptr<Step> step = std::move(in_flight_.front());
  in_flight_.pop_front();  // also where a wait throws: the next one is collected next
  step->target->wait(ticket);
  if (step->is_awaited())  // behind the steps that have been launched since
    step->target->wait(step->target->post([this, step](Rank& rank) {
      rank.backend->await_draws(step->draw);
      make_verdicts(*step);
    }));
  return std::move(step->verdicts);
}

}  // namespace paceline
