// An EAGLE-3 head on real states: the drafts and logits of tests/data/make_eagle3_goldens.py, in float64; texts equal
// to plain decoding, and drafts to those of a fresh cache, whatever comes between; as many tokens a step as it was
// trained for.

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "speculative/cascade_proposer.h"
#include "speculative/ngram_proposer.h"
#include "speculative/selftest/fresh_drafts.h"
#include "tests/speculative/lossless/prompts.h"
#include "tests/speculative/lossless/workload.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

struct HeadCase {
  std::filesystem::path target, head, golden;
};

std::vector<HeadCase> head_cases() {
  std::vector<HeadCase> cases{{.target = builtin_model("target-7m"),
                               .head = builtin_model("eagle3-target-7m"),
                               .golden = golden_model("eagle3") / "target_7m.json"}};
  const std::filesystem::path shared = source_dir().parent_path() / "shared" / "models";
  if (std::filesystem::exists(shared / "eagle3-target-42m"))
    cases.push_back({.target = shared / "target-42m",
                     .head = shared / "eagle3-target-42m",
                     .golden = golden_model("eagle3") / "target_42m.json"});
  return cases;
}

/// The token of each row of a head's logits.
std::vector<int32_t> ids_of(const std::filesystem::path& folder, const ModelSpec& target) {
  return load_eagle3_spec(folder, Checkpoint::open(folder), target).ids;
}

TEST(Eagle3, DraftsAreThoseOfTheReference) {
  constexpr int kDrafts = 5;
  for (const HeadCase& one : head_cases()) {
    SCOPED_TRACE(one.head.string());
    EngineRig rig({.target = one.target, .head = one.head, .dtype = DType::f32});
    const std::vector<int32_t> ids = ids_of(one.head, rig.spec());
    int num_read = 0;
    for (const nlohmann::json& golden : read_json(one.golden)) {
      const auto prompt = golden["prompt_ids"].get<std::vector<int32_t>>();
      auto text = prompt;
      text.push_back(golden["next"].get<int32_t>());
      const auto drafts = golden["drafts"].get<std::vector<int32_t>>();
      for (int count = num_read++ == 0 ? 1 : kDrafts; count <= kDrafts; ++count) {
        const MadeDrafts made = fresh_head_drafts(rig, prompt, count);
        EXPECT_EQ(made.text, text);
        EXPECT_EQ(made.drafts.token, std::vector<int32_t>(drafts.begin(), drafts.begin() + count));
        // Of the pass that made the last draft.
        const std::vector<float> logits = rig.head().newest_logits();
        for (const nlohmann::json& likely : golden["top5"][size_t(count) - 1]) {
          const auto row = std::lower_bound(ids.begin(), ids.end(), likely[0].get<int32_t>());
          ASSERT_TRUE(row != ids.end() && *row == likely[0].get<int32_t>()) << likely;
          EXPECT_NEAR(logits[size_t(row - ids.begin())], likely[1].get<float>(), 1e-4) << likely;
        }
      }
    }
  }
}

struct HeadCell {
  const char* name;
  int tp, pp, batch, budget;
  VerifyRule rule;
  PrefixCaching caching;
  double pool_share;  // as of blocks_for; below 1 sequences are preempted
  bool swaps;
  Eagle3DraftOptions draft = {};
  bool behind_lookup = false;  // which drafts where the last 4 tokens occurred before
};

void PrintTo(const HeadCell& cell, std::ostream* out) { *out << cell.name; }

class Eagle3Lossless : public testing::TestWithParam<HeadCell> {};

TEST_P(Eagle3Lossless, TokensEqualPlainDecodingAndDraftsThoseOfAFreshCache) {
  const HeadCell& cell = GetParam();
  const bool is_tree = cell.draft.width > 1;
  const int num_drafts = is_tree ? 12 : 4;
  if (cell.tp * cell.pp > most_rig_ranks()) GTEST_SKIP() << "more ranks than GPUs";
  Workload workload = Workload::trained(6, 4, 60);
  const auto rig_options = [&](int tp, int pp) {
    RigOptions options = workload.rig_options(tp, pp);
    options.max_draft_len = std::max(options.max_draft_len, num_drafts);
    return options;
  };
  EngineRig rig(rig_options(cell.tp, cell.pp));
  const auto requests = workload.requests({.rule = cell.rule,
                                           .seed = uint64_t(cell.batch),
                                           .num_distinct = 4,
                                           .min_requests = cell.batch + 4,
                                           .min_tokens = 700,
                                           .groups = cell.caching == PrefixCaching::on});
  std::vector<MadeDrafts> made;
  EngineSetup setup = recording(made, {.rule = cell.rule,
                                       .proposer_options = cell.draft,
                                       .num_speculative_tokens = num_drafts,
                                       .max_num_seqs = cell.batch,
                                       .max_num_batched_tokens = cell.budget,
                                       .prefix_caching = cell.caching});
  setup.num_blocks =
      std::min(blocks_for(requests, cell.batch, rig.options().block_size, cell.pool_share), rig.options().num_blocks);
  if (cell.swaps) setup.num_host_blocks = rig.options().num_host_blocks;
  if (cell.behind_lookup) {
    setup.may_be_passed_over = true;
    setup.wrap_proposer = [records = setup.wrap_proposer](std::unique_ptr<Proposer> head) {
      std::vector<std::unique_ptr<Proposer>> stages;
      stages.push_back(std::make_unique<NgramProposer>(NgramOptions{.min_n = 3, .max_n = 4}));
      stages.push_back(records(std::move(head)));
      return std::make_unique<CascadeProposer>(std::move(stages), 0.5);
    };
  }
  {
    const auto engine = rig.make_engine(setup);
    const RunReport report = run_checked(*engine, requests);
    EXPECT_TRUE(report.clean()) << report.describe();
    EXPECT_EQ(cell.pool_share<1, report.counters.preemptions> 0);
    EXPECT_EQ(cell.swaps, report.counters.swapped_blocks > 0);
    EXPECT_EQ(cell.caching == PrefixCaching::on, report.prefix_hit_tokens > 0);
    EXPECT_GT(report.counters.accepted, report.tokens / 4);
    EXPECT_EQ(is_tree, std::any_of(made.begin(), made.end(), [](const MadeDrafts& m) { return !m.drafts.is_chain(); }));
  }
  EngineRig fresh(rig_options(1, 1));
  const HeadFindings findings = compare_with_fresh_head(fresh, made, num_drafts, cell.draft, 60);
  EXPECT_EQ(findings.num_different, 0) << findings.first_difference;
  EXPECT_GT(findings.num_compared, 20);
}

const HeadCell kHeadCells[] = {
    {"alone", 1, 1, 1, 512, VerifyRule::greedy, PrefixCaching::off, 1.3, false},
    {"chunked", 1, 1, 5, 48, VerifyRule::greedy, PrefixCaching::off, 1.3, false},
    {"preempted", 1, 1, 5, 48, VerifyRule::coupled, PrefixCaching::off, 0.4, false},
    {"swapped", 1, 1, 5, 512, VerifyRule::greedy, PrefixCaching::off, 0.55, true},
    {"prefixes", 1, 1, 3, 512, VerifyRule::greedy, PrefixCaching::on, 1.3, false},
    {"prefixes_swapped", 1, 1, 5, 48, VerifyRule::greedy, PrefixCaching::on, 0.25, true},
    {"tp2", 2, 1, 3, 512, VerifyRule::greedy, PrefixCaching::on, 1.3, false},
    {"pp2", 1, 2, 5, 48, VerifyRule::greedy, PrefixCaching::off, 0.55, true},
    {"pp2_prefixes", 1, 2, 4, 512, VerifyRule::coupled, PrefixCaching::on, 1.3, false},
    {"tp2_pp2", 2, 2, 5, 48, VerifyRule::greedy, PrefixCaching::on, 0.25, true},
    {"tree", 1, 1, 1, 512, VerifyRule::greedy, PrefixCaching::off, 1.3, false, {.width = 3}},
    {"tree_preempted", 1, 1, 5, 96, VerifyRule::coupled, PrefixCaching::off, 0.4, false, {.width = 4, .depth = 4}},
    {"tree_tp2_prefixes_swapped", 2, 1, 5, 96, VerifyRule::greedy, PrefixCaching::on, 0.2, true, {.width = 3}},
    {"tree_pp2_prefixes", 1, 2, 4, 512, VerifyRule::greedy, PrefixCaching::on, 1.3, false, {.width = 2, .depth = 4}},
    {"lookup", 1, 1, 5, 48, VerifyRule::greedy, PrefixCaching::off, 1.3, false, {}, true},
    {"lookup_prefixes_swapped", 1, 1, 5, 48, VerifyRule::coupled, PrefixCaching::on, 0.25, true, {}, true},
    {"lookup_tree_preempted", 1, 1, 5, 96, VerifyRule::greedy, PrefixCaching::off, 0.2, false, {.width = 3}, true},
    {"lookup_tp2_pp2", 2, 2, 5, 48, VerifyRule::greedy, PrefixCaching::on, 0.25, true, {}, true},
};
INSTANTIATE_TEST_SUITE_P(Cells, Eagle3Lossless, testing::ValuesIn(kHeadCells),
                         [](const auto& info) { return std::string(info.param.name); });

// Texts that part right behind a block share the target's KV of it and not the head's.
TEST(Eagle3, ABlockIsSharedWithTheTokenBehindIt) {
  Workload workload = Workload::trained(4, 4, 60);
  EngineRig rig(workload.rig_options(1, 1)), fresh(workload.rig_options(1, 1));
  std::vector<MadeDrafts> made;
  auto engine = rig.make_engine(recording(made, {.num_speculative_tokens = 4, .prefix_caching = PrefixCaching::on}));
  SamplingParams params;
  params.max_tokens = 6;
  params.ignore_eos = true;
  for (const std::vector<int32_t>& text : workload_prompts("reading_qa", 12)) {
    const size_t shared = text.size() / size_t(rig.options().block_size) * size_t(rig.options().block_size);
    for (const int32_t change : {0, 1}) {
      std::vector<int32_t> prompt(text.begin(), text.begin() + std::ptrdiff_t(shared));
      prompt.push_back((text[shared - 1] + 100 + change) % rig.spec().vocab_size);
      made.clear();
      engine->submit(prompt, params);
      while (!engine->idle()) engine->step();
      ASSERT_FALSE(made.empty());
      const MadeDrafts want = fresh_head_drafts(fresh, prompt, 4);
      EXPECT_EQ(made.front().text, want.text);
      EXPECT_EQ(made.front().drafts.token, want.drafts.token);
    }
  }
  EXPECT_GE(engine->pool().prefix_hit_tokens(), 12 * 16);
}

/// Times that the host waited for the device in decoding one text with chains of `num_drafts`, a step.
double waits_per_step(EngineRig& rig, int num_drafts) {
  auto engine = rig.make_engine({.proposer = RigProposer::eagle3, .num_speculative_tokens = num_drafts});
  SamplingParams params;
  params.max_tokens = 96;
  params.ignore_eos = true;
  engine->submit(workload_prompts("reading_qa", 1).front(), params);
  while (engine->counters().drafts < 4) engine->step();
  const Backend& backend = *rig.team().rank(0).backend;
  const uint64_t waits = backend.traffic().host_waits;
  const int64_t steps = engine->counters().drafts;
  while (engine->counters().drafts < steps + 12) engine->step();
  return double(backend.traffic().host_waits - waits) / 12;
}

// The passes of a chain are launched one behind the other: the host waits for all drafts at once, and for the verdict.
TEST(Eagle3, TheHostDoesNotWaitBetweenPasses) {
  Workload workload = Workload::trained(1, 1, 60);
  EngineRig rig(workload.rig_options(1, 1));
  const double most = rig_device() == "cuda" ? 2 : 0;
  for (const int num_drafts : {1, 3, 5}) EXPECT_EQ(waits_per_step(rig, num_drafts), most) << num_drafts;
}

/// Tokens that a verdict on drafts gives, over reading_qa's first prompts, greedy.
double tokens_per_step(EngineRig& rig, int num_drafts, const Eagle3DraftOptions& options) {
  std::vector<MadeDrafts> made;
  auto engine = rig.make_engine(
      recording(made, {.proposer_options = options, .num_speculative_tokens = num_drafts, .max_num_seqs = 8}));
  SamplingParams params;
  params.max_tokens = 96;
  for (const std::vector<int32_t>& prompt : workload_prompts("reading_qa", 32)) engine->submit(prompt, params);
  while (!engine->idle()) engine->step();
  const EngineCounters& counters = engine->counters();
  return double(counters.emitted - 32) / double(counters.drafts);
}

TEST(Eagle3, KeepsAsManyDraftsAsItWasTrainedFor) {
  const double want[] = {3.56, 3.90};  // of chains of five
  const std::vector<HeadCase> cases = head_cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    EngineRig rig({.target = cases[i].target, .head = cases[i].head, .threads_per_rank = 2, .max_draft_len = 16});
    const double of_chain = tokens_per_step(rig, 5, {});
    EXPECT_NEAR(of_chain, want[i], 0.15) << cases[i].head;
    if (i > 0) continue;
    const double of_tree = tokens_per_step(rig, 16, {.width = 4});
    EXPECT_GE(of_tree, 1.10 * of_chain) << cases[i].head;
    RecordProperty("tokens_per_step_of_tree", std::to_string(of_tree / of_chain));
  }
}

}  // namespace
}  // namespace paceline::test
