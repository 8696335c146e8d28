// Speculative output equals plain output, token for token, over a pairwise covering array of everything that could
// come between them. PACELINE_MATRIX_TOKENS sets how many tokens are compared, PACELINE_RIG_DEVICE where.

#include <cstdlib>
#include <iostream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "speculative/cascade_proposer.h"
#include "speculative/ngram_proposer.h"
#include "speculative/suffix_proposer.h"
#include "tests/speculative/lossless/covering_array.h"
#include "tests/speculative/lossless/workload.h"
#include "tests/support/long_samples.h"

namespace paceline::test {
namespace {

constexpr uint64_t kSeed = 7;
constexpr int64_t kShortTokens = 60'000, kLongTokens = 1'000'000;
constexpr double kTrainedShare = 0.82;      // of the tokens from trained models; at least 80 % are wanted
constexpr double kMinShare = 0.05;          // of accepted and of rejected drafts in a cell
constexpr int64_t kMinDraftsToJudge = 300;  // fewer drafts say nothing about a share of 5 %
constexpr int64_t kMinTokensToJudgeGolden = 200;
constexpr int64_t kMinTokensToJudgeRun = 20'000;
constexpr int64_t kMinTokensToJudgeCell = 100'000;  // of the run

struct Layout {
  int tp, pp;
};
constexpr Layout kLayouts[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};
int64_t token_goal() {
  const char* text = std::getenv("PACELINE_MATRIX_TOKENS");
  return text ? std::max<int64_t>(1000, std::atoll(text)) : long_samples() ? kLongTokens : kShortTokens;
}

/// Few tokens, as under sanitizers, go to chains of those that are no bounds: trees have cells of their own elsewhere.
std::vector<RigProposer> proposers_for(int64_t goal) {
  std::vector<RigProposer> proposers = drafting_rig_proposers();
  if (goal < 10'000)
    std::erase_if(proposers, [](const RigProposer& p) { return p.branches || proposer_entry(p.name).knows_texts(); });
  return proposers;
}

const std::vector<RigProposer> kProposers = proposers_for(token_goal());
constexpr int kDraftLens[] = {1, 2, 3, 5, 8};
constexpr int kBatches[] = {1, 3, 16};
constexpr VerifyRule kRules[] = {VerifyRule::greedy, VerifyRule::coupled};
constexpr int kBudgets[] = {48, 512};
enum class Pool : uint8_t { ample, tight, swapping };  // swapping: tight, and preempted KV goes to host memory
constexpr const char* kPoolNames[] = {"ample", "tight", "swap"};

struct Cell {
  RigProposer proposer;
  int draft_len;
  int batch;
  PrefixCaching caching;
  Pool pool;
  int layout;
  VerifyRule rule;
  int budget;  // tokens of one step: the small one cuts every prompt into chunks

  int rank_count() const { return kLayouts[layout].tp * kLayouts[layout].pp; }
};

const std::vector<int> kNumValues = {int(kProposers.size()), 5, 3, 2, 3, 4, 2, 2};

std::vector<Cell> make_cells() {
  std::vector<Cell> cells;
  for (const auto& row : covering_array(kNumValues, kSeed)) {
    cells.push_back({.proposer = kProposers[size_t(row[0])],
                     .draft_len = kDraftLens[row[1]],
                     .batch = kBatches[row[2]],
                     .caching = row[3] ? PrefixCaching::on : PrefixCaching::off,
                     .pool = Pool(row[4]),
                     .layout = row[5],
                     .rule = kRules[row[6]],
                     .budget = kBudgets[row[7]]});
    if (cells.back().rank_count() > most_rig_ranks()) cells.pop_back();
  }
  return cells;
}

/// Shares of the token goal: cells that run many sequences at once are cheaper per token.
double weight_of(const Cell& cell) {
  const double batch = cell.batch == 1 ? 0.5 : cell.batch == 3 ? 1.0 : 1.6;
  return batch * (cell.rank_count() == 4 ? 0.6 : 1.0);
}

/// Of what the largest sequences of a batch fill when all of them are at their ends.
double pool_share(const Cell& cell) {
  if (cell.pool == Pool::ample) return cell.batch == 1 && cell.caching == PrefixCaching::on ? 4.0 : 1.3;
  // Under the small budget few of many sequences get rows at all.
  return cell.batch == 16 && cell.budget < 100 ? 0.25 : 0.55;
}

RunReport run_cell(const Cell& cell, size_t index, EngineRig& rig, Workload& workload, int64_t goal) {
  // A lone sequence is never preempted: where that is asked for, two run at a time.
  const int concurrency = cell.pool == Pool::ample ? cell.batch : std::max(2, cell.batch);
  Workload::RequestOptions wanted{
      .rule = cell.rule, .seed = kSeed + 1000 * index, .min_requests = concurrency + 2, .min_tokens = goal};
  if (cell.caching == PrefixCaching::on) wanted.num_distinct = concurrency <= 3 ? 2 : 10;  // prompts come again soon
  wanted.max_tokens = int(std::max<int64_t>(12, goal / (concurrency + 2)));
  const auto requests = workload.requests(wanted);
  EngineSetup setup{.proposer = cell.proposer,
                    .rule = cell.rule,
                    .num_speculative_tokens = cell.draft_len,
                    .max_num_seqs = concurrency,
                    .max_num_batched_tokens = cell.budget,
                    .prefix_caching = cell.caching};
  if (cell.proposer.name == RigProposer::ngram.name) {
    const NgramMatch match = cell.proposer.branches ? NgramMatch::tree
                             : index % 2            ? NgramMatch::last
                                                    : NgramMatch::first;
    setup.proposer_options = NgramOptions{.min_n = 1, .max_n = 4, .match = match};
  }
  if (cell.proposer.name == "suffix" && cell.caching == PrefixCaching::on)  // else it has seen nearly every answer
    setup.proposer_options = SuffixOptions{.branches = cell.proposer.branches, .store = SuffixStore::request};
  if (cell.proposer.name == "cascade")
    setup.proposer_options = CascadeOptions{.stages = index % 2 ? "ngram, suffix, eagle3" : "suffix, draft"};
  if (index % 2) setup.draft_placement = DraftPlacement::last_stage;
  setup.num_blocks =
      std::min(blocks_for(requests, concurrency, rig.options().block_size, pool_share(cell)), rig.options().num_blocks);
  if (cell.pool == Pool::swapping) setup.num_host_blocks = rig.options().num_host_blocks;
  std::any kept;
  if (proposer_entry(cell.proposer.name).knows_texts()) kept = texts_of(requests);
  setup.kept = &kept;
  auto engine = rig.make_engine(setup);
  return run_checked(*engine, requests, {.before_step = {}, .draft = rig.draft_proposer(), .cancelled = nullptr});
}

void print_header() {
  fmt::print(
      "{:>4} {:<10} {:>2} {:>5} {:<5} {:<5} {:<9} {:<7} {:>6} | {:>7} {:>7} {:>8} {:>5} {:>7} {:>6} {:>6} {:>7}\n",
      "cell", "proposer", "k", "batch", "cache", "pool", "ranks", "rule", "budget", "tokens", "drafted", "accepted",
      "wrong", "preempt", "hits", "mixed", "crossed");
}

void print_cell(size_t index, const Cell& cell, const RunReport& report) {
  const Layout& layout = kLayouts[cell.layout];
  const std::string ranks = fmt::format("TP{}xPP{}", layout.tp, layout.pp);
  fmt::print(
      "{:>4} {:<10} {:>2} {:>5} {:<5} {:<5} {:<9} {:<7} {:>6} | {:>7} {:>7} {:>7.1f}% {:>5} {:>7} {:>6} {:>6} {:>7}\n",
      index, rig_proposer_name(cell.proposer), cell.draft_len, cell.batch,
      cell.caching == PrefixCaching::on ? "on" : "off", kPoolNames[size_t(cell.pool)], ranks,
      cell.rule == VerifyRule::greedy ? "greedy" : "coupled", cell.budget, report.tokens, report.counters.drafted,
      100.0 * report.accepted_share(), report.mismatches, report.counters.preemptions, report.prefix_hit_tokens,
      report.counters.mixed_steps, report.counters.block_crossings);
  std::cout.flush();
}

/// What a cell that forces something is for must have happened; too short a run may miss it.
void judge_events(const Cell& cell, const RunReport& report) {
  EXPECT_TRUE(cell.pool == Pool::ample || report.counters.preemptions > 0) << "nothing was preempted";
  EXPECT_EQ(cell.pool == Pool::swapping, report.counters.swapped_blocks > 0) << "what was preempted was not swapped";
  EXPECT_TRUE(cell.caching == PrefixCaching::off || report.prefix_hit_tokens > 0) << "no prefix was found";
  EXPECT_GT(report.counters.block_crossings, 0);
}

void judge_cell(const Cell& cell, const RunReport& trained, const RunReport& golden) {
  const bool all_right = (cell.proposer.self && !cell.proposer.branches) || cell.proposer.name == "oracle";
  const bool all_wrong = cell.proposer.name == "reject_all";
  for (const RunReport* report : {&trained, &golden}) {
    EXPECT_TRUE(report->clean()) << report->describe();
    // A few random tokens may hold nothing to look up; learnt text always does.
    const bool must_propose = report == &trained || report->tokens >= kMinTokensToJudgeGolden;
    EXPECT_TRUE(!must_propose || report->counters.drafted > 0) << "nothing was proposed";
    if (all_right) {
      EXPECT_EQ(report->counters.accepted, report->counters.drafted) << "a draft that is right was rejected";
    }
    if (all_wrong) {
      EXPECT_EQ(report->counters.accepted, 0) << "a draft that is wrong was kept";
    }
  }
  if (cell.proposer.self || all_right || all_wrong || trained.counters.drafted < kMinDraftsToJudge) return;
  EXPECT_GE(trained.accepted_share(), kMinShare);
  EXPECT_LE(trained.accepted_share(), 1.0 - kMinShare);
}

TEST(CoveringArray, EveryPairOfValuesOccurs) {
  const auto rows = covering_array(kNumValues, kSeed);
  EXPECT_EQ(num_missing_pairs(kNumValues, rows), 0);
  EXPECT_LE(rows.size(), kProposers.size() * std::size(kDraftLens) + 5);  // no fewer could do
  EXPECT_EQ(rows, covering_array(kNumValues, kSeed));
  auto without = rows;
  without.erase(without.begin());  // greedy: the first row's pairs are its own or others'
  std::vector<std::vector<int>> one_value(without);
  for (auto& row : one_value) row[1] = 0;
  EXPECT_GT(num_missing_pairs(kNumValues, one_value), 0) << "the count sees no gap";
}

TEST(LosslessMatrix, TokensEqualPlainDecoding) {
  const int64_t goal = token_goal();
  const auto cells = make_cells();
  double weight_per_rule[2] = {0, 0};
  for (const Cell& cell : cells) weight_per_rule[cell.rule == VerifyRule::coupled] += weight_of(cell);

  const int num_prompts = int(std::clamp<int64_t>(goal / 8000, 6, 64));
  Workload trained = Workload::trained(num_prompts, std::min(num_prompts, 24), goal < 50'000 ? 64 : 128);
  Workload goldens[] = {Workload::golden("llama-gqa-tied", num_prompts, 64),
                        Workload::golden("llama", num_prompts, 64)};

  RunReport total, total_trained;
  int64_t tokens_per_rule[2] = {0, 0};
  print_header();
  for (int layout = 0; layout < 4; ++layout) {  // one load of each model per layout
    if (kLayouts[layout].tp * kLayouts[layout].pp > most_rig_ranks()) continue;
    EngineRig trained_rig(trained.rig_options(kLayouts[layout].tp, kLayouts[layout].pp));
    EngineRig golden_rigs[] = {EngineRig(goldens[0].rig_options(kLayouts[layout].tp, kLayouts[layout].pp)),
                               EngineRig(goldens[1].rig_options(kLayouts[layout].tp, kLayouts[layout].pp))};
    for (size_t i = 0; i < cells.size(); ++i) {
      const Cell& cell = cells[i];
      if (cell.layout != layout) continue;
      SCOPED_TRACE(fmt::format("cell {}", i));
      const bool coupled = cell.rule == VerifyRule::coupled;
      const double cell_goal = 0.5 * double(goal) * weight_of(cell) / weight_per_rule[coupled];
      const RunReport on_trained = run_cell(cell, i, trained_rig, trained, int64_t(cell_goal * kTrainedShare) + 1);
      const RunReport on_golden =
          run_cell(cell, i, golden_rigs[i % 2], goldens[i % 2], int64_t(cell_goal * (1.0 - kTrainedShare)) + 1);
      judge_cell(cell, on_trained, on_golden);
      RunReport both = on_trained;
      both.add(on_golden);
      print_cell(i, cell, both);
      if (goal >= kMinTokensToJudgeCell) judge_events(cell, both);
      total.add(both);
      total_trained.add(on_trained);
      tokens_per_rule[coupled] += both.tokens;
    }
  }
  fmt::print(
      "{} cells, {} tokens compared ({:.1f} % trained models, {} greedy, {} coupled), {} reference tokens; {} drafted, "
      "{} accepted; {} mismatches; {} preemptions, {} prefix-hit tokens, {} mixed steps, {} windows over a block "
      "boundary\n",
      cells.size(), total.tokens, 100.0 * double(total_trained.tokens) / double(total.tokens), tokens_per_rule[0],
      tokens_per_rule[1],
      trained.num_reference_tokens() + goldens[0].num_reference_tokens() + goldens[1].num_reference_tokens(),
      total.counters.drafted, total.counters.accepted, total.mismatches, total.counters.preemptions,
      total.prefix_hit_tokens, total.counters.mixed_steps, total.counters.block_crossings);

  EXPECT_TRUE(total.clean()) << total.describe();
  EXPECT_GE(total.tokens, goal);
  EXPECT_GT(total.counters.mixed_steps, 0);
  EXPECT_GT(total.counters.block_crossings, 0);
  EXPECT_GT(total.prefix_hit_tokens, 0);
  EXPECT_GT(total.counters.preemptions, 0);
  if (goal < kMinTokensToJudgeRun) return;
  EXPECT_GE(double(total_trained.tokens), 0.8 * double(total.tokens));
  EXPECT_NEAR(double(tokens_per_rule[0]) / double(total.tokens), 0.5, 0.03);
}

}  // namespace
}  // namespace paceline::test
