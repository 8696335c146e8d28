#include "speculative/selftest/checked_run.h"

#include <algorithm>

#include "engine/cache/kv_slot.h"
#include "kernels/error.h"

namespace paceline {

std::string RunReport::describe() const {
  return fmt::format("{} tokens, {} mismatches{}{}{}{}{}", tokens, mismatches, first_mismatch.empty() ? "" : ": ",
                     first_mismatch, error.empty() ? "" : "; error: ", error, leaked_blocks ? "; blocks leaked" : "");
}

void RunReport::add(const RunReport& other) {
  tokens += other.tokens;
  mismatches += other.mismatches;
  if (first_mismatch.empty()) first_mismatch = other.first_mismatch;
  if (error.empty()) error = other.error;
  counters.steps += other.counters.steps;
  counters.drafts += other.counters.drafts;
  counters.drafted += other.counters.drafted;
  counters.accepted += other.counters.accepted;
  counters.emitted += other.counters.emitted;
  counters.preemptions += other.counters.preemptions;
  counters.swapped_blocks += other.counters.swapped_blocks;
  counters.dead_rows += other.counters.dead_rows;
  counters.mixed_steps += other.counters.mixed_steps;
  counters.block_crossings += other.counters.block_crossings;
  prefix_hit_tokens += other.prefix_hit_tokens;
  leaked_blocks = leaked_blocks || other.leaked_blocks;
}

namespace {

struct Answer {
  std::vector<int32_t> token;
  FinishReason finish = FinishReason::none;
};

enum class Extent : uint8_t { whole, as_far_as_it_came };

void compare(size_t index, const CheckedRequest& request, const Answer& answer, Extent extent, RunReport& report) {
  const bool cut_short = extent == Extent::as_far_as_it_came;
  const size_t expected_len =
      cut_short ? std::min(answer.token.size(), request.expected.size()) : request.expected.size();
  const size_t len = std::max(answer.token.size(), expected_len);
  for (size_t i = 0; i < len; ++i) {
    const int32_t found = i < answer.token.size() ? answer.token[i] : -1;
    const int32_t expected = i < expected_len ? request.expected[i] : -1;
    if (found == expected) continue;
    ++report.mismatches;
    if (report.first_mismatch.empty()) {
      report.first_mismatch = fmt::format("request {} (prompt of {}), output token {}: {} instead of {}", index,
                                          request.prompt.size(), i, found, expected);
    }
  }
  if (!cut_short && answer.finish != request.expected_finish) {
    ++report.mismatches;
    if (report.first_mismatch.empty()) {
      report.first_mismatch =
          fmt::format("request {} finished with {} instead of {}", index, finish_reason_name(answer.finish),
                      finish_reason_name(request.expected_finish));
    }
  }
  report.tokens += int64_t(answer.token.size());
}

}  // namespace

RunReport run_checked(Engine& engine, const std::vector<CheckedRequest>& requests, const CheckOptions& options) {
  RunReport report;
  std::vector<SeqId> ids;
  std::map<SeqId, Answer> answers;
  int64_t longest_run = 1000;  // steps; beyond it the engine has stalled
  try {
    for (const CheckedRequest& request : requests) {
      ids.push_back(engine.submit(request.prompt, request.params, int64_t(ids.size()) + 1, request.prompt_group));
      answers[ids.back()];
      longest_run += 8 * (int64_t(request.prompt.size()) + request.params.max_tokens);
    }
    for (int step = 0; !engine.idle(); ++step) {
      if (step > longest_run) fail(ExitCode::correctness, "the engine is not idle after {} steps", step);
      if (options.before_step) options.before_step(engine, step, ids);
      for (const Emitted& emitted : engine.step()) {
        Answer& answer = answers.at(emitted.seq);
        answer.token.insert(answer.token.end(), emitted.token.begin(), emitted.token.end());
        if (emitted.finish != FinishReason::none) answer.finish = emitted.finish;
      }
      engine.pool().check();
      if (options.draft) options.draft->pool().check();
    }
    report.leaked_blocks = engine.pool().num_free() != engine.pool().num_blocks() ||
                           engine.swap_space().num_free() != engine.swap_space().num_blocks() ||
                           (options.draft && options.draft->pool().num_free() != options.draft->pool().num_blocks());
  } catch (const Error& error) {
    report.error = error.what();
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool cut_short = !report.error.empty() || (options.cancelled && options.cancelled->contains(ids[i]));
    compare(i, requests[i], answers[ids[i]], cut_short ? Extent::as_far_as_it_came : Extent::whole, report);
  }
  report.counters = engine.counters();
  report.prefix_hit_tokens = engine.pool().prefix_hit_tokens();
  return report;
}

void ReferenceStore::answer(CheckedRequest& request) {
  SamplingParams& params = request.params;
  const int room = rig_.max_model_len() - int(request.prompt.size());
  const Key key{request.prompt, params.sampler.temperature, params.sampler.seed};
  std::vector<int32_t>& answer = answers_[key];
  if (answer.empty()) {
    auto engine = rig_.make_engine({});
    SamplingParams all{.sampler = params.sampler, .max_tokens = max_tokens_, .ignore_eos = true, .stop_token_ids = {}};
    engine->submit(request.prompt, all);
    while (!engine->idle()) {
      for (const Emitted& emitted : engine->step())
        answer.insert(answer.end(), emitted.token.begin(), emitted.token.end());
    }
    PACELINE_CHECK(int(answer.size()) == std::min(room, max_tokens_), "reference of {} tokens", answer.size());
    num_decoded_ += int64_t(answer.size());
  }
  params.max_tokens = std::min(params.max_tokens, max_tokens_);
  const size_t len = std::min(answer.size(), size_t(params.max_tokens));
  const auto& eos = rig_.spec().eos_token_ids;
  const auto holds = [](const std::vector<int32_t>& ids, int32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  request.expected.clear();
  request.expected_finish = FinishReason::length;
  while (request.expected.size() < len) {
    const int32_t token = answer[request.expected.size()];
    request.expected.push_back(token);
    if ((!params.ignore_eos && holds(eos, token)) || holds(params.stop_token_ids, token)) {
      request.expected_finish = FinishReason::stop;
      break;
    }
  }
}

DrawParams sampler_for(VerifyRule rule, uint64_t seed) {
  if (rule == VerifyRule::greedy) return {.seed = seed};
  return {.temperature = 0.8f, .top_p = 0.95f, .seed = seed};
}

int blocks_for(const std::vector<CheckedRequest>& requests, int concurrency, int block_size, double share) {
  std::vector<int> blocks;
  for (const CheckedRequest& request : requests)
    blocks.push_back(kv_blocks(int(request.prompt.size()) + request.params.max_tokens, block_size));
  std::sort(blocks.rbegin(), blocks.rend());
  int sum = 0;
  for (size_t i = 0; i < blocks.size() && int(i) < concurrency; ++i) sum += blocks[i];
  return std::max(blocks.empty() ? 1 : blocks.front(), int(double(sum) * share));
}

}  // namespace paceline
