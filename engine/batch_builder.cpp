#include "engine/batch_builder.h"

#include "kernels/error.h"

namespace paceline {

BuiltBatch build_batch(const ScheduledStep& step, std::vector<Proposal> proposals, const BlockPool& pool,
                       uint64_t step_number, int vocab_size) {
  BuiltBatch built{std::make_shared<Batch>(), {}};
  Batch& batch = *built.batch;
  batch.step = step_number;
  batch.after = step_number - 1;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const ScheduledRows& scheduled = step.rows[i];
    const Request& request = *scheduled.request;
    const Sequence& seq = request.seq;
    Proposal& proposal = proposals[i];
    const int num_drafts = scheduled.deferred ? scheduled.max_drafts : int(proposal.token.size());
    PACELINE_CHECK(num_drafts <= scheduled.max_drafts, "request {}: {} drafts, pages for {}", seq.id, num_drafts,
                   scheduled.max_drafts);
    const SeqRows rows{.seq = seq.slot,
                       .first_row = batch.num_rows(),
                       .num_rows = scheduled.num_known + num_drafts,
                       .num_drafts = num_drafts,
                       .deferred = scheduled.deferred,
                       .wants_logits = scheduled.wants_logits};
    for (int row = 0; row < rows.num_rows; ++row) {
      if (scheduled.deferred) {
        batch.add_blank_row();
        continue;
      }
      const int position = request.launched + row;
      const int draft = row - scheduled.num_known;
      const int32_t token = draft < 0 ? seq.tokens[size_t(position)] : proposal.token[size_t(draft)];
      PACELINE_CHECK(token >= 0 && token < vocab_size,
                     "request {}: token {} at position {} is outside the vocabulary of {}", seq.id, token, position,
                     vocab_size);
      batch.add_row(token, position, pool.slot(seq.id, position));
    }
    batch.add_pages(pool.pages(seq.id));
    const SeqCommit state{.seq = seq.slot,
                          .cached = request.launched,
                          .length = seq.length(),
                          .last_token = seq.tokens.back(),
                          .request = seq.id};
    if (request.needs_reset) batch.resets.push_back(state);
    if (!scheduled.deferred) batch.expected.push_back(state);
    if (rows.wants_logits) {
      built.verify.push_back({.batch_seq = batch.seqs.size(),
                              .first_logit = int(batch.logit_row.size()),
                              .known_rows = scheduled.num_known,
                              .request = seq.id,
                              .deferred = scheduled.deferred,
                              .sampler = seq.params.sampler,
                              .proposal = std::move(proposal)});
      for (int row = scheduled.num_known - 1; row < rows.num_rows; ++row)
        batch.logit_row.push_back(rows.first_row + row);
    }
    batch.seqs.push_back(rows);
  }
  add_padding_rows(batch, step.num_padding_rows);
  batch.digest = digest_of(batch.expected);
  return built;
}

}  // namespace paceline
