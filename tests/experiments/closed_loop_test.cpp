// Whether cells had the concurrency that they are named by, and what of it texts and the verdict say.

#include <gtest/gtest.h>

#include "experiments/analysis/metrics/loads.h"
#include "experiments/report/text/text.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/experiments/verdict_rig.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using test::holds;

/// 28 cells a concurrency, 26 of them done, of 12 requests with prompts of 240 tokens.
RunResult run_of(std::vector<int> concurrencies, std::optional<int> max_num_seqs = {}) {
  RunResult run = test::synthetic_run({.concurrencies = std::move(concurrencies)});
  for (CellResult& cell : run.cells)
    if (max_num_seqs) cell.effective["max_num_seqs"] = *max_num_seqs;
  return run;
}

/// What is said of concurrencies that were not reached; empty: nothing.
std::string unreached(const RunResult& run) {
  std::string said;
  for (const std::string& sentence : test::sentences(run))
    if (sentence.starts_with("Concurrency ")) said += sentence;
  return said;
}

/// The lines "load" at the end of a run.
std::vector<std::string> load_lines(const RunResult& run) {
  const std::string text = end_of_run_text(run, summarize(run), TextColor::off), head = "\n  load    ";
  std::vector<std::string> lines;
  for (size_t at = text.find(head); at != std::string::npos; at = text.find(head, at + 1))
    lines.push_back(text.substr(at + head.size(), text.find('\n', at + 1) - at - head.size()));
  return lines;
}

const char* const kLittle =
    "closed loop: a request is sent when another ends; ttft holds the step under way and prompts of others";

TEST(ClosedLoop, OfRecordsThatDoNotSayNothingIsClaimed) {
  const RunResult run = run_of({5});
  const ClosedLoop loop = *closed_loop_of(run.cells[0]);
  EXPECT_EQ(loop.in_batch, 5);
  EXPECT_TRUE(loop.is_reached());
  EXPECT_EQ(loop.waits_for, WaitsFor::nothing);
  EXPECT_EQ(unreached(run), "");
  EXPECT_EQ(load_lines(run), std::vector<std::string>{kLittle});
  CellResult open = run.cells[0];
  open.load = "offline";
  EXPECT_FALSE(closed_loop_of(open));
}

TEST(ClosedLoop, BelowFiveRequestsAPlaceARowSaysOneWave) {
  const RunResult run = run_of({1, 2, 3, 12});  // 12 requests
  const RunSummary summary = summarize(run);
  for (const CellSummary& s : summary.cells) {
    const CellResult& cell = run.cells[s.cell];
    if (!s.rankable) continue;
    EXPECT_EQ(holds(cell_verdict(VerdictView(run, summary), s), ", one wave"), cell.axes.concurrency > 2) << cell.id;
  }
}

TEST(ClosedLoop, MoreThanThereAreRequestsIsNotReached) {
  const RunResult run = run_of({1, 16, 32}, 64);
  EXPECT_EQ(unreached(run),
            "Concurrency 16 and 32 were not reached in 52 cells: at most 12 requests were in flight, as there are no "
            "more (workload.requests).");
  RunResult few = run_of({16}, 64);  // three labels would not fit into a headline
  few.cells.resize(3);
  EXPECT_TRUE(unreached(few).starts_with("Concurrency 16 was not reached in 3 cells: at most 12 ")) << unreached(few);
  few.cells.resize(2);
  EXPECT_TRUE(holds(unreached(few), "in tp1 pp1 none and tp1 pp1 ngram k=1: ")) << unreached(few);
  // With all requests at the start it is no closed loop but in name.
  EXPECT_EQ(
      load_lines(run).at(1),
      "closed loop, c=16: 12 requests are sent together at the start, half of all or more, and ttft holds what they "
      "wait for each other's prompts");
  EXPECT_EQ(load_lines(run_of({1, 5}, 64)), std::vector<std::string>{kLittle});
  EXPECT_EQ(closed_loop_of(run_of({6}).cells[0])->waits_for, WaitsFor::start);
}

TEST(ClosedLoop, WithoutPlacesRequestsWait) {
  RunResult run = run_of({1, 8}, 2);
  EXPECT_EQ(unreached(run),
            "Concurrency 8 was not reached in 26 cells: at most 2 requests ran at once (engine.scheduler.max_num_seqs "
            "or static_batch_size).");
  EXPECT_EQ(
      load_lines(run),
      (std::vector<std::string>{
          "closed loop, c=1: a request is sent when another ends; ttft holds the step under way and prompts of others",
          "closed loop, c=8: 2 of 8 requests in flight had a place (max_num_seqs), and ttft holds the wait for "
          "one"}));
  EXPECT_TRUE(holds(summary_markdown(run, summarize(run)), "Load: closed loop, c=8: 2 of 8 requests"));

  EXPECT_TRUE(load_lines(run_of({1, 2, 8}, 2)).at(0).starts_with("closed loop, c=1 and c=2: a request is sent when "));

  run = run_of({8}, 64);
  run.cells[1].effective["max_num_seqs"] = 1;
  EXPECT_EQ(unreached(run),
            "Concurrency 8 was not reached in tp1 pp1 ngram k=1: at most 1 request ran at once "
            "(engine.scheduler.max_num_seqs or static_batch_size).");
  run = run_of({5}, 64);
  run.cells[1].effective["max_num_seqs"] = 1;
  EXPECT_TRUE(load_lines(run).at(0).starts_with("other closed loops: a request is sent when ")) << "all have c=5";
}

TEST(ClosedLoop, StaticBatchesAndAFullCacheMakeRequestsWait) {
  RunResult run = run_of({4}, 4);
  for (CellResult& cell : run.cells) cell.requested["engine"]["scheduler"]["batching"] = "static";
  EXPECT_EQ(load_lines(run), std::vector<std::string>{"closed loop, c=4, static batching: a request waits until the "
                                                      "batch before it has ended, and ttft holds that"});
  run = run_of({4}, 4);
  const auto with_blocks = [&](int blocks) {
    for (CellResult& cell : run.cells) {
      cell.effective["kv_blocks"] = blocks;
      cell.effective["block_size"] = 16;
    }
    return load_lines(run);
  };
  EXPECT_EQ(with_blocks(19 + 15), std::vector<std::string>{kLittle}) << "the peak and a prompt of 240 tokens";
  EXPECT_EQ(with_blocks(19 + 14), std::vector<std::string>{"closed loop, c=4: the KV cache was full at times, and ttft "
                                                           "holds what requests waited for its blocks"});
  for (CellResult& cell : run.cells) cell.axes.concurrency = 1;
  EXPECT_EQ(load_lines(run), std::vector<std::string>{kLittle}) << "a request alone waits for nobody";
}

}  // namespace
}  // namespace paceline
