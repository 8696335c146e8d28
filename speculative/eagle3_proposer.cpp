#include "speculative/eagle3_proposer.h"

#include <algorithm>

#include "engine/cache/kv_slot.h"
#include "speculative/proposer_entry.h"

namespace paceline {

Eagle3Proposer::Eagle3Proposer(Eagle3Model& model, int max_draft_len) : model_(model), max_draft_len_(max_draft_len) {
  drafted_.resize(size_t(max_draft_len) * size_t(model.options().max_num_seqs));
}

Eagle3Proposer::~Eagle3Proposer() {
  try {  // draws write what is ours
    model_.await_drafts();
  } catch (...) {  // the team has failed and runs no job any more
  }
}

void Eagle3Proposer::launched(const std::shared_ptr<const Batch>& batch, std::span<const Sequence* const> sequences) {
  auto rows = std::make_shared<Eagle3Rows>();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SeqRows& of = batch->seqs[i];
    const Sequence& seq = *sequences[i];
    const int num_known = of.num_rows - of.num_drafts - (of.wants_logits ? 1 : 0);  // with a known token behind them
    if (num_known == 0) continue;
    const size_t first_page = size_t(batch->block_begin[i]);
    const size_t last_page =
        i + 1 < batch->block_begin.size() ? size_t(batch->block_begin[i + 1]) : batch->block.size();
    rows->begin_sequence(std::span(batch->block).subspan(first_page, last_page - first_page));
    for (int32_t row = of.first_row; row < of.first_row + num_known; ++row) {
      const int32_t position = batch->position[size_t(row)];
      rows->add(seq.tokens[size_t(position) + 1], position, batch->slot[size_t(row)], row);
    }
    stats_.catchup_tokens += num_known;
  }
  in_flight_.push_back(batch);
  model_.take_features(batch->step, std::move(rows));
}

void Eagle3Proposer::observe(const Sequence& seq, const Verdict& verdict) {
  const int kept = int(verdict.path.size());
  Observed observed{.slot = seq.slot, .seq = seq.id, .length = seq.length(), .path = verdict.path, .token = {}};
  observed.token.assign(seq.tokens.end() - kept - 1, seq.tokens.end());
  observed_.push_back(std::move(observed));
}

void Eagle3Proposer::settled() {
  const std::shared_ptr<const Batch> batch = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (observed_.empty()) return;
  Eagle3Rows rows;
  std::vector<int32_t> last_row, slots;
  for (const Observed& seq : observed_) {
    const auto found =
        std::find_if(batch->seqs.begin(), batch->seqs.end(), [&](const SeqRows& of) { return of.seq == seq.slot; });
    PACELINE_CHECK(found != batch->seqs.end(), "a verdict for slot {}, of which step {} has no row", seq.slot,
                   batch->step);
    const size_t index = size_t(found - batch->seqs.begin());
    const size_t first_page = size_t(batch->block_begin[index]);
    const size_t last_page =
        index + 1 < batch->block_begin.size() ? size_t(batch->block_begin[index + 1]) : batch->block.size();
    const auto pages = std::span(batch->block).subspan(first_page, last_page - first_page);
    const int32_t known = found->first_row + found->num_rows - found->num_drafts - 1;  // the last that was
    const int32_t position = batch->position[size_t(known)];
    rows.begin_sequence(pages);
    for (int32_t i = 0; i < int32_t(seq.token.size()); ++i)
      rows.add(seq.token[size_t(i)], position + i, kv_slot(pages, block_size(), position + i),
               i == 0 ? known : known + 1 + seq.path[size_t(i) - 1]);
    last_row.push_back(rows.size() - 1);
    slots.push_back(seq.slot);
    drafts_from_[seq.seq] = seq.length;
  }
  observed_.clear();
  model_.extend(batch->step, rows, last_row, slots);
}

void Eagle3Proposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  struct Active {
    size_t request = 0;
    int num_drafts = 0;
  };
  std::vector<Active> active;
  const int max_position = model_.max_position();
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    out[i] = {.seq = seq.id, .committed = seq.length(), .draft = {}, .probs = {}};
    const auto found = drafts_from_.find(seq.id);
    if (found == drafts_from_.end() || found->second != seq.length()) continue;
    // Draft j is read at position length - 2 + j.
    const int num_drafts =
        std::min({requests[i].max_drafts, requests[i].max_depth, max_draft_len_, max_position - seq.length() + 2});
    if (num_drafts > 0) active.push_back({.request = i, .num_drafts = num_drafts});
  }
  if (active.empty()) return;
  std::stable_sort(active.begin(), active.end(),
                   [](const Active& a, const Active& b) { return a.num_drafts > b.num_drafts; });
  std::vector<int32_t> slots;
  std::vector<int> num_drafts;
  std::vector<Eagle3Rows> rows(size_t(active[0].num_drafts) - 1);
  for (const Active& one : active) {
    const DraftRequest& request = requests[one.request];
    slots.push_back(request.seq->slot);
    num_drafts.push_back(one.num_drafts);
    for (int j = 1; j < one.num_drafts; ++j) {
      Eagle3Rows& pass = rows[size_t(j) - 1];
      const int32_t position = request.seq->length() - 2 + j;
      pass.begin_sequence(request.pages);
      pass.add(token_in_cell(request.seq->slot), position, kv_slot(request.pages, block_size(), position), 0);
    }
  }
  model_.draft(slots, num_drafts, rows, drafted_);
  model_.await_drafts();
  for (size_t i = 0; i < active.size(); ++i) {
    std::vector<int32_t> chain;
    for (int j = 0; j < active[i].num_drafts; ++j) {
      const int32_t token = drafted_[size_t(j) * active.size() + i];
      if (token < 0) break;  // the head's logits were not numbers there: that costs drafts, never the engine
      chain.push_back(token);
    }
    out[active[i].request].draft = DraftTree::chain(std::move(chain));
  }
}

ProposerEntry eagle3_entry() {
  return {.name = "eagle3",
          .help = "an EAGLE-3 head over the target's states",
          .second_model = {.kind = SecondModelKind::eagle3_head, .default_path = "builtin:eagle3-target-7m"},
          .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
            PACELINE_CHECK(setup.head != nullptr, "proposer eagle3 without a head");
            return std::make_unique<Eagle3Proposer>(*setup.head, setup.max_draft_len);
          }};
}

}  // namespace paceline
