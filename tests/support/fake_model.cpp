#include "tests/support/fake_model.h"

#include <algorithm>
#include <limits>

namespace paceline::test {
namespace {

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

constexpr uint64_t kPoisoned = 0;  // the hash of a history that holds the poison

}  // namespace

FakeModel::FakeModel(const FakeModelOptions& options)
    : options_(options),
      state_(options.max_num_seqs),
      kv_(size_t(options.num_blocks * options.block_size)),
      host_kv_(size_t(options.num_host_blocks * options.block_size)) {
  spec_.family = "fake";
  spec_.vocab_size = options.vocab_size;
  spec_.max_position = options.max_model_len;
  spec_.eos_token_ids = options.eos;
  rank_.backend = make_backend("cpu", {.threads = 1});
}

uint64_t FakeModel::extend(uint64_t history, int32_t token) const {
  if (history == kPoisoned || token == options_.poison) return kPoisoned;
  return mix(history * 0x9e3779b97f4a7c15ull + uint64_t(token) + 1) | 1;
}

float FakeModel::logit(uint64_t history, int32_t token) const {
  if (history == kPoisoned) return std::numeric_limits<float>::quiet_NaN();
  return float(mix(history + uint64_t(token) * 0xbf58476d1ce4e5b9ull) >> 40) / float(1 << 24) * 6.0f - 3.0f;
}

std::vector<int32_t> FakeModel::greedy_text(std::vector<int32_t> tokens, int count) const {
  uint64_t history = options_.seed | 1;
  for (int32_t token : tokens) history = extend(history, token);
  std::vector<int32_t> text;
  for (int i = 0; i < count; ++i) {
    int32_t best = 0;
    for (int32_t token = 1; token < options_.vocab_size; ++token) {
      if (logit(history, token) > logit(history, best)) best = token;
    }
    text.push_back(best);
    history = extend(history, best);
  }
  return text;
}

std::vector<float> FakeModel::logits_behind(std::span<const int32_t> tokens) const {
  uint64_t history = options_.seed | 1;
  for (const int32_t token : tokens) history = extend(history, token);
  std::vector<float> logits;
  for (int32_t token = 0; token < options_.vocab_size; ++token) logits.push_back(logit(history, token));
  return logits;
}

Ticket FakeModel::launch(std::shared_ptr<const Batch> batch) {
  batches_.push_back(batch);
  pending_.push_back(batch);
  max_pending_ = std::max(max_pending_, int(pending_.size()));
  return post([this, batch](Rank&) {
    pending_.pop_front();
    forward(*batch);
  });
}

Ticket FakeModel::post(RankTeam::Job job) {
  jobs_.push_back(std::move(job));
  const Ticket ticket{++num_posted_};
  if (options_.completion == Completion::eager) wait(ticket);
  return ticket;
}

void FakeModel::wait(Ticket ticket) {
  while (num_done_ < ticket.job) {
    const RankTeam::Job job = std::move(jobs_.front());
    jobs_.pop_front();
    ++num_done_;
    job(rank_);
  }
}

void FakeModel::move_kv(std::span<const SlotMove> moves) {
  post([this, all = std::vector<SlotMove>(moves.begin(), moves.end())](Rank&) {
    for (const SlotMove& move : all) kv_.at(size_t(move.to)) = kv_.at(size_t(move.from));
    num_moves += int64_t(all.size());
  });
}
void FakeModel::swap_kv(std::span<const BlockSwap> swaps) {
  post([this, all = std::vector<BlockSwap>(swaps.begin(), swaps.end())](Rank&) {
    for (const BlockSwap& swap : all)
      for (int i = 0; i < options_.block_size; ++i) {
        Cell& here = kv_.at(size_t(swap.block * options_.block_size + i));
        Cell& there = host_kv_.at(size_t(swap.host_block * options_.block_size + i));
        (swap.to_host ? there : here) = swap.to_host ? here : there;
      }
  });
}

void FakeModel::check_state(const Batch& batch) const {
  PACELINE_CHECK(batch.digest == digest_of(batch.expected), "digest of step {}", batch.step);
  for (const SeqCommit& want : batch.expected) {
    const SeqSlot& have = state_[want.seq];
    PACELINE_CHECK(have.cached == want.cached && have.length == want.length &&
                       have.token_at(have.length - 1) == want.last_token && have.paths == want.paths,
                   "step {} request {}: cached {} length {} token {}, expected {} {} {}", batch.step, want.request,
                   have.cached, have.length, have.token_at(have.length - 1), want.cached, want.length, want.last_token);
  }
}

void FakeModel::forward(const Batch& batch) {
  for (const SeqDecision& decision : batch.decisions) state_.apply(decision);
  for (const SeqCommit& reset : batch.resets) state_.reset(reset, batch.step - 1);
  check_state(batch);
  logit_data_.assign(batch.logit_row.size() * size_t(options_.vocab_size), std::numeric_limits<float>::quiet_NaN());
  logits_ = {.rows = f32_view(logit_data_.data(), int32_t(batch.logit_row.size()), options_.vocab_size),
             .vocab_size = options_.vocab_size};
  size_t next_logit = 0;
  std::vector<int> uses(size_t(options_.max_num_seqs), 0);
  for (size_t i = 0; i < batch.seqs.size(); ++i) {
    const SeqRows& seq = batch.seqs[i];
    if (seq.seq < 0) {  // padding
      for (int row = seq.first_row; row < seq.first_row + seq.num_rows; ++row)
        PACELINE_CHECK(batch.slot[size_t(row)] == -1 && batch.kv_len[size_t(row)] == 0, "padding row {}", row);
      continue;
    }
    PACELINE_CHECK(++uses[size_t(seq.seq)] == 1, "slot {} is twice in step {}", seq.seq, batch.step);
    const SeqSlot& state = state_[seq.seq];
    PACELINE_CHECK(!seq.deferred || seq.num_rows == 1, "{} deferred rows", seq.num_rows);
    const int first = seq.deferred ? state.length - 1 : batch.position[size_t(seq.first_row)];
    const auto cell_of = [&](int position) -> Cell& {
      const size_t page = size_t(batch.block_begin[i] + position / options_.block_size);
      const size_t end = i + 1 < batch.seqs.size() ? size_t(batch.block_begin[i + 1]) : batch.block.size();
      PACELINE_CHECK(page < end, "step {}: position {} has no page", batch.step, position);
      return kv_.at(size_t(batch.block[page] * options_.block_size + position % options_.block_size));
    };
    uint64_t history = options_.seed | 1;
    for (int position = 0; position < first; ++position) {
      const Cell& cell = cell_of(position);
      PACELINE_CHECK(cell.position == position, "step {} seq {}: slot of position {} holds position {}", batch.step,
                     seq.seq, position, cell.position);
      history = extend(history, cell.token);
    }
    const uint64_t verified = history;
    std::vector<uint64_t> behind(size_t(seq.num_rows));  // the history that ends with each row
    std::vector<int> position_of;
    const int num_known = seq.num_rows - seq.num_drafts;
    for (int row = 0; row < seq.num_rows; ++row) {
      const size_t at = size_t(seq.first_row + row);
      const bool wanted = next_logit < batch.logit_row.size() && size_t(batch.logit_row[next_logit]) == at;
      const int above = batch.parent.empty() ? row - 1 : batch.parent[at] < 0 ? -1 : batch.parent[at] - seq.first_row;
      PACELINE_CHECK(above < row && above >= (row < num_known ? row - 1 : num_known - 1), "step {} row {} follows {}",
                     batch.step, at, above);
      const int position = above < 0 ? first : position_of[size_t(above)] + 1;
      position_of.push_back(position);
      const int32_t token = seq.deferred ? state.token_at(first) : batch.token[at];
      Cell& cell = cell_of(first + row);
      if (!seq.deferred)
        PACELINE_CHECK(batch.position[at] == position && batch.kv_len[at] == position + 1 &&
                           &kv_.at(size_t(batch.slot[at])) == &cell,
                       "step {} row {}", batch.step, at);
      cell = {position, token};
      history = behind[size_t(row)] = extend(above < 0 ? verified : behind[size_t(above)], token);
      if (wanted) {
        for (int32_t id = 0; id < options_.vocab_size; ++id)
          logits_.rows.f32_row(int64_t(next_logit))[id] = logit(history, id);
      }
      if (wanted) ++next_logit;
    }
    if (!seq.wants_logits) state_.advance(seq.seq, seq.num_rows, batch.step);
  }
  PACELINE_CHECK(next_logit == batch.logit_row.size(), "{} of {} logit rows found", next_logit, batch.logit_row.size());
}

std::vector<int32_t> FakeProposer::drafts(SeqId seq, std::vector<int32_t> tokens, int max_len) const {
  const uint64_t dice = mix(uint64_t(seq) * 7919 + tokens.size());
  if (int(dice % 1000) < options_.silent_per_mille) return {};
  std::vector<int32_t> made = model_.greedy_text(std::move(tokens), max_len);
  for (size_t i = 0; i < made.size(); ++i) {
    if (int(mix(dice + i + 1) % 1000) < options_.wrong_per_mille) made[i] = (made[i] + 1) % model_.spec().vocab_size;
  }
  return made;
}

// The greedy text, with wrong siblings before and behind its tokens, some of which go on; some of its tokens are
// missing.
DraftTree FakeProposer::tree(SeqId seq, std::vector<int32_t> tokens, int max_nodes, int max_depth) const {
  const uint64_t dice = mix(uint64_t(seq) * 7919 + tokens.size());
  DraftTree made;
  if (int(dice % 1000) < options_.silent_per_mille) return made;
  const std::vector<int32_t> text = model_.greedy_text(std::move(tokens), max_depth);
  const int vocab_size = model_.spec().vocab_size;
  int32_t parent = DraftTree::kRoot;
  for (size_t depth = 0; depth < text.size(); ++depth) {
    const uint64_t throws = mix(dice + depth + 1);
    const int num_wrong = int(throws % 3), before = num_wrong == 0 ? 0 : int(throws / 3 % uint64_t(num_wrong + 1));
    const bool missing = int(throws / 16 % 1000) < options_.wrong_per_mille;
    int32_t right = DraftTree::kRoot;
    for (int i = 0; i <= num_wrong && made.size() < max_nodes; ++i) {
      if (i == before) {
        if (!missing) right = made.add(text[depth], parent);
        continue;
      }
      const int32_t wrong = made.add((text[depth] + 1 + i) % vocab_size, parent);
      if (depth + 1 < text.size() && made.size() < max_nodes && throws >> 40 & 1)
        made.add(int32_t(throws >> 41) & 7, wrong);
    }
    if (right == DraftTree::kRoot) break;
    parent = right;
  }
  return made;
}

void FakeProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    const Sequence& seq = *request.seq;
    longest_asked = std::max(longest_asked, request.max_drafts);
    keys[seq.id] = seq.key;
    out[i] = {.committed = seq.length(),
              .draft = options_.trees ? tree(seq.id, seq.tokens, request.max_drafts, request.max_depth)
                                      : DraftTree::chain(drafts(seq.id, seq.tokens, request.max_drafts)),
              .probs = {}};
  }
}

}  // namespace paceline::test
