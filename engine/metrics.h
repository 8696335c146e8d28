#pragma once
// What the engine counts. Definitions: docs/metrics.md.

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/draft_tree.h"

namespace paceline {

/// Seconds of the engine's own time line, disjoint.
struct PhaseSeconds {
  double draft = 0;        // proposer, its waits included
  double verify = 0;       // target forward on the deciding rank, less the three below
  double sample = 0;       // accept: filters, acceptance, sampling
  double schedule = 0;     // scheduler, batch building, commit, stop checks
  double communicate = 0;  // deciding rank waiting in collectives
  double bubble = 0;       // deciding rank waiting for the previous stage

  PhaseSeconds& operator+=(const PhaseSeconds& more) {
    draft += more.draft;
    verify += more.verify;
    sample += more.sample;
    schedule += more.schedule;
    communicate += more.communicate;
    bubble += more.bubble;
    return *this;
  }
};

/// What the rows of a pass are: rows of prompts, and of what preempted sequences compute again, are prefill; the one
/// row of a sequence that decodes and its drafts are decode.
enum class PassKind : uint8_t { prefill, decode, mixed };
inline constexpr size_t kNumPassKinds = 3;

/// The passes of one kind. With several in flight, a wait counts for the pass that is collected.
struct PassTotals {
  int64_t passes = 0;    // collected
  int64_t verdicts = 0;  // (sequence, pass) pairs that emitted
  PhaseSeconds seconds;
};
using PassTotalsByKind = std::array<PassTotals, kNumPassKinds>;  // [PassKind]

struct EngineCounters {
  int64_t steps = 0;     // batches collected
  int64_t verdicts = 0;  // (sequence, step) pairs that emitted
  int64_t drafts = 0;    // of those, with at least one draft
  int64_t drafted = 0;   // draft tokens verified
  int64_t accepted = 0;
  int64_t emitted = 0;  // output tokens
  int64_t prompt_tokens_computed = 0;
  int64_t preemptions = 0;
  int64_t swapped_blocks = 0;                       // KV blocks copied to host memory
  int64_t dead_rows = 0;                            // rows computed for sequences that had already ended
  int64_t mixed_steps = 0;                          // batches that held prefill and decode rows together
  int64_t block_crossings = 0;                      // draft windows that crossed a block boundary
  std::array<int64_t, kMaxDraftLen> accepted_at{};  // [i]: steps that kept more than i drafts
  std::array<int64_t, kMaxDraftLen> proposed_at{};  // [i]: steps whose drafts reached more than i positions
};

}  // namespace paceline
