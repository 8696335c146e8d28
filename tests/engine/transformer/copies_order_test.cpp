// Copies of KV keep the order of launches, also where these run at once (a draft model on the deciding rank).

#include "model_rig.h"

namespace paceline {
namespace {

using test::ModelRig;
using test::sample_text;

class CopiesOrder : public testing::TestWithParam<StreamOrder> {
 protected:
  CopiesOrder()
      : rig_({.folder = "tests/data/llama",
              .pp = GetParam() == StreamOrder::at_once ? 2 : 1,
              .ranks = RankSet::deciding,
              .order = GetParam(),
              .num_host_blocks = 2}),
        tokens_(sample_text(rig_.block_size() + 1, rig_.spec().vocab_size)) {
    const std::vector<int32_t> first(tokens_.begin(), tokens_.end() - 1);
    rig_.run({{.tokens = first, .pages = {0}, .end = int(first.size())}});
    expected_ = last_row({0, 1});
  }

  /// Logits of the last token, whose predecessors lie in the first of `pages`.
  std::vector<float> last_row(const std::vector<int32_t>& pages) {
    const int last = int(tokens_.size()) - 1;
    return rig_.run({{.tokens = tokens_, .pages = pages, .begin = last, .end = last + 1}});
  }

  ModelRig rig_;
  std::vector<int32_t> tokens_;
  std::vector<float> expected_;
};

TEST_P(CopiesOrder, MovesComeBeforeTheNextPass) {
  std::vector<SlotMove> moves;
  for (int i = 0; i < rig_.block_size(); ++i) moves.push_back({.from = i, .to = 3 * rig_.block_size() + i});
  EXPECT_NE(last_row({3, 1}), expected_);
  rig_.model().move_kv(moves);
  EXPECT_EQ(last_row({3, 1}), expected_);
}

TEST_P(CopiesOrder, SwapsComeBeforeTheNextPass) {
  const std::vector<BlockSwap> swaps{{.block = 0, .host_block = 1, .to_host = true},
                                     {.block = 5, .host_block = 1, .to_host = false}};
  EXPECT_NE(last_row({5, 1}), expected_);
  rig_.model().swap_kv(swaps);
  EXPECT_EQ(last_row({5, 1}), expected_);
}

INSTANTIATE_TEST_SUITE_P(Orders, CopiesOrder, testing::Values(StreamOrder::in_order, StreamOrder::at_once),
                         [](const auto& each) { return each.param == StreamOrder::at_once ? "at_once" : "in_order"; });

}  // namespace
}  // namespace paceline
