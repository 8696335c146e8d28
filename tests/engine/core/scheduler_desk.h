#pragma once
// A scheduler without an engine.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/scheduler.h"

namespace paceline::test {

/// A scheduler whose steps complete when the test says so.
class Desk {
 public:
  Desk(const SchedulerOptions& options, const BlockPoolOptions& pool_options)
      : pool(pool_options),
        scheduler(options, pool, [this](const Request& request) { preempted.push_back(request.seq.id); }) {}

  /// prompt_group: sequences of one have the same prompt.
  void add(SeqId id, int prompt, int max_tokens = 100, uint64_t prompt_group = 0) {
    auto request = std::make_unique<Request>();
    request->seq.id = id;
    request->seq.num_prompt = prompt;
    request->seq.prompt_group = prompt_group;
    const auto first = prompt_group > 0 ? int(prompt_group) * 500 : int(id) * 1000;
    for (int i = 0; i < prompt; ++i) request->seq.tokens.push_back(int32_t(first + i));
    request->seq.params.max_tokens = max_tokens;
    scheduler.add(std::move(request));
  }

  /// As the engine does at launch.
  ScheduledStep launch(int draft_len = 0, bool may_defer = false) {
    ScheduledStep step = scheduler.next(draft_len, may_defer);
    if (step.rows.empty()) return step;
    ++last_step;
    for (ScheduledRows& rows : step.rows) {
      Request& request = *rows.request;
      if (!rows.deferred) request.launched += rows.num_known;
      request.needs_reset = false;
      request.last_step = last_step;
      ++request.num_in_flight;
      if (rows.wants_logits) {
        ++request.num_undecided;
        request.undecided_rows += rows.max_drafts + 1;
      }
    }
    return step;
  }

  /// As the engine does at collect: every sequence emits `emitted` tokens (no more than its rows allow).
  void collect(const ScheduledStep& step, int emitted = 1) {
    for (const ScheduledRows& rows : step.rows) {
      Request& request = *rows.request;
      --request.num_in_flight;
      if (!rows.wants_logits) {
        pool.commit(request.seq.id, pool.cached(request.seq.id) + rows.num_known, request.seq.tokens);
        continue;
      }
      --request.num_undecided;
      request.undecided_rows -= rows.max_drafts + 1;
      const int tokens = std::min(emitted, rows.max_drafts + 1);
      for (int i = 0; i < tokens; ++i) request.seq.tokens.push_back(7);
      pool.commit(request.seq.id, pool.cached(request.seq.id) + rows.num_known + tokens - 1, request.seq.tokens);
      if (request.num_undecided == 0) request.launched = request.seq.length() - 1;
    }
    pool.retire(last_step);
    pool.check();
  }

  BlockPool pool;
  std::vector<SeqId> preempted;
  Scheduler scheduler;
  uint64_t last_step = 0;
};

/// "id:known+drafts" per row, ! where no logits are wanted.
inline std::string text(const ScheduledStep& step) {
  std::string out;
  for (const ScheduledRows& rows : step.rows)
    out += fmt::format("{}{}:{}{}{}", out.empty() ? "" : " ", rows.request->seq.id, rows.num_known,
                       rows.max_drafts ? fmt::format("+{}", rows.max_drafts) : "", rows.wants_logits ? "" : "!");
  return out;
}

inline BlockPoolOptions blocks(int count, int block_size = 4) {
  return {.num_blocks = count, .block_size = block_size, .prefix_caching = PrefixCaching::off};
}

}  // namespace paceline::test
