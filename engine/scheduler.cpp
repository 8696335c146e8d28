#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

namespace paceline {

Scheduler::Scheduler(const SchedulerOptions& options, BlockPool& pool, std::function<void(const Request&)> on_preempt)
    : options_(options), pool_(pool), on_preempt_(std::move(on_preempt)), swap_space_(options.num_host_blocks) {
  for (int32_t slot = options.max_num_seqs - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

void Scheduler::add(std::unique_ptr<Request> request) { waiting_.push_back(std::move(request)); }

Request* Scheduler::find(SeqId id) {
  for (auto& request : running_) {
    if (request->seq.id == id) return request.get();
  }
  for (auto& request : waiting_) {
    if (request->seq.id == id) return request.get();
  }
  return nullptr;
}

void Scheduler::finish(SeqId id, PromptAfter after) {
  const auto is_it = [id](const auto& request) { return request->seq.id == id; };
  if (const auto found = std::find_if(running_.begin(), running_.end(), is_it); found != running_.end()) {
    const Request& ended = **found;
    if (after == PromptAfter::is_handed_on) hand_on_prompt_of(ended);
    pool_.release(id, ended.last_step);
    free_slots_.push_back(ended.seq.slot);
    std::erase_if(running_, is_it);
    return;
  }
  std::erase_if(waiting_, is_it);
  swap_space_.drop(id);
}

bool Scheduler::may_run(const Request& request, bool may_defer) const {
  if (request.num_in_flight >= options_.max_steps_per_seq) return false;
  return request.num_undecided == 0 || (may_defer && !request.seq.plan);  // a plan needs every token before its row
}

ScheduledStep Scheduler::next(int num_drafts, bool may_defer, DraftShape shape) {
  give_back_draft_pages();
  ScheduledStep step;
  const int active = std::min(options_.max_num_seqs, int(running_.size() + waiting_.size()));
  const auto max_seqs = size_t((active + options_.num_micro_batches - 1) / options_.num_micro_batches);
  int budget = options_.max_num_batched_tokens;
  add_known_rows(step, Turn::decode, budget, max_seqs, may_defer);
  add_known_rows(step, Turn::recompute, budget, max_seqs, may_defer);
  budget -= wish_drafts(step, num_drafts, shape, budget);
  add_known_rows(step, Turn::prompt, budget, max_seqs, may_defer);
  reserve_drafts(step);
  if (options_.batching == Batching::static_padded) add_padding(step);
  if (!step.rows.empty()) step.swaps = std::exchange(swaps_, {});
  return step;
}

int Scheduler::num_known(const Request& request) {
  return request.deferred() ? 1 : request.seq.length() - request.launched;
}

Scheduler::Turn Scheduler::turn_of(const Request& request) {
  if (request.max_length() == request.seq.num_prompt) return Turn::prompt;
  return num_known(request) == 1 ? Turn::decode : Turn::recompute;
}

void Scheduler::add_known_rows(ScheduledStep& step, Turn turn, int& budget, size_t max_seqs, bool may_defer) {
  const size_t num_before = running_.size();
  for (size_t i = 0; budget > 0 && step.rows.size() < max_seqs; ++i) {
    if (i == running_.size()) {
      if (turn == Turn::decode || waiting_.empty()) return;
      if (turn == Turn::recompute && waiting_.front()->seq.num_output() == 0) return;
      if (!admit()) return;
    }
    const bool is_new = i >= num_before;  // its KV may have come back from host memory: then it decodes at once
    if (!may_run(*running_[i], may_defer) || (!is_new && turn_of(*running_[i]) != turn)) continue;
    add_known_rows_of(step, i, budget);
  }
}

void Scheduler::add_known_rows_of(ScheduledStep& step, size_t position, int& budget) {
  Request& request = *running_[position];
  ScheduledRows rows{.request = &request, .deferred = request.deferred()};
  const int known = num_known(request);
  rows.num_known = std::min(known, budget);
  rows.wants_logits = rows.num_known == known;
  const int emitted = request.max_length() - request.seq.num_prompt;
  if (rows.wants_logits && (emitted >= request.seq.params.max_tokens || request.max_length() >= options_.max_model_len))
    return;  // the step in flight may end it
  const int len = rows.deferred ? request.max_length() : request.launched + rows.num_known;
  if (!reserve_or_preempt(request, len, position)) return;
  request.reserved = std::max(request.reserved, len);
  budget -= rows.num_known;
  step.rows.push_back(rows);
}

int Scheduler::wish_drafts(ScheduledStep& step, int num_drafts, DraftShape shape, int budget) const {
  int num_free = pool_.num_free(), total = 0;
  for (ScheduledRows& rows : step.rows) {
    const Request& request = *rows.request;
    if (turn_of(request) != Turn::decode) continue;
    if (const auto& constraint = request.seq.params.constraint; constraint && !constraint->takes_drafts()) continue;
    const int length = request.max_length(), held = int(pool_.pages(request.seq.id).size());
    const int emitted = length - request.seq.num_prompt;
    rows.max_depth = std::clamp(
        std::min(request.seq.params.max_tokens - emitted - 1, options_.max_model_len - length - 1), 0, kMaxDraftLen);
    const int most = shape == DraftShape::chain ? rows.max_depth : rows.max_depth > 0 ? kMaxDraftLen : 0;
    rows.max_drafts =
        std::max(0, std::min({num_drafts, most, budget - total, (held + num_free) * pool_.block_size() - length}));
    num_free -= std::max(0, pool_.blocks_for(length + rows.max_drafts) - held);
    total += rows.max_drafts;
  }
  return total;
}

void Scheduler::reserve_drafts(ScheduledStep& step) {
  for (ScheduledRows& rows : step.rows) {
    if (rows.max_drafts == 0) continue;
    const SeqId id = rows.request->seq.id;
    const int length = rows.request->max_length(), num_pages = int(pool_.pages(id).size()) + pool_.num_free();
    rows.max_drafts = std::min(rows.max_drafts, num_pages * pool_.block_size() - length);
    pool_.reserve(id, length + rows.max_drafts);
  }
}

// As far as its last step with known rows asked, or as drafts were accepted. Once no step is in flight, what an upper
// bound of the length has asked for is known better.
int Scheduler::len_without_drafts(const Request& request) const {
  const int asked = request.num_in_flight > 0 ? request.reserved : std::min(request.reserved, request.seq.length());
  return std::max(asked, pool_.cached(request.seq.id));
}

void Scheduler::give_back_draft_pages() {
  for (const auto& request : running_)
    if (request->num_in_flight == 0) pool_.trim(request->seq.id, len_without_drafts(*request));
}

bool Scheduler::drafts_in_flight_suffice(const Request& request, int len) const {
  int missing = pool_.blocks_for(len) - int(pool_.pages(request.seq.id).size()) - pool_.num_free();
  for (const auto& other : running_)
    if (other->num_in_flight > 0)
      missing -= std::max(0, int(pool_.pages(other->seq.id).size()) - pool_.blocks_for(len_without_drafts(*other)));
  return missing <= 0;
}

bool Scheduler::reserve_or_preempt(Request& request, int len, size_t position) {
  while (!pool_.reserve(request.seq.id, len)) {
    if (drafts_in_flight_suffice(request, len) || !preempt_one(request, position)) return false;
  }
  return true;
}
// Takes the blocks of the youngest request behind `position` that has no step in flight.
bool Scheduler::preempt_one(const Request& keep, size_t position) {
  for (size_t i = running_.size(); i-- > position + 1;) {
    Request& victim = *running_[i];
    if (&victim == &keep || victim.num_in_flight > 0) continue;
    swap_out(victim);
    pool_.release(victim.seq.id, victim.last_step);
    on_preempt_(victim);
    free_slots_.push_back(victim.seq.slot);
    victim.seq.slot = -1;
    victim.launched = 0;
    victim.reserved = 0;
    victim.last_step = 0;
    victim.needs_reset = true;
    ++victim.seq.num_preemptions;
    waiting_.push_front(std::move(running_[i]));
    running_.erase(running_.begin() + std::ptrdiff_t(i));
    return true;
  }
  return false;
}

// Steps in flight that wrote its blocks were launched before, steps that get them come after: the copies lie between.
void Scheduler::swap_out(const Request& victim) {
  const int cached = pool_.cached(victim.seq.id), count = pool_.blocks_for(cached);
  const SwapSpace::Place* const place = swap_space_.put(victim.seq.id, cached, count);
  if (!place) return;
  const std::span<const int32_t> pages = pool_.pages(victim.seq.id);
  for (size_t i = 0; i < place->block.size(); ++i)
    swaps_.push_back({.block = pages[i], .host_block = place->block[i], .to_host = true});
}

// What the prefix cache has kept need not come back.
void Scheduler::swap_in(Request& request) {
  const SwapSpace::Place* const place = swap_space_.find(request.seq.id);
  if (!place) return;
  if (place->cached > request.launched) {
    const std::span<const int32_t> pages = pool_.pages(request.seq.id);
    for (size_t i = size_t(request.launched / pool_.block_size()); i < place->block.size(); ++i)
      swaps_.push_back({.block = pages[i], .host_block = place->block[i], .to_host = false});
    request.launched = place->cached;
    pool_.commit(request.seq.id, request.launched, request.seq.tokens);
  }
  swap_space_.drop(request.seq.id);
}

int Scheduler::shared_len(const Request& request) const {
  return (request.seq.num_prompt - 1) / pool_.block_size() * pool_.block_size();
}

const Request* Scheduler::leader_of(const Request& request) const {
  if (request.seq.prompt_group == 0 || options_.batching == Batching::static_padded) return nullptr;
  const Request* leader = nullptr;
  const auto prompt_end = request.seq.tokens.begin() + request.seq.num_prompt;
  for (const auto& other : running_) {
    if (other->seq.prompt_group != request.seq.prompt_group || other->seq.num_prompt != request.seq.num_prompt ||
        !std::equal(request.seq.tokens.begin(), prompt_end, other->seq.tokens.begin()))
      continue;
    leader = other.get();
    if (has_prompt_of(leader, request)) return leader;
  }
  return leader;
}

bool Scheduler::has_prompt_of(const Request* leader, const Request& request) const {
  return leader && pool_.cached(leader->seq.id) >= shared_len(request);
}

bool Scheduler::waits_for(const Request& request, const Request* leader) const {
  // Of one token the leader ends with its prompt, and leaves nothing to share.
  return leader && !has_prompt_of(leader, request) && request.seq.params.max_tokens > 1 &&
         request.seq.num_preemptions == 0;
}

void Scheduler::hand_on_prompt_of(const Request& ending) {
  if (ending.seq.prompt_group == 0 || pool_.caches_prefixes()) return;
  for (bool has_room = true; has_room && !free_slots_.empty();) {
    const auto next = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& request) {
      return leader_of(*request) == &ending && has_prompt_of(&ending, *request) && request->seq.num_preemptions == 0;
    });
    has_room = next != waiting_.end() && begin(next, &ending);
  }
}

bool Scheduler::admit() {
  if (waiting_.empty() || free_slots_.empty()) return false;
  if (options_.batching == Batching::static_padded) {
    if (running_.empty()) {  // the last batch is over: a new one opens, and closes when it is full or has begun
      static_size_ = 0;
      static_longest_ = 0;
    }
    const bool begun =
        std::any_of(running_.begin(), running_.end(), [](const auto& other) { return other->last_step > 0; });
    if (begun) return false;
  }
  const Request* leader = nullptr;
  const auto next = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& request) {
    leader = leader_of(*request);
    return !waits_for(*request, leader);
  });
  return next != waiting_.end() && begin(next, leader);
}

bool Scheduler::begin(std::deque<std::unique_ptr<Request>>::iterator next, const Request* leader) {
  Request& request = **next;
  request.launched = has_prompt_of(leader, request) && !pool_.caches_prefixes()
                         ? pool_.attach_to(request.seq.id, leader->seq.id, shared_len(request))
                         : pool_.attach(request.seq.id, request.seq.tokens, request.seq.block_hashes);
  if (!pool_.reserve(request.seq.id, request.seq.length())) {
    pool_.release(request.seq.id, 0);
    return false;
  }
  request.reserved = request.seq.length();
  swap_in(request);
  request.seq.slot = free_slots_.back();
  free_slots_.pop_back();
  static_longest_ = std::max(static_longest_, request.seq.length());
  ++static_size_;
  running_.push_back(std::move(*next));
  waiting_.erase(next);
  return true;
}

// A padded batch computes as many rows as if every prompt were as long as the longest and no row ever ended.
void Scheduler::add_padding(ScheduledStep& step) const {
  int rows = 0;
  bool decoding = !step.rows.empty();
  for (const ScheduledRows& scheduled : step.rows) {
    rows += scheduled.num_known + scheduled.max_drafts;
    const Request& request = *scheduled.request;
    const bool prompt_ends = scheduled.wants_logits && request.seq.num_output() == 0;
    if (prompt_ends) step.num_padding_rows += static_longest_ - request.seq.length();
    if (request.seq.num_output() == 0) decoding = false;
  }
  if (decoding) step.num_padding_rows += static_size_ - int(step.rows.size());
  step.num_padding_rows = std::clamp(step.num_padding_rows, 0, options_.max_num_batched_tokens - rows);
}

}  // namespace paceline
