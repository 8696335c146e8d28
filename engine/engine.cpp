#include "engine/engine.h"

#include <algorithm>
#include <span>

#include "engine/batch_builder.h"
#include "engine/util/clock.h"
#include "kernels/error.h"

namespace paceline {
namespace {

/// Calls the proposer. An exception of it that is neither an Error nor std::bad_alloc becomes an Error with its name.
template <class Call>
void ask(const Proposer& proposer, std::string_view what, const Call& call) {
  try {
    call();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(ExitCode::internal, "proposer {}: {}() threw: {}", proposer.name(), what, error.what());
  } catch (...) {
    fail(ExitCode::internal, "proposer {}: {}() threw what is no std::exception", proposer.name(), what);
  }
}

/// Why a proposal cannot be verified. Empty: it can.
std::string proposal_fault(const DraftRequest& request, const Proposal& proposal, bool branches, int vocab_size) {
  const DraftTree& draft = proposal.draft;
  if (draft.empty()) return "";
  if (const std::string fault = tree_fault(draft); !fault.empty()) return fault;
  if (draft.size() > request.max_drafts)
    return fmt::format("{} drafts, {} were asked for", draft.size(), request.max_drafts);
  if (draft.depth() > request.max_depth)
    return fmt::format("drafts reach {} positions, {} are left", draft.depth(), request.max_depth);
  if (!branches && !draft.is_chain()) return "drafts branch, of a proposer of chains";
  const auto outside = std::find_if(draft.token.begin(), draft.token.end(),
                                    [&](int32_t token) { return token < 0 || token >= vocab_size; });
  if (outside != draft.token.end())
    return fmt::format("draft {} is token {}, outside the vocabulary of {}", outside - draft.token.begin(), *outside,
                       vocab_size);
  if (proposal.committed != request.seq->length())
    return fmt::format("drafts made for {} verified tokens, it has {}", proposal.committed, request.seq->length());
  if (proposal.probs.kind != DraftProbKind::dense) return "";
  const MatView& probs = proposal.probs.value;
  std::vector<int32_t> parents = draft.parent;  // a row for the text and for each draft with drafts behind it
  std::sort(parents.begin(), parents.end());
  const auto rows = std::unique(parents.begin(), parents.end()) - parents.begin();
  if (!probs.data || probs.rows < rows || probs.cols < 1 || probs.cols > vocab_size)
    return fmt::format("dense probabilities of {} rows and {} columns, for {} drafts and a vocabulary of {}",
                       probs.rows, probs.cols, draft.size(), vocab_size);
  return "";
}

BlockPoolOptions pool_options(BlockPoolOptions options, const Proposer* proposer) {
  options.next_token_counts = proposer && proposer->uses_target_pages();
  return options;
}

}  // namespace

Engine::Engine(const EngineOptions& options, Model& target, std::unique_ptr<Proposer> proposer,
               std::unique_ptr<Verifier> verifier)
    : options_(options),
      target_(target),
      verifier_(std::move(verifier)),
      proposer_(std::move(proposer)),
      pool_(pool_options(options.pool, proposer_.get())),
      scheduler_(options.scheduler, pool_,
                 [this](const Request& request) {
                   ++counters_.preemptions;
                   if (proposer_) ask(*proposer_, "preempt", [&] { proposer_->preempt(request.seq.id); });
                 }),
      num_speculative_tokens_(options.num_speculative_tokens) {
  PACELINE_CHECK(options.run_ahead == 0 || options.scheduler.num_micro_batches == 1,
                 "run_ahead {} with {} micro-batches", options.run_ahead, options.scheduler.num_micro_batches);
  PACELINE_CHECK(options.scheduler.max_steps_per_seq == 1 + options.run_ahead,
                 "run_ahead {} with {} steps per sequence", options.run_ahead, options.scheduler.max_steps_per_seq);
  PACELINE_CHECK(options.scheduler.max_model_len <= target.max_model_len(), "max_model_len {} of {}",
                 options.scheduler.max_model_len, target.max_model_len());
  if (proposer_ && proposer_->branches() && !verifier_->takes_branches())
    fail(ExitCode::usage,
         "speculation.verifier.rule: \"{}\" judges chains alone, and proposer {} makes drafts that branch",
         verifier_->rule_name(), proposer_->name());
  for (int32_t id : target.spec().eos_token_ids) eos_.insert(id);
}

Engine::~Engine() {
  while (!in_flight_.empty()) {
    try {
      collect_one();
    } catch (...) {  // whoever called step() knows
    }
  }
}

RequestLimits Engine::limits() const {
  return {.vocab_size = target_.spec().vocab_size,
          .max_model_len = scheduler_.options().max_model_len,
          .block_size = pool_.block_size(),
          .num_blocks = pool_.num_blocks()};
}

SeqId Engine::submit(std::vector<int32_t> prompt, const SamplingParams& params, int64_t key, uint64_t prompt_group) {
  const int output_room = limits().output_room(prompt, params);
  auto request = std::make_unique<Request>();
  Sequence& seq = request->seq;
  seq.id = next_id_++;
  seq.key = key;
  seq.prompt_group = prompt_group;
  seq.num_prompt = int(prompt.size());
  seq.tokens = std::move(prompt);
  seq.params = params;
  seq.params.max_tokens = output_room;
  if (params.edits_logits()) {
    const ModelSpec& spec = target_.spec();
    seq.plan = std::make_shared<SamplingPlan>(params, seq.num_prompt, spec.eos_token_ids, spec.vocab_size);
    seq.plan->follow(seq.tokens);
  }
  const SeqId id = seq.id;
  scheduler_.add(std::move(request));
  return id;
}

void Engine::cancel(SeqId id) {
  if (Request* request = scheduler_.find(id)) finish(*request, FinishReason::cancelled);
}

std::vector<Emitted> Engine::step() {
  const size_t depth = size_t(std::max(options_.scheduler.num_micro_batches, 1 + options_.run_ahead));
  while (in_flight_.size() < depth && launch_one()) {
  }
  if (in_flight_.empty()) return {};
  return collect_one();
}

PhaseSeconds Engine::phases() const {
  PhaseSeconds sum;
  for (const PassTotals& of_kind : passes_) sum += of_kind.seconds;
  return sum;
}

bool Engine::launch_one() {
  const auto start = Clock::now();
  const bool may_defer = options_.run_ahead > 0 && !proposer_;
  const DraftShape shape = proposer_ && proposer_->branches() ? DraftShape::tree : DraftShape::chain;
  const ScheduledStep scheduled = scheduler_.next(proposer_ ? num_speculative_tokens_ : 0, may_defer, shape);
  if (scheduled.rows.empty()) return false;
  if (!scheduled.swaps.empty()) {
    target_.swap_kv(scheduled.swaps);
    if (proposer_) ask(*proposer_, "swap_kv", [&] { proposer_->swap_kv(scheduled.swaps); });
  }
  for (const BlockSwap& swap : scheduled.swaps) counters_.swapped_blocks += swap.to_host;
  const auto draft_start = Clock::now();
  std::vector<Proposal> proposals(scheduled.rows.size());
  if (proposer_) propose(scheduled, proposals);
  const auto draft_end = Clock::now();

  BuiltBatch built = build_batch(scheduled, std::move(proposals), pool_, next_step_++, target_.spec().vocab_size);
  built.batch->decisions = std::move(decisions_);
  decisions_.clear();
  StepInFlight flight{.batch = built.batch, .ticket = {}, .kind = PassKind::decode, .rows = {}};
  int next_verdict = 0;
  bool any_prefill = false, any_decode = false;
  std::vector<const Sequence*> prefilled;
  for (size_t i = 0; i < scheduled.rows.size(); ++i) {
    const ScheduledRows& rows = scheduled.rows[i];
    Request& request = *rows.request;
    const int num_drafts = built.batch->seqs[i].num_drafts;
    flight.rows.push_back({.seq = request.seq.id,
                           .num_known = rows.num_known,
                           .max_drafts = num_drafts,
                           .verdict = rows.wants_logits ? next_verdict++ : -1});
    const bool prefill = request.launched + rows.num_known <= request.seq.num_prompt && !rows.deferred;
    const bool decode = rows.deferred || (!prefill && rows.wants_logits && rows.num_known == 1);
    (decode ? any_decode : any_prefill) = true;
    if (prefill) counters_.prompt_tokens_computed += rows.num_known;
    if (num_drafts > 0 && request.launched / pool_.block_size() != (request.launched + num_drafts) / pool_.block_size())
      ++counters_.block_crossings;
    if (!rows.deferred && rows.wants_logits && rows.num_known > 1) prefilled.push_back(&request.seq);
    if (!rows.deferred) request.launched += rows.num_known;
    request.needs_reset = false;
    request.last_step = built.batch->step;
    ++request.num_in_flight;
    if (rows.wants_logits) {
      ++request.num_undecided;
      request.undecided_rows += num_drafts + 1;
    }
  }
  if (any_prefill && any_decode) ++counters_.mixed_steps;
  if (any_prefill) flight.kind = any_decode ? PassKind::mixed : PassKind::prefill;
  PhaseSeconds& phases = passes_[size_t(flight.kind)].seconds;
  const auto prefill_start = Clock::now();
  if (proposer_ && num_speculative_tokens_ > 0 && !prefilled.empty())
    ask(*proposer_, "prefill", [&] { proposer_->prefill(prefilled); });
  const auto prefill_end = Clock::now();
  target_.launch(built.batch);
  if (proposer_) {
    std::vector<const Sequence*> sequences;
    for (const ScheduledRows& rows : scheduled.rows) sequences.push_back(&rows.request->seq);
    ask(*proposer_, "launched", [&] { proposer_->launched(built.batch, sequences); });
  }
  flight.ticket = verifier_->launch(built.batch, target_, std::move(built.verify));
  in_flight_.push_back(std::move(flight));
  const auto end = Clock::now();
  phases.schedule += seconds_between(start, draft_start) + seconds_between(draft_end, prefill_start) +
                     seconds_between(prefill_end, end);
  phases.draft += seconds_between(draft_start, draft_end) + seconds_between(prefill_start, prefill_end);
  return true;
}

void Engine::propose(const ScheduledStep& step, std::vector<Proposal>& proposals) {
  std::vector<DraftRequest> requests;
  std::vector<size_t> row_of;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const ScheduledRows& rows = step.rows[i];
    if (rows.num_known != 1 || !rows.wants_logits) continue;
    requests.push_back({.seq = &rows.request->seq,
                        .max_drafts = rows.max_drafts,
                        .max_depth = rows.max_depth,
                        .pages = pool_.pages(rows.request->seq.id)});
    row_of.push_back(i);
  }
  if (requests.empty()) return;
  std::vector<Proposal> made(requests.size());
  ask(*proposer_, "propose", [&] { proposer_->propose(requests, made); });
  for (size_t i = 0; i < made.size(); ++i) {
    check_proposal(requests[i], made[i]);
    proposals[row_of[i]] = std::move(made[i]);
  }
}

void Engine::check_proposal(const DraftRequest& request, const Proposal& proposal) const {
  const std::string fault = proposal_fault(request, proposal, proposer_->branches(), int(target_.spec().vocab_size));
  if (!fault.empty())
    fail(ExitCode::internal, "proposer {}: request {}: {}", proposer_->name(), request.seq->id, fault);
}

std::vector<Emitted> Engine::collect_one() {
  const StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  const auto start = Clock::now();
  const CommStats comm_before = target_.comm_stats();
  const double sample_before = verifier_->seconds();
  const std::vector<Verdict> verdicts = verifier_->collect(step.ticket);
  const auto collected = Clock::now();
  const CommStats comm = target_.comm_stats();
  const double sample = verifier_->seconds() - sample_before;
  const double communicate = comm.collective_wait_s - comm_before.collective_wait_s;
  const double bubble = comm.receive_wait_s - comm_before.receive_wait_s;
  PassTotals& totals = passes_[size_t(step.kind)];
  totals.seconds.sample += sample;
  totals.seconds.communicate += communicate;
  totals.seconds.bubble += bubble;
  totals.seconds.verify += std::max(0.0, seconds_between(start, collected) - sample - communicate - bubble);

  ++counters_.steps;
  ++totals.passes;
  const int64_t verdicts_before = counters_.verdicts;
  std::vector<Emitted> emitted;
  static const Verdict kNoVerdict;
  for (const auto& row : step.rows)
    settle(step, row, row.verdict >= 0 ? verdicts[size_t(row.verdict)] : kNoVerdict, emitted);
  totals.verdicts += counters_.verdicts - verdicts_before;
  pool_.retire(step.batch->step);
  const auto settled = Clock::now();
  if (proposer_) ask(*proposer_, "settled", [&] { proposer_->settled(); });
  totals.seconds.schedule += seconds_between(collected, settled);
  totals.seconds.draft += seconds_between(settled, Clock::now());
  return emitted;
}

void Engine::settle(const StepInFlight& step, const StepInFlight::Row& row, const Verdict& verdict,
                    std::vector<Emitted>& emitted) {
  Request* request = scheduler_.find(row.seq);
  if (!request) {  // ended while this step was in flight
    counters_.dead_rows += row.num_known + row.max_drafts;
    return;
  }
  Sequence& seq = request->seq;
  --request->num_in_flight;
  if (row.verdict < 0) {
    pool_.commit(seq.id, pool_.cached(seq.id) + row.num_known, seq.tokens);
    return;
  }
  --request->num_undecided;
  request->undecided_rows -= row.max_drafts + 1;
  if (verdict.numerical_error && verdict.token.empty()) {
    emitted.push_back({.seq = seq.id, .token = {}, .finish = FinishReason::numerical_error});
    finish(*request, FinishReason::numerical_error);
    return;
  }
  const int num_accepted = int(verdict.path.size());
  ++counters_.verdicts;
  if (verdict.num_drafts > 0) {
    ++counters_.drafts;
    counters_.drafted += verdict.num_drafts;
    counters_.accepted += num_accepted;
    for (int i = 0; i < num_accepted; ++i) ++counters_.accepted_at[size_t(i)];
    for (int i = 0; i < verdict.depth; ++i) ++counters_.proposed_at[size_t(i)];
  }
  const std::span<const int32_t> moved = path_out_of_place(verdict.path);
  move_down(seq, moved);
  request->paths = mix_path(request->paths, moved);
  Emitted out{.seq = seq.id,
              .token = {},
              .num_drafted = verdict.num_drafts,
              .depth = verdict.depth,
              .num_accepted = num_accepted};
  const int kept_rows = row.num_known + num_accepted;
  for (size_t i = 0; i < verdict.token.size(); ++i) {
    const int32_t token = verdict.token[i];
    seq.tokens.push_back(token);
    out.token.push_back(token);
    if (i < verdict.logprobs.size()) out.logprobs.push_back(verdict.logprobs[i]);
    const auto& stops = seq.params.stop_token_ids;
    if ((!seq.params.ignore_eos && eos_.contains(token)) ||
        std::find(stops.begin(), stops.end(), token) != stops.end()) {
      out.finish = FinishReason::stop;
    } else if (seq.num_remaining() <= 0 || seq.length() >= scheduler_.options().max_model_len) {
      out.finish = FinishReason::length;
    }
    if (out.finish != FinishReason::none) break;
  }
  if (seq.plan) seq.plan->follow(seq.tokens);
  counters_.emitted += int64_t(out.token.size());
  if (verdict.numerical_error && out.finish == FinishReason::none)  // else the text ends before that row
    out.finish = FinishReason::numerical_error;
  if (out.finish == FinishReason::none) {
    pool_.commit(seq.id, pool_.cached(seq.id) + kept_rows, seq.tokens);
    if (request->num_undecided == 0) request->launched = seq.length() - 1;
    if (proposer_) ask(*proposer_, "observe", [&] { proposer_->observe(seq, verdict); });
    decisions_.push_back({.seq = seq.slot,
                          .step = step.batch->step,
                          .kept_rows = kept_rows,
                          .num_emitted = int32_t(out.token.size()),
                          .next = seq.tokens.back(),
                          .path = {moved.begin(), moved.end()}});
  } else {
    // For others to share, unless the proposer has nothing in it, or nobody knows what is.
    if (!verdict.numerical_error && (!proposer_ || !proposer_->uses_target_pages()))
      pool_.commit(seq.id, std::min(pool_.cached(seq.id) + kept_rows, seq.length()), seq.tokens);
    if (proposer_) ask(*proposer_, "observe_last", [&] { proposer_->observe_last(seq, verdict); });
    finish(*request, out.finish);
  }
  emitted.push_back(std::move(out));
}

// Before they are committed: what is posted from here on, swaps and other batches, finds them in their places. In order
// of depth, since node numbers grow along a path: what lay in a slot has been moved before it is written.
void Engine::move_down(const Sequence& seq, std::span<const int32_t> path) {
  std::vector<SlotMove> moves;
  for (int depth = 0; depth < int(path.size()); ++depth)
    if (path[size_t(depth)] != depth)
      moves.push_back({.from = pool_.slot(seq.id, seq.length() + path[size_t(depth)]),
                       .to = pool_.slot(seq.id, seq.length() + depth)});
  if (!moves.empty()) target_.move_kv(moves);
}

void Engine::finish(Request& request, FinishReason reason) {
  request.seq.finish = reason;
  if (proposer_) ask(*proposer_, "end", [&] { proposer_->end(request.seq); });
  const bool is_whole = reason == FinishReason::stop || reason == FinishReason::length;
  scheduler_.finish(request.seq.id, is_whole ? Scheduler::PromptAfter::is_handed_on : Scheduler::PromptAfter::ends);
}

}  // namespace paceline
