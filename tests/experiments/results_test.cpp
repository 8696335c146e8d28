#include "experiments/results/results.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/util/clock.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/outputs/certificate.h"
#include "experiments/analysis/verdict/verdict.h"
#include "experiments/report/text/text.h"
#include "experiments/results/files/baseline.h"
#include "experiments/results/files/environment.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/store.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/error.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/experiments/verdict_rig.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Two requests, by hand. A: prompt end, then steps drafted {3, 0, 3} accepted {3, 0, 1} -> 1 + 4 + 1 + 2 = 8 tokens.
/// B: prompt end, then one step drafted {2} accepted {0} -> 2 tokens.
CellResult hand_cell(const std::string& id, double wall_s, double tpot_scale) {
  CellResult cell{.index = 1, .id = id, .axes = {.tp = 1, .pp = 1, .proposer = "ngram", .num_speculative_tokens = 3}};
  RepetitionResult r;
  RequestRecord a{
      .id = "a", .dataset_index = 0, .category = "", .prompt_tokens = 10, .output = {1, 2, 3, 4, 5, 6, 7, 8}};
  a.ttft_ms = 10;
  a.e2e_ms = 10 + 70 * tpot_scale;  // TPOT 10 * scale
  a.itl_ms = {20, 20, 30};
  a.tokens_per_emission = {1, 4, 1, 2};
  a.drafted = {3, 0, 3};
  a.accepted = {3, 0, 1};
  a.finish_reason = "length";
  RequestRecord b{.id = "b", .dataset_index = 1, .category = "", .prompt_tokens = 5, .output = {9, 10}};
  b.ttft_ms = 30;
  b.e2e_ms = 30 + 20 * tpot_scale;  // TPOT 20 * scale
  b.itl_ms = {20};
  b.tokens_per_emission = {1, 1};
  b.drafted = {2};
  b.accepted = {0};
  b.finish_reason = "stop";
  b.degenerate = true;
  r.requests = {a, b};
  r.wall_s = wall_s;
  r.phases = {.draft_ms = 6, .verify_ms = 48, .sample_ms = 3, .schedule_ms = 3};
  r.passes = {
      .prefill = {.passes = 2, .steps = 2, .phases = {.verify_ms = 20}},
      .decode = {.passes = 4, .steps = 4, .phases = {.draft_ms = 6, .verify_ms = 28, .sample_ms = 3, .schedule_ms = 3}},
      .mixed = {}};
  r.counters = {.steps = 6,
                .verify_steps = 4,
                .target_forwards = 6,
                .drafts = 3,
                .drafted = 8,
                .accepted = 4,
                .proposed_by_position = {3, 3, 2},
                .accepted_by_position = {2, 1, 1}};
  cell.repetitions = {r};
  return cell;
}

TEST(Metrics, ByHand) {
  const CellResult cell = hand_cell("x", 0.5, 1);
  ASSERT_TRUE(record_problems(cell).empty()) << record_problems(cell).front();
  const CellSummary s = summarize_cell(cell);
  EXPECT_EQ(s.output_tokens, 10);
  EXPECT_DOUBLE_EQ(*s.output_tok_s, 20);
  EXPECT_DOUBLE_EQ(*s.mean_acceptance_length, 1 + 4.0 / 3);  // the step without drafts does not count
  EXPECT_DOUBLE_EQ(*s.draft_acceptance_rate, 0.5);
  EXPECT_DOUBLE_EQ(*s.draft_coverage, 0.75);
  EXPECT_DOUBLE_EQ(*s.tokens_per_target_forward, 10.0 / 6);
  EXPECT_EQ(s.acceptance_per_position, (std::vector<double>{2.0 / 3, 1.0 / 3, 1.0 / 3}));
  EXPECT_EQ(s.acceptance_per_position_conditional, (std::vector<double>{2.0 / 3, 0.5, 1}));
  const std::vector<std::vector<int64_t>> histogram = {{1}, {}, {1, 0, 0}, {0, 1, 0, 1}};
  EXPECT_EQ(s.acceptance_histogram, histogram);
  EXPECT_DOUBLE_EQ(*s.ttft_ms.p50, 20);
  EXPECT_DOUBLE_EQ(*s.tpot_ms.mean, 15);
  EXPECT_DOUBLE_EQ(*s.itl_ms.mean, 22.5);
  EXPECT_EQ(s.itl_ms.count, 4);
  EXPECT_DOUBLE_EQ(*s.degenerate_share, 0.5);
  EXPECT_DOUBLE_EQ(*s.step_ms, 10);
  EXPECT_DOUBLE_EQ(s.phase_ms_per_step.verify_ms, 8);
  ASSERT_TRUE(s.passes);
  EXPECT_DOUBLE_EQ(*s.passes->decode.pass_ms, 10);
  EXPECT_DOUBLE_EQ(s.passes->decode.phase_ms.verify_ms, 7);
  EXPECT_DOUBLE_EQ(s.passes->decode.share, 2.0 / 3);
  EXPECT_DOUBLE_EQ(s.passes->prefill.share, 1.0 / 3);
  EXPECT_DOUBLE_EQ(*s.passes->prefill.sequences, 1);
  EXPECT_FALSE(s.passes->mixed.pass_ms);
  EXPECT_DOUBLE_EQ(*s.busy, 57.0 / 60);
}

TEST(Metrics, AShortDraftSaysNothingAboutThePositionsBehindIt) {
  // A draft that is always right, cut to two tokens in the last of three steps.
  CellResult cell = hand_cell("x", 0.5, 1);
  RepetitionResult& r = cell.repetitions[0];
  r.requests[0].drafted = {3, 3};
  r.requests[0].accepted = {3, 3};
  r.requests[1].drafted = {2};
  r.requests[1].accepted = {2};
  r.counters.verify_steps = r.counters.drafts = 3;
  r.counters.drafted = r.counters.accepted = 8;
  r.counters.proposed_by_position = r.counters.accepted_by_position = {3, 3, 2};
  const CellSummary s = summarize_cell(cell);
  EXPECT_EQ(s.acceptance_per_position, (std::vector<double>{1, 1, 2.0 / 3}));
  EXPECT_EQ(s.acceptance_per_position_conditional, (std::vector<double>{1, 1, 1}));

  // Kept before a position where nothing was drafted: not known there.
  r.requests[0].drafted = r.requests[0].accepted = {2, 2};
  r.counters.drafted = r.counters.accepted = 6;
  r.counters.proposed_by_position = r.counters.accepted_by_position = {3, 3, 0};
  const std::vector<double> unknown = summarize_cell(cell).acceptance_per_position_conditional;
  ASSERT_EQ(unknown.size(), 3u);
  EXPECT_EQ(unknown[1], 1);
  EXPECT_TRUE(std::isnan(unknown[2])) << unknown[2];
}

TEST(Metrics, PlainDecodingGivesOneTokenAPassAndNoAcceptance) {
  const RunResult run = test::synthetic_run();
  const RunSummary summary = summarize(run);
  const CellSummary& plain = summary.cells[0];
  EXPECT_DOUBLE_EQ(*plain.tokens_per_target_forward, 1);
  EXPECT_FALSE(plain.mean_acceptance_length);
  EXPECT_FALSE(plain.draft_acceptance_rate);
  EXPECT_FALSE(plain.draft_coverage);
  EXPECT_TRUE(plain.acceptance_per_position.empty());
  EXPECT_DOUBLE_EQ(plain.speedup->ratio, 1);
  EXPECT_EQ(plain.outcome, Outcome::baseline);
}

RunResult pair_run() {
  RunResult run;
  run.cells = {hand_cell("base", 1.0, 2), hand_cell("fast", 0.25, 1)};
  run.cells[0].axes.proposer = "none";
  run.cells[0].axes.num_speculative_tokens.reset();
  for (RepetitionResult& r : run.cells[0].repetitions) r.counters.drafts = r.counters.drafted = r.counters.accepted = 0;
  run.cells[0].certificate.status = CertificateStatus::baseline;
  run.cells[1].certificate = {.status = CertificateStatus::pass, .method = "token-exact", .tokens_checked = 10};
  for (CellResult& c : run.cells) c.baseline_id = "base";
  return run;
}

TEST(Metrics, SpeedupAndDecodeSpeedup) {
  const RunResult run = pair_run();
  const RunSummary summary = summarize(run);
  const CellSummary& s = summary.cells[1];
  EXPECT_DOUBLE_EQ(s.speedup->ratio, 4);
  EXPECT_NEAR(s.decode_speedup->ratio, 2, 1e-12);
  EXPECT_FALSE(s.speedup->low);                 // one repetition
  EXPECT_EQ(s.outcome, Outcome::inconclusive);  // so no claim
  // A decode pass gives 1 + 0.75 · 4 / 3 tokens; it would cost the baseline's 10 ms and 1.5 of drafting.
  EXPECT_NEAR(*s.decode_speedup_bound, 2 / 1.15, 1e-12);
  EXPECT_NEAR(*s.speedup_bound, 60 / (20 + 40 / (2 / 1.15)), 1e-12);
}

TEST(Metrics, RepetitionsGiveAnIntervalAndAnOutcome) {
  RunResult run = pair_run();
  for (CellResult& c : run.cells) c.repetitions.resize(3, c.repetitions[0]);
  run.cells[1].repetitions[1].wall_s = 0.26;
  const CellSummary s = summarize(run).cells[1];
  EXPECT_EQ(s.outcome, Outcome::faster);
  EXPECT_LT(*s.speedup->low, s.speedup->ratio);
  // Then speedup is the ratio of the printed speeds.
  const CellSummary base = summarize(run).cells[0];
  EXPECT_NEAR(*s.output_tok_s / *base.output_tok_s, s.speedup->ratio, 1e-12);
}

TEST(Metrics, RequestsAndTokensAreAveragedAlike) {
  CellResult cell = hand_cell("a", 1, 1);
  cell.repetitions.push_back(cell.repetitions[0]);
  cell.repetitions[1].wall_s = 100;  // a disturbed one does not weigh more for one of them
  const CellSummary s = summarize_cell(cell);
  const double tokens_a_request = double(s.output_tokens) / double(s.num_requests);
  EXPECT_NEAR(*s.requests_per_device_minute * cell.axes.tp * cell.axes.pp * tokens_a_request, 60 * *s.output_tok_s,
              1e-6);
}

TEST(Metrics, OtherRequestsAreNotCompared) {
  RunResult run = pair_run();
  run.cells[1].repetitions[0].requests[1].dataset_index = 99;
  const CellSummary s = summarize(run).cells[1];
  EXPECT_FALSE(s.speedup);
  EXPECT_FALSE(s.rankable);
}

TEST(Metrics, OtherLengthsAreNotCompared) {
  RunResult run = pair_run();
  run.cells[0].requested["sampling"] = {{"max_tokens", 4}};
  run.cells[1].requested["sampling"] = {{"max_tokens", 4}};
  EXPECT_TRUE(summarize(run).cells[1].speedup);
  run.cells[1].requested["sampling"]["max_tokens"] = 52;
  const CellSummary s = summarize(run).cells[1];
  EXPECT_FALSE(s.speedup);
  EXPECT_EQ(s.not_rankable, "other sampling than the baseline's");
}

TEST(Metrics, OnlyHonestCellsAreRanked) {
  const auto rankable = [](auto change) {
    RunResult run = pair_run();
    change(run.cells[1]);
    return summarize(run).cells[1].rankable;
  };
  EXPECT_TRUE(rankable([](CellResult&) {}));
  EXPECT_FALSE(rankable([](CellResult& c) { c.oversubscribed = true; }));
  EXPECT_FALSE(rankable([](CellResult& c) { c.forced = true; }));
  EXPECT_FALSE(rankable([](CellResult& c) { c.axes.proposer = "none"; })) << "its server drafts";
  EXPECT_FALSE(rankable([](CellResult& c) { c.random_weights = true; }));  // it drafts
  EXPECT_FALSE(rankable([](CellResult& c) { c.certificate.status = CertificateStatus::fail; }));
  EXPECT_FALSE(rankable([](CellResult& c) { c.status = CellStatus::failed; }));
}

TEST(Metrics, RandomWeightsAreMarkedEverywhere) {
  RunResult run = pair_run();
  for (CellResult& cell : run.cells) {
    cell.random_weights = true;
    cell.effective = {{"rule", "greedy"}};
  }
  certify(run);
  const RunSummary summary = summarize(run);
  EXPECT_TRUE(summary.cells[0].rankable) << "plain decoding has real times";
  EXPECT_EQ(summary.cells[1].not_rankable, "random weights");
  for (const CellResult& cell : run.cells) {
    EXPECT_TRUE(cell_to_json(cell).at("random_weights").get<bool>());
    EXPECT_NE(cell.certificate.method.find("random weights"), std::string::npos) << cell.certificate.method;
    EXPECT_NE(
        cell_verdict(VerdictView(run, summary), summary.cells[size_t(&cell - run.cells.data())]).find("random weights"),
        std::string::npos);
  }
  bool said = false;
  for (const VerdictSentence& each : make_verdict(run, summary).details)
    said |= each.text.find("2 cells have random weights") != std::string::npos;
  EXPECT_TRUE(said);
}

// Texts of different weights are no evidence against each other.
TEST(Certificate, CellsOfOneModelAreCompared) {
  RunResult run = pair_run();
  run.cells[1].axes.proposer = "none";
  run.cells[1].repetitions[0].requests[0].output.back() += 1;
  run.cells[1].repetitions.resize(1);
  certify(run);
  EXPECT_EQ(run.cells[1].certificate.status, CertificateStatus::fail);
  run.cells[1].model = "another";
  certify(run);
  EXPECT_EQ(run.cells[1].certificate.status, CertificateStatus::baseline);
}

// Another temperature, length or type of the cache gives another text; another block size does not.
TEST(Certificate, CellsThatAskForOneTextAreCompared) {
  const auto status_with = [](const char* key, const nlohmann::json& value) {
    RunResult run = pair_run();
    run.cells[1].axes.proposer = "none";
    run.cells[1].repetitions[0].requests[0].output.back() += 1;
    run.cells[1].repetitions.resize(1);
    for (CellResult& cell : run.cells)
      cell.requested = {{"sampling", {{"temperature", 0.0}, {"max_tokens", 8}}},
                        {"engine", {{"kv_cache", {{"dtype", "auto"}, {"block_size", 16}}}}}};
    run.cells[1].requested[nlohmann::json::json_pointer(key)] = value;
    certify(run);
    return run.cells[1].certificate.status;
  };
  EXPECT_EQ(status_with("/sampling/temperature", 0.0), CertificateStatus::fail);
  EXPECT_EQ(status_with("/sampling/temperature", 0.8), CertificateStatus::baseline);
  EXPECT_EQ(status_with("/sampling/max_tokens", 4), CertificateStatus::baseline);
  EXPECT_EQ(status_with("/engine/kv_cache/dtype", "float32"), CertificateStatus::baseline);
  EXPECT_EQ(status_with("/engine/kv_cache/block_size", 32), CertificateStatus::fail);
}

// Fast numerics have tokens of their own.
TEST(Certificate, CellsOfOneNumericsAreCompared) {
  RunResult run = pair_run();
  run.cells[0].effective = {{"numerics", "strict"}};
  run.cells[1].effective = {{"numerics", "fast"}, {"rule", "greedy"}};
  run.cells[1].repetitions[0].requests[0].output.back() += 1;
  certify(run);
  EXPECT_EQ(run.cells[1].certificate.status, CertificateStatus::unverified);
  EXPECT_EQ(run.cells[1].certificate.detail, "no finished cell without speculation that asks for the same text");
  run.cells[1].axes.proposer = "none";
  run.cells[1].repetitions.resize(1);
  certify(run);
  EXPECT_EQ(run.cells[1].certificate.status, CertificateStatus::baseline);
}

TEST(Records, ContradictionsAreFound) {
  const auto problems = [](auto change) {
    CellResult cell = hand_cell("x", 1, 1);
    change(cell.repetitions[0]);
    return record_problems(cell).size();
  };
  EXPECT_EQ(problems([](RepetitionResult&) {}), 0u);
  EXPECT_GT(problems([](RepetitionResult& r) { r.requests[0].output.push_back(1); }), 0u);
  EXPECT_GT(problems([](RepetitionResult& r) { r.requests[0].finish_reason = "error"; }), 0u);
  EXPECT_GT(problems([](RepetitionResult& r) { r.requests[0].accepted[0] = 4; }), 0u);
  EXPECT_GT(problems([](RepetitionResult& r) { r.requests[0].e2e_ms = std::nan(""); }), 0u);
  EXPECT_GT(problems([](RepetitionResult& r) { r.counters.accepted_by_position[2] = 0; }), 0u);
  EXPECT_GT(problems([](RepetitionResult& r) { r.counters.drafts = 4; }), 0u);
  EXPECT_GT(problems([](RepetitionResult& r) { r.wall_s = 0; }), 0u);
  EXPECT_GT(problems([](RepetitionResult& r) { r.requests.clear(); }), 0u);
}

TEST(OutputHash, DependsOnTokensNotOnOrder) {
  RepetitionResult a = hand_cell("x", 1, 1).repetitions[0], b = a;
  std::swap(b.requests[0], b.requests[1]);
  b.wall_s = 7;
  EXPECT_EQ(output_hash(a), output_hash(b));
  b.requests[0].output[1] ^= 1;
  EXPECT_NE(output_hash(a), output_hash(b));
  b = a;  // a token moved from one request to the next
  b.requests[1].output.insert(b.requests[1].output.begin(), b.requests[0].output.back());
  b.requests[0].output.pop_back();
  EXPECT_NE(output_hash(a), output_hash(b));
}

TEST(Json, NonFiniteNumbersAreNull) {
  EXPECT_TRUE(json_number(std::nan("")).is_null());
  EXPECT_TRUE(json_number(std::numeric_limits<double>::infinity()).is_null());
  EXPECT_EQ(json_number(1.5), 1.5);
  RunResult run = pair_run();
  run.cells[1].repetitions[0].wall_s = 0;
  run.cells[1].load_s = std::nan("");
  const json parsed = json::parse(dump_json(summary_to_json(run, summarize(run))));
  EXPECT_TRUE(parsed["cells"][1]["output_tok_s"].is_null());
  EXPECT_TRUE(parsed["cells"][1]["load_s"].is_null());
}

TEST(Summary, JsonHasTheContractFields) {
  const RunResult run = test::synthetic_run();
  const json summary = summary_to_json(run, summarize(run));
  ASSERT_EQ(summary["cells"].size(), 28u);
  for (const json& cell : summary["cells"]) {
    for (const char* key : {"id",
                            "axes",
                            "status",
                            "output_tok_s",
                            "speedup",
                            "decode_speedup",
                            "decode_speedup_bound",
                            "passes",
                            "mean_acceptance_length",
                            "draft_acceptance_rate",
                            "acceptance_per_position",
                            "draft_coverage",
                            "tokens_per_target_forward",
                            "ttft_ms",
                            "tpot_ms",
                            "itl_ms",
                            "certificate",
                            "effective",
                            "phase_ms_per_step",
                            "device_busy",
                            "roofline",
                            "ceilings",
                            "degenerate_share",
                            "counters",
                            "output_hashes",
                            "oversubscribed"}) {
      EXPECT_TRUE(cell.contains(key)) << key;
    }
    for (const char* key : {"tp", "pp", "proposer", "num_speculative_tokens", "concurrency"}) {
      EXPECT_TRUE(cell["axes"].contains(key)) << key;
    }
    for (const char* key : {"p50", "p90", "p99"}) EXPECT_TRUE(cell["itl_ms"].contains(key));
    for (const char* key : {"status", "method", "tokens_checked"}) EXPECT_TRUE(cell["certificate"].contains(key));
    for (const char* key : {"draft", "verify", "sample", "schedule", "communicate", "bubble"}) {
      EXPECT_TRUE(cell["phase_ms_per_step"].contains(key));
    }
  }
  EXPECT_TRUE(summary["cells"][0]["axes"]["num_speculative_tokens"].is_null());
  EXPECT_EQ(summary["cells"][0]["certificate"]["status"], "baseline");
  EXPECT_EQ(summary["num_failed"], 1);
}

TEST(Summary, CsvHasOneLineACellWithEqualFields) {
  RunResult run = test::synthetic_run();
  run.cells[19].reason = "a \"quoted\" reason, with comma";
  std::istringstream csv(summary_to_csv(run, summarize(run)));
  std::string line;
  size_t lines = 0;
  std::getline(csv, line);
  const auto fields = std::count(line.begin(), line.end(), ',');
  while (std::getline(csv, line)) {
    ++lines;
    bool quoted = false;
    std::ptrdiff_t commas = 0;
    for (char c : line) {
      quoted = quoted != (c == '"');
      commas += c == ',' && !quoted;
    }
    EXPECT_EQ(commas, fields) << line;
  }
  EXPECT_EQ(lines, 28u);
}

TEST(Verdict, NamesTheFastestRankableCellOnly) {
  RunResult run = pair_run();
  for (CellResult& c : run.cells) c.repetitions.resize(3, c.repetitions[0]);
  run.cells[1].repetitions[1].wall_s = 0.26;
  CellResult loud = run.cells[1];  // faster still, but with more threads than cores
  loud.id = "loud";
  loud.axes.tp = 4;
  loud.oversubscribed = true;
  for (RepetitionResult& r : loud.repetitions) r.wall_s /= 10;
  run.cells.push_back(loud);
  const std::string all = test::verdict(run);
  EXPECT_NE(all.find("Fastest: tp1 pp1 ngram k=3"), std::string::npos) << all;
  EXPECT_EQ(all.find("tp4"), std::string::npos) << all;
  EXPECT_NE(all.find("VALID: 2 cells lossless"), std::string::npos) << all;
}

TEST(Verdict, NamesABaselineThatIsPlacedElsewhere) {
  RunResult run = pair_run();
  const auto first = [&] { return test::sentences(run)[0]; };
  EXPECT_NE(first().find("over no speculation in the same placement"), std::string::npos) << first();
  run.cells[1].axes.tp = 2;
  EXPECT_NE(first().find("over tp1 pp1 none"), std::string::npos) << first();
  EXPECT_EQ(first().find("the same placement"), std::string::npos) << first();
}

TEST(Verdict, SaysWhyAProposerDoesNotPay) {
  RunResult run = pair_run();
  for (CellResult& c : run.cells) c.repetitions.resize(3, c.repetitions[0]);
  for (RepetitionResult& r : run.cells[1].repetitions) {
    r.wall_s = 1.25;
    r.passes->decode.phases.draft_ms = 74;
  }
  run.cells[1].repetitions[0].wall_s = 1.26;
  const std::string all = test::verdict(run);
  EXPECT_NE(all.find("ngram does not pay. Best cell by the lower end of its interval: tp1 pp1 ngram k=3, "),
            std::string::npos)
      << all;
  EXPECT_NE(all.find(". Decode alone needs AL "), std::string::npos) << all;
  const RunSummary summary = summarize(run);
  const std::string row = cell_verdict(VerdictView(run, summary), summary.cells[1]);
  EXPECT_NE(row.find("drafting takes 69 % of a decode pass"), std::string::npos) << row;
}

TEST(Verdict, AFailedCertificateComesFirst) {
  RunResult run = pair_run();
  run.cells[1].certificate = {.status = CertificateStatus::fail,
                              .method = "token-exact",
                              .tokens_checked = 10,
                              .mismatches = 2,
                              .detail = "request a, position 3"};
  const auto verdict = make_verdict(run, summarize(run)).details;
  EXPECT_TRUE(verdict[0].text.starts_with("NOT LOSSLESS")) << verdict[0].text;
  EXPECT_NE(verdict[0].text.find("request a, position 3"), std::string::npos);
}

TEST(Baseline, ExactFactsSurviveAFileAndDifferencesAreNamed) {
  const test::TempDir root;
  RunResult run = pair_run();
  write_file_atomic(root.path() / "cpu.json", dump_json(make_baseline(run)));
  const json baseline = read_baseline(root.path() / "cpu.json");
  run.cells[1].repetitions[0].wall_s *= 2;  // time is no exact fact
  EXPECT_TRUE(baseline_differences(baseline, make_baseline(run)).empty());

  run.cells[1].repetitions[0].counters.accepted_by_position[1] = 2;
  run.cells[1].repetitions[0].requests[0].output[3] ^= 1;
  const auto differences = baseline_differences(baseline, make_baseline(run));
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(described(differences[0]), "fast: counters.accepted_by_position: baseline [2,1,1], now [2,2,1]");
  EXPECT_TRUE(described(differences[1]).starts_with("fast: output_hash: baseline \"")) << described(differences[1]);

  run = pair_run();
  run.cells[1].id = "other";
  const auto cells = baseline_differences(baseline, make_baseline(run));
  ASSERT_EQ(cells.size(), 2u);  // one missing, one new
  EXPECT_EQ(described(cells[0]), "fast: is in the baseline, not in this run");
  EXPECT_EQ(described(cells[1]), "other: is not in the baseline");
}

TEST(Baseline, SaysWhatItWasMadeOnAndComparesNoneOfIt) {
  RunResult run = pair_run();
  run.environment = {{"cpu_model", "AMD EPYC"}, {"hostname_hash", "08cf"}};
  const json on_cpu = make_baseline(run);
  EXPECT_EQ(made_on(on_cpu), "AMD EPYC");
  EXPECT_FALSE(on_cpu.at("environment").contains("hostname_hash"));
  run.environment["gpus"] = {"cuda:0 NVIDIA H200 0000:1b:00.0", "cuda:1 NVIDIA H200 0000:43:00.0"};
  run.environment["gpu_driver"] = "580.65.06, CUDA 13.0";
  const json on_gpus = make_baseline(run);
  EXPECT_EQ(made_on(on_gpus), "AMD EPYC, NVIDIA H200, NVIDIA H200, driver 580.65.06, CUDA 13.0");
  EXPECT_TRUE(baseline_differences(on_cpu, on_gpus).empty());
  json older = on_cpu;
  older.erase("environment");
  EXPECT_EQ(made_on(older), "");
  EXPECT_TRUE(baseline_differences(older, on_cpu).empty());
  for (const json& damaged : {json(7), json({{"gpus", {3, "x"}}, {"cpu_model", nullptr}})}) {
    older["environment"] = damaged;
    EXPECT_EQ(made_on(older), "");
  }
}

TEST(Baseline, NewerAndDamagedFilesAreStoreErrors) {
  const test::TempDir root;
  const fs::path file = root.path() / "cpu.json";
  json newer = make_baseline(pair_run());
  newer["schema_version"] = 2;
  json damaged = make_baseline(pair_run());
  damaged["cells"].begin().value() = "x";
  for (const std::string& text :
       {newer.dump(), damaged.dump(), std::string("{"), std::string("[]"), std::string("{\"schema\": \"x\"}")}) {
    write_file_atomic(file, text);
    try {
      read_baseline(file);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::store);
    }
  }
}

TEST(Baseline, OneThatIsNotThereIsAMistypedNameAndTheNearestIsNamed) {
  const test::TempDir root;
  write_file_atomic(root.path() / "cpu.json", dump_json(make_baseline(pair_run())));
  test::expect_error(ExitCode::usage, {"cpv.json: there is no such baseline (did you mean \"cpu.json\"?): make it"},
                     [&] { read_baseline(root.path() / "cpv.json"); });
  test::expect_error(ExitCode::usage, {"other/cpu.json: there is no such baseline: make it"},
                     [&] { read_baseline(root.path() / "other" / "cpu.json"); });
}

TEST(Environment, HoldsTheFacts) {
  const json env = collect_environment();
  for (const char* key : {"cpu_model", "isa", "cores_available", "memory_total_bytes", "cgroup_memory_bytes", "kernel",
                          "compiler", "build_type", "git_commit", "binary_hash", "started_at", "machine_id", "gpus",
                          "gpu_driver", "cuda_visible_devices"}) {
    EXPECT_TRUE(env.contains(key)) << key;
  }
  EXPECT_GE(env["cores_available"].get<int>(), 1);
  EXPECT_EQ(env["binary_hash"].get<std::string>().size(), 16u);
  EXPECT_EQ(utc_now().size(), 20u);
  EXPECT_EQ(int(env["gpus"].size()), num_cuda_devices());
  setenv("CUDA_VISIBLE_DEVICES", "1,3", 1);
  EXPECT_EQ(collect_environment()["cuda_visible_devices"], "1,3");
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_TRUE(collect_environment()["cuda_visible_devices"].is_null());
}

}  // namespace
}  // namespace paceline
