#include "experiments/run/measure/target_logits.h"

#include <algorithm>
#include <numeric>

#include "engine/batch_rows.h"
#include "engine/cache/kv_slot.h"

namespace paceline {

TwoLogits ModelLogits::compute(std::span<const int32_t> prefix) {
  const Passes few{.most_rows = std::min(kFewestFastRows - 1, room_.max_num_rows)};
  // A row more than are wanted: else the last layer drops none, and would go through all of them.
  const int fewest = std::min(kFewestFastRows + 1, room_.max_num_rows);
  const Passes many{.most_rows = room_.max_num_rows,
                    .fewest_rows = fewest,
                    .logit_rows = std::max(1, std::min({kFewestFastRows, room_.max_num_logit_rows, fewest - 1}))};
  return {.many = run(prefix, many), .few = run(prefix, few)};
}

std::vector<float> ModelLogits::run(std::span<const int32_t> prefix, const Passes& passes) {
  const int length = int(prefix.size());
  std::vector<int32_t> pages(size_t(kv_blocks(length, room_.block_size)));
  std::iota(pages.begin(), pages.end(), 0);
  const int num_pieces = (length + passes.most_rows - 1) / passes.most_rows;
  for (int piece = 0; piece < num_pieces; ++piece) {
    const auto bound = [&](int index) { return int(int64_t{length} * index / num_pieces); };
    auto batch = std::make_shared<Batch>();
    batch->step = 1;
    add_rows(*batch, {.state = {.seq = 0, .cached = bound(piece), .length = length, .last_token = prefix.back()},
                      .tokens = prefix,
                      .pages = pages,
                      .block_size = room_.block_size,
                      .end = bound(piece + 1),
                      .reset = true});
    if (!batch->logit_row.empty()) batch->logit_row.assign(size_t(passes.logit_rows), batch->logit_row.back());
    add_padding_rows(*batch, passes.fewest_rows - batch->num_rows());
    batch->digest = digest_of(batch->expected);
    model_.launch(batch);
  }
  std::vector<float> logits;
  model_.wait(model_.post([&](Rank& rank) {
    const Logits found = model_.logits();
    logits = download_rows(*rank.backend, found.rows.row_range(0, 1), found.vocab_size);
  }));
  return logits;
}

}  // namespace paceline
