// Drafts that branch: the output equals plain decoding's, whatever comes between, and paths that lie out of place are
// kept.

#include <algorithm>
#include <random>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/speculative/lossless/workload.h"

namespace paceline::test {
namespace {

/// Trees about the right answers: wrong siblings before and behind each right token, some of which go on, and a right
/// token that is missing now and then.
class BranchingProposer final : public Proposer {
 public:
  BranchingProposer(const std::vector<CheckedRequest>& requests, int vocab_size)
      : requests_(requests), vocab_size_(vocab_size) {}

  std::string_view name() const override { return "branching"; }
  bool branches() const override { return true; }
  void end(const Sequence&) override {}
  void preempt(SeqId) override {}

  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override {
    for (size_t i = 0; i < requests.size(); ++i) {
      const Sequence& seq = *requests[i].seq;
      out[i] = {.committed = seq.length(), .draft = {}, .probs = {}};
      grow(seq, requests[i].max_drafts, requests[i].max_depth, out[i].draft);
    }
  }
  void observe(const Sequence&, const Verdict& verdict) override {
    num_out_of_place += !path_out_of_place(verdict.path).empty();
    deepest = std::max(deepest, int(verdict.path.size()));
  }

  int64_t num_out_of_place = 0;  // verdicts
  int deepest = 0;               // accepted path

 private:
  void grow(const Sequence& seq, int max_nodes, int max_depth, DraftTree& tree) const {
    const CheckedRequest& request = requests_[size_t(seq.id - 1)];
    const size_t done = seq.tokens.size() - request.prompt.size();
    std::mt19937 random(unsigned(seq.id) * 7919u + unsigned(seq.tokens.size()));
    int32_t parent = DraftTree::kRoot;
    const auto room = [&] { return tree.size() < max_nodes; };
    for (int depth = 0; depth < max_depth && done + size_t(depth) < request.expected.size() && room(); ++depth) {
      const int32_t right = request.expected[done + size_t(depth)];
      const int num_wrong = int(random() % 4), place = int(random() % unsigned(num_wrong + 1));
      const bool missing = random() % 6 == 0;
      int32_t right_node = DraftTree::kRoot;
      for (int i = 0; i <= num_wrong && room(); ++i) {
        if (i == place) {
          if (!missing) right_node = tree.add(right, parent);
          continue;
        }
        int32_t wrong = tree.add((right + 1 + i) % vocab_size_, parent);
        while (depth + 1 < max_depth && room() && random() % 3 == 0) {
          wrong = tree.add(right, wrong);
          if (int(tree.depths().back()) + 1 >= max_depth) break;
        }
      }
      if (right_node == DraftTree::kRoot) return;
      parent = right_node;
    }
  }

  const std::vector<CheckedRequest>& requests_;
  const int vocab_size_;
};

struct TreeCell {
  std::string model;  // a golden; empty: target-7m
  int tp, pp, batch, nodes, budget;
  VerifyRule rule;
  PrefixCaching caching;
  double pool_share;  // as of blocks_for; below 1 sequences are preempted
  bool swaps;
};

void PrintTo(const TreeCell& cell, std::ostream* out) { *out << cell.model << " tp" << cell.tp << " pp" << cell.pp; }

class TreeLossless : public testing::TestWithParam<TreeCell> {};

TEST_P(TreeLossless, TokensEqualPlainDecoding) {
  const TreeCell& cell = GetParam();
  if (cell.tp * cell.pp > most_rig_ranks()) GTEST_SKIP() << "more ranks than GPUs";
  Workload workload = cell.model.empty() ? Workload::trained(6, 4, 60) : Workload::golden(cell.model, 6, 40);
  RigOptions options = workload.rig_options(cell.tp, cell.pp);
  options.max_draft_len = cell.nodes;
  EngineRig rig(options);
  const auto requests = workload.requests({.rule = cell.rule,
                                           .seed = uint64_t(cell.nodes),
                                           .num_distinct = 4,
                                           .min_requests = cell.batch + 4,
                                           .min_tokens = cell.model.empty() ? 700 : 300});
  BranchingProposer* proposer = nullptr;
  EngineSetup setup{.proposer = RigProposer::ngram,
                    .rule = cell.rule,
                    .num_speculative_tokens = cell.nodes,
                    .max_num_seqs = cell.batch,
                    .max_num_batched_tokens = cell.budget,
                    .prefix_caching = cell.caching};
  setup.wrap_proposer = [&](std::unique_ptr<Proposer>) {
    auto made = std::make_unique<BranchingProposer>(requests, rig.spec().vocab_size);
    proposer = made.get();
    return made;
  };
  setup.num_blocks =
      std::min(blocks_for(requests, cell.batch, rig.options().block_size, cell.pool_share), rig.options().num_blocks);
  if (cell.swaps) setup.num_host_blocks = rig.options().num_host_blocks;
  const auto engine = rig.make_engine(setup);
  const RunReport report = run_checked(*engine, requests);
  EXPECT_TRUE(report.clean()) << report.describe();
  EXPECT_EQ(cell.pool_share<1, report.counters.preemptions> 0);
  EXPECT_EQ(cell.swaps, report.counters.swapped_blocks > 0);
  if (cell.caching == PrefixCaching::on) {
    EXPECT_GT(report.prefix_hit_tokens, 0);
  }
  EXPECT_GT(report.counters.accepted, report.tokens / 4);
  EXPECT_GT(report.counters.drafted, 2 * report.counters.accepted);
  EXPECT_GT(proposer->num_out_of_place, 20);
  EXPECT_GE(proposer->deepest, 3);
}

// No token equality with plain decoding; but the same seed gives the same tokens whatever else is in the batch.
TEST(TreeRejection, SameSeedSameTokensWhateverElseIsInTheBatch) {
  Workload workload = Workload::trained(4, 4, 40);
  auto requests = workload.requests({.rule = VerifyRule::coupled, .seed = 3, .min_requests = 8});
  std::vector<std::vector<int32_t>> first;
  for (const auto& [tp, pp, batch] : {std::tuple{1, 1, 1}, {1, 1, 5}, {2, 1, 5}, {1, 2, 3}}) {
    if (tp * pp > most_rig_ranks()) continue;
    RigOptions options = workload.rig_options(tp, pp);
    options.max_draft_len = 12;
    EngineRig rig(options);
    EngineSetup setup{.proposer = RigProposer::ngram,
                      .rule = VerifyRule::rejection,
                      .num_speculative_tokens = 12,
                      .max_num_seqs = batch};
    const BranchingProposer* proposer = nullptr;
    setup.wrap_proposer = [&](std::unique_ptr<Proposer>) {
      auto made = std::make_unique<BranchingProposer>(requests, rig.spec().vocab_size);
      proposer = made.get();
      return made;
    };
    const auto engine = rig.make_engine(setup);
    for (const CheckedRequest& request : requests) engine->submit(request.prompt, request.params);
    std::vector<std::vector<int32_t>> tokens(requests.size());
    while (!engine->idle())
      for (const Emitted& emitted : engine->step()) {
        auto& mine = tokens[size_t(emitted.seq - 1)];
        mine.insert(mine.end(), emitted.token.begin(), emitted.token.end());
      }
    EXPECT_GT(engine->counters().accepted, 20);
    EXPECT_GT(proposer->num_out_of_place, 5);
    if (first.empty()) first = tokens;
    EXPECT_EQ(tokens, first) << "tp " << tp << " pp " << pp << " batch " << batch;
  }
}

constexpr auto kOff = PrefixCaching::off, kOn = PrefixCaching::on;
const TreeCell kTreeCells[] = {
    {"", 1, 1, 1, 16, 512, VerifyRule::greedy, kOff, 1.3, false},
    {"", 1, 1, 5, 12, 48, VerifyRule::coupled, kOff, 0.4, false},
    {"", 2, 1, 3, 24, 512, VerifyRule::greedy, kOn, 1.3, false},
    {"", 1, 2, 5, 16, 512, VerifyRule::coupled, kOff, 0.55, true},
    {"", 2, 2, 5, 8, 48, VerifyRule::greedy, kOn, 0.55, true},
    {"", 1, 2, 4, 64, 512, VerifyRule::greedy, kOn, 1.3, false},
    {"qwen2-windows", 1, 1, 5, 16, 24, VerifyRule::greedy, kOff, 0.3, false},
    {"gemma2", 2, 1, 5, 12, 512, VerifyRule::coupled, kOn, 1.3, false},
    {"gpt2-unscaled", 1, 2, 5, 16, 512, VerifyRule::greedy, kOff, 0.55, true},
    {"falcon-new", 2, 2, 3, 8, 24, VerifyRule::greedy, kOff, 1.3, false},
};
INSTANTIATE_TEST_SUITE_P(Cells, TreeLossless, testing::ValuesIn(kTreeCells), [](const auto& info) {
  std::string name = info.param.model.empty() ? "target_7m" : info.param.model;
  std::replace(name.begin(), name.end(), '-', '_');
  return fmt::format("{}_tp{}_pp{}_nodes{}", name, info.param.tp, info.param.pp, info.param.nodes);
});

}  // namespace
}  // namespace paceline::test
