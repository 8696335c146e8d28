#include "engine/batch_builder.h"

#include <utility>

#include "engine/batch_rows.h"
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
    PACELINE_CHECK(proposal.draft.size() <= scheduled.max_drafts, "request {}: {} drafts, pages for {}", seq.id,
                   proposal.draft.size(), scheduled.max_drafts);
    const auto check_token = [&](int32_t token, int position) {
      PACELINE_CHECK(token >= 0 && token < vocab_size,
                     "request {}: token {} at position {} is outside the vocabulary of {}", seq.id, token, position,
                     vocab_size);
    };
    if (!scheduled.deferred)
      for (int position = request.launched; position < request.launched + scheduled.num_known; ++position)
        check_token(seq.tokens[size_t(position)], position);
    for (int node = 0; node < proposal.draft.size(); ++node)
      check_token(proposal.draft.token[size_t(node)], seq.length() + node);
    const size_t first_logit = batch.logit_row.size();
    if (scheduled.deferred) {
      add_deferred_row(batch, seq.slot, pool.pages(seq.id));
    } else {
      add_rows(batch, {.state = {.seq = seq.slot,
                                 .cached = request.launched,
                                 .length = seq.length(),
                                 .last_token = seq.tokens.back(),
                                 .request = seq.id,
                                 .paths = request.paths},
                       .tokens = seq.tokens,
                       .pages = pool.pages(seq.id),
                       .block_size = pool.block_size(),
                       .end = request.launched + scheduled.num_known,
                       .reset = request.needs_reset,
                       .drafts = &proposal.draft});
    }
    if (scheduled.wants_logits)
      built.verify.push_back({.batch_seq = batch.seqs.size() - 1,
                              .first_logit = int(first_logit),
                              .known_rows = scheduled.num_known,
                              .request = seq.id,
                              .sampler = seq.params.sampler,
                              .proposal = std::move(proposal),
                              .plan = seq.plan,
                              .logprobs = seq.params.logprobs});
  }
  add_padding_rows(batch, step.num_padding_rows);
  batch.digest = digest_of(batch.expected);
  return built;
}

}  // namespace paceline
