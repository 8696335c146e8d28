#pragma once
// Single passes of a load's target, made by hand, for benchmarks. One rank, no engine beside it; one thread.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/batch_rows.h"
#include "experiments/run/engine_load.h"
#include "kernels/cpu/ceilings.h"

namespace paceline {

inline constexpr int kStepBlockSize = 16;  // tokens of a page

/// Pages of stream `stream`, of which each has `count`.
inline std::vector<int32_t> pages_of(int stream, int count) {
  std::vector<int32_t> pages;
  for (int page = 0; page < count; ++page) pages.push_back(stream * count + page);
  return pages;
}

/// Rows [begin, end) of a text, with logits for the last `logits` of them.
struct TextRows {
  int begin = 0;
  int end = 1;
  int logits = 1;
};

/// Appends the rows as those of a sequence that is new to slot `seq`. pages: covering [0, end).
inline void add_text_rows(Batch& batch, int seq, std::span<const int32_t> text, std::span<const int32_t> pages,
                          const TextRows& rows) {
  const size_t logits_before = batch.logit_row.size();
  add_rows(batch,
           {.state = {.seq = seq, .cached = rows.begin, .length = rows.end, .last_token = text[size_t(rows.end - 1)]},
            .tokens = text.first(size_t(rows.end)),
            .pages = pages,
            .block_size = kStepBlockSize,
            .end = rows.end,
            .reset = true});
  batch.logit_row.resize(logits_before);
  for (int row = batch.num_rows() - rows.logits; row < batch.num_rows(); ++row) batch.logit_row.push_back(row);
}

/// A batch of one sequence.
inline std::shared_ptr<const Batch> text_batch(std::span<const int32_t> text, std::span<const int32_t> pages,
                                               const TextRows& rows) {
  auto batch = std::make_shared<Batch>();
  batch->step = 1;
  add_text_rows(*batch, 0, text, pages, rows);
  batch->digest = digest_of(batch->expected);
  return batch;
}

/// The target of a load, and what its passes cost.
struct Stepper {
  Model& model;
  Backend& backend;
  explicit Stepper(EngineLoad& load) : model(load.target()), backend(*load.team().rank(0).backend) {}

  /// Tokens of a made-up text.
  std::vector<int32_t> text(int length) const {
    std::vector<int32_t> out(static_cast<size_t>(length));
    for (size_t i = 0; i < out.size(); ++i) out[i] = int32_t((i * 2654435761u) % uint32_t(model.spec().vocab_size));
    return out;
  }
  /// Until the host has given out the pass, which on a CPU is all of it.
  double host_seconds(const std::shared_ptr<const Batch>& batch) const {
    const auto begin = ceilings::Clock::now();
    model.wait(model.launch(batch));
    return ceilings::seconds_since(begin);
  }
  double seconds(const std::shared_ptr<const Batch>& batch) const {
    const auto begin = ceilings::Clock::now();
    host_seconds(batch);
    backend.sync();
    return ceilings::seconds_since(begin);
  }
  /// By turns, each the best of `tries`: the medians of batch's seconds, and of its seconds over those of `base`.
  std::pair<double, double> by_turns(const std::shared_ptr<const Batch>& batch,
                                     const std::shared_ptr<const Batch>& base, int rounds, int tries) const {
    const auto best = [&](const std::shared_ptr<const Batch>& of) {
      double least = seconds(of);
      for (int more = 1; more < tries; ++more) least = std::min(least, seconds(of));
      return least;
    };
    std::vector<double> times, ratios;
    for (int round = 0; round < rounds; ++round) {
      const double of_base = best(base);
      times.push_back(best(batch));
      ratios.push_back(times.back() / of_base);
    }
    return {ceilings::median(times), ceilings::median(ratios)};
  }
  Traffic traffic(const std::shared_ptr<const Batch>& batch) const {
    const Traffic before = backend.traffic();
    seconds(batch);
    Traffic counted = backend.traffic() - before;
    counted.host_waits = 0;  // now and then one more, for room in a ring
    return counted;
  }
};

}  // namespace paceline
