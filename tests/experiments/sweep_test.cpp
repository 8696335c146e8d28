#include "experiments/run/plan/sweep.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "experiments/run/plan/planned_cell.h"
#include "speculative/ngram_proposer.h"
#include "tests/experiments/config_files.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

std::filesystem::path shipped(const std::string& name) { return source_dir() / "configs" / name; }

size_t num_loads(const std::vector<Cell>& cells) {
  std::set<std::string> keys;
  for (const Cell& cell : cells) {
    if (!cell.skip_reason) keys.insert(cell.load_key);
  }
  return keys.size();
}

/// Ids are unique, loads are contiguous, every baseline is one and equals its cell where both have a say.
void check_invariants(const std::vector<Cell>& cells) {
  std::set<std::string> ids, finished_loads;
  for (size_t i = 0; i < cells.size(); ++i) {
    EXPECT_TRUE(ids.insert(cells[i].id).second) << cells[i].id;
    if (i > 0 && cells[i].load_key != cells[i - 1].load_key) {
      EXPECT_TRUE(finished_loads.insert(cells[i - 1].load_key).second);
      EXPECT_FALSE(finished_loads.contains(cells[i].load_key)) << "a load is torn apart at " << cells[i].id;
    }
    if (cells[i].baseline) {
      ASSERT_LT(*cells[i].baseline, cells.size());
      EXPECT_TRUE(cells[*cells[i].baseline].is_baseline);
      EXPECT_FALSE(cells[*cells[i].baseline].skip_reason);
    }
  }
}

std::vector<std::string> ids(const std::vector<Cell>& cells) {
  std::vector<std::string> out;
  for (const Cell& cell : cells) out.push_back(cell.id);
  return out;
}

TEST(Sweep, NgramTp2QuickHas32Cells) {
  const LoadedConfig loaded = load_config(shipped("ngram_tp2.json"), {.profile = "quick"});
  EXPECT_EQ(loaded.config.workload.requests, 12);
  EXPECT_EQ(loaded.config.sampling.max_tokens, 48);
  EXPECT_EQ(loaded.config.measure.repetitions, 3);
  EXPECT_FALSE(loaded.config.sampling.ignore_eos);
  EXPECT_TRUE(std::filesystem::exists(loaded.config.engine.target.directory / "config.json"));
  const std::vector<Cell> cells = expand(loaded, {.devices = 2});
  ASSERT_EQ(cells.size(), 32u);
  check_invariants(cells);
  EXPECT_EQ(num_loads(cells), 4u);  // one per (tp, pp)
  EXPECT_EQ(auto_threads_per_rank(cells, 2), 1);
  EXPECT_EQ(auto_threads_per_rank(cells, 8), 2);
  EXPECT_EQ(auto_threads_per_rank(cells, 3), 1);
  for (const Cell& cell : cells) {
    EXPECT_FALSE(cell.skip_reason);
    const SpeculationConfig& speculation = cell.config.speculation;
    EXPECT_EQ(cell.is_baseline, speculation.proposer == "none");
    EXPECT_EQ(cell.baseline.has_value(), !cell.is_baseline);
    if (cell.baseline) {
      const Cell& baseline = cells[*cell.baseline];
      EXPECT_EQ(baseline.config.engine.parallel.tp, cell.config.engine.parallel.tp);
      EXPECT_EQ(baseline.config.engine.parallel.pp, cell.config.engine.parallel.pp);
    } else {
      EXPECT_EQ(speculation.num_speculative_tokens, 0);
    }
    EXPECT_EQ(cell.draft_key.empty(), speculation.proposer != "draft" && speculation.proposer != "eagle3");
    EXPECT_EQ(cell.axes.dump(), (ConfigJson{{"tp", cell.config.engine.parallel.tp},
                                            {"pp", cell.config.engine.parallel.pp},
                                            {"proposer", speculation.proposer},
                                            {"num_speculative_tokens", speculation.num_speculative_tokens},
                                            {"concurrency", 1}})
                                    .dump());
  }
  EXPECT_EQ(cells[0].id, "tp1_pp1_none_c1");
  EXPECT_EQ(cells[1].id, "tp1_pp1_ngram_k1_c1");
  EXPECT_EQ(cells[31].id, "tp2_pp2_eagle3_k3_c1");
}

TEST(Sweep, NgramTp2FullHas64Cells) {
  const LoadedConfig loaded = load_config(shipped("ngram_tp2.json"));
  EXPECT_EQ(loaded.config.workload.requests, 64);
  EXPECT_EQ(loaded.config.sampling.max_tokens, 96);
  EXPECT_EQ(loaded.config.measure.repetitions, 7);
  const std::vector<Cell> cells = expand(loaded, {});
  EXPECT_EQ(cells.size(), 64u);
  EXPECT_EQ(num_loads(cells), 4u);
  check_invariants(cells);
  for (const Cell& cell : cells) {
    EXPECT_EQ(cell.config.measure.warmup_requests, cell.config.load.concurrency)
        << "an expression is evaluated per cell";
    if (cell.baseline) {
      EXPECT_EQ(cells[*cell.baseline].config.load.concurrency, cell.config.load.concurrency);
    }
  }
}

TEST(Sweep, FiveRowsAgainstTheFirst) {
  for (const char* profile : {"", "quick"}) {
    const std::vector<Cell> cells = expand(load_config(shipped("tp_pp_speculative.json"), {.profile = profile}), {});
    EXPECT_EQ(ids(cells), (std::vector<std::string>{"tp1_pp1_none_c1", "tp2_pp1_none_c1", "tp2_pp1_draft_k5_c1_self",
                                                    "tp2_pp1_ngram_k5_c1", "tp1_pp2_none_c1"}));
    check_invariants(cells);
    const auto first = std::find_if(cells.begin(), cells.end(), [](const Cell& c) { return c.label == "one rank"; });
    ASSERT_NE(first, cells.end());
    for (const Cell& cell : cells) {
      if (&cell == &*first) continue;
      ASSERT_TRUE(cell.baseline) << cell.id;
      EXPECT_EQ(*cell.baseline, static_cast<size_t>(first - cells.begin()));
    }
    EXPECT_FALSE(first->published);
    ASSERT_TRUE(cells[2].published);
    EXPECT_EQ(cells[2].published->over, "TP2");
    EXPECT_EQ(cells[2].published->speedup, 0.67);
    EXPECT_TRUE(cells[2].config.speculation.second_model()->self);
    EXPECT_EQ(cells[2].config.speculation.second_model()->directory, cells[2].config.engine.target.directory);
    EXPECT_EQ(std::any_cast<NgramOptions>(cells[3].config.speculation.chosen().options).max_n, 4);
  }
}

TEST(Sweep, OfflineThroughputHasSixCells) {
  for (const char* profile : {"", "quick"}) {
    const std::vector<Cell> cells = expand(load_config(shipped("offline_throughput.json"), {.profile = profile}), {});
    ASSERT_EQ(cells.size(), 6u);
    check_invariants(cells);
    EXPECT_EQ(cells[0].id, "tp1_pp1_none_offline_batching-static");
    size_t num_baselines = 0;
    for (const Cell& cell : cells) {
      num_baselines += cell.is_baseline;
      if (cell.is_baseline) {
        EXPECT_EQ(cell.config.engine.parallel.pp, 2);
        EXPECT_EQ(cell.config.engine.scheduler.batching, BatchingMode::static_turns);
      } else {
        EXPECT_TRUE(cell.baseline) << cell.id;
      }
    }
    EXPECT_EQ(num_baselines, 1u);
  }
}

const char* const kExample = R"(
// is ngram speculation worth it on this box, and does TP or PP help?
{
  "$schema": "../schema/experiment.v1.schema.json",
  "schema_version": 1,
  "name": "ngram_tp2",
  "vars": { "models": "${env:PACELINE_TEST_MODEL_DIR:-models}" },
  "engine": {
    "backend": "auto",
    "target": { "path": "${models}/llama3-8b", "dtype": "bf16", "weights": "auto" },
    "parallel": { "tp": 2, "pp": 1, "pp_microbatches": "auto", "pad_vocab": true },
    "kv_cache": { "block_size": 16, "memory_fraction": 0.90, "prefix_caching": false },
    "scheduler": { "max_num_seqs": 64, "max_num_batched_tokens": 8192, "max_model_len": 4096 },
    "cuda_graphs": true,
  },
  "speculation": {
    "proposer": "ngram",
    "num_speculative_tokens": 5,
    "ngram": { "min": 2, "max": 4 },
    "draft": { "path": "${models}/llama3-draft-1b", "tp": 1 },
    "verifier": { "rule": "auto" },
  },
  "sampling": { "temperature": 0, "top_p": 1, "top_k": 0, "seed": 1, "max_tokens": 256, "ignore_eos": false },
  "workload": { "dataset": "builtin:reading_qa", "requests": 128, "order_seed": 7 },
  "load": { "mode": "closed", "concurrency": 8 },
  "measure": { "warmup_requests": "=2*load.concurrency", "repetitions": 7, "verify_lossless": true, "level": "engine" },
  "sweep": {
    "axes": {
      "engine.parallel.tp": [1, 2],
      "engine.parallel.pp": [1, 2],
      "speculation.proposer": ["none", "ngram", "draft"],
      "speculation.num_speculative_tokens": [1, 3, 5, 7],
      "load.concurrency": [1, 8],
    },
    "constraints": ["tp*pp <= devices"],
    "exclude": [{ "proposer": "draft", "pp": 2, "k": 7 }],
    "baseline": { "proposer": "none" },
    "on_error": "continue", "max_failures": 5, "cell_timeout_s": 600,
  },
  "report": { "slo": { "ttft_ms": 200, "tpot_ms": 20 }, "x": "num_speculative_tokens", "facet": ["tp", "pp"] },
})";

TEST(Sweep, TheDocumentedExampleCountsAsDocumented) {
  const ConfigFiles files;
  const std::vector<Cell> cells = expand(files.load(kExample), {.devices = 2, .gpus = {2, true}});
  check_invariants(cells);
  const auto num_skipped =
      std::count_if(cells.begin(), cells.end(), [](const Cell& c) { return c.skip_reason.has_value(); });
  EXPECT_EQ(num_skipped, 18);
  EXPECT_EQ(cells.size() - static_cast<size_t>(num_skipped), 52u);
  EXPECT_EQ(num_loads(cells), 3u);
  for (const Cell& cell : cells) {
    if (cell.skip_reason) {
      EXPECT_EQ(*cell.skip_reason, "tp*pp <= devices is not met: tp = 2, pp = 2, devices = 2");
    }
    if (!cell.skip_reason && !cell.is_baseline) {
      EXPECT_TRUE(cell.baseline) << cell.id;
    }
  }
}

TEST(Sweep, OneCellWithoutAxes) {
  const ConfigFiles files;
  const std::vector<Cell> cells = expand(files.load(R"({"speculation": {"proposer": "ngram"}})"), {});
  EXPECT_EQ(ids(cells), std::vector<std::string>{"tp1_pp1_ngram_k5_c1"});
  EXPECT_FALSE(cells[0].is_baseline);
  EXPECT_FALSE(cells[0].baseline);
}

TEST(Sweep, VoidKeysCollapse) {
  const ConfigFiles files;
  const std::vector<Cell> cells = expand(
      files.load(
          R"({"sweep": {"axes": {"speculation.ngram.max": [3, 4], "proposer": ["none", "ngram", "draft"], "k": "1..4"}}})"),
      {});
  EXPECT_EQ(cells.size(), 1u + 2 * 4 + 4);
  check_invariants(cells);
  for (const Cell& cell : cells) {
    if (!cell.is_baseline) {
      EXPECT_TRUE(cell.baseline) << cell.id;
    }
    EXPECT_EQ(cell.axes["speculation.ngram.max"].is_null(), cell.config.speculation.proposer != "ngram");
  }
  // static_batch_size is void for continuous batching
  EXPECT_EQ(expand(files.load(R"({"sweep": {"axes": {"engine.scheduler.batching": ["continuous", "static"],
    "engine.scheduler.static_batch_size": [4, 8]}}})"),
                   {})
                .size(),
            3u);
}

TEST(Sweep, ReloadingAxesAreOutermost) {
  const ConfigFiles files;
  const std::vector<Cell> cells = expand(
      files.load(R"({"sweep": {"axes": {"concurrency": [1, 8], "tp": [1, 2], "proposer": ["none", "draft"]}}})"), {});
  EXPECT_EQ(ids(cells), (std::vector<std::string>{"tp1_pp1_none_c1", "tp1_pp1_draft_k5_c1", "tp1_pp1_none_c8",
                                                  "tp1_pp1_draft_k5_c8", "tp2_pp1_none_c1", "tp2_pp1_draft_k5_c1",
                                                  "tp2_pp1_none_c8", "tp2_pp1_draft_k5_c8"}));
  EXPECT_EQ(num_loads(cells), 2u);
}

TEST(Sweep, ZipIncludeExclude) {
  const ConfigFiles files;
  const std::vector<Cell> cells = expand(files.load(R"({"sweep": {
    "axes": {"tp": [1, 2, 4], "concurrency": [1, 2, 4], "k": [1, 3]}, "zip": [["concurrency", "tp"]],
    "include": [{"tp": 2, "pp": 2, "proposer": "none", "label": "odd one"}],
    "exclude": [{"tp": [1, 4], "k": 3}]}, "speculation": {"proposer": "ngram"}})"),
                                         {});
  EXPECT_EQ(ids(cells), (std::vector<std::string>{"tp1_pp1_ngram_k1_c1", "tp2_pp1_ngram_k1_c2", "tp2_pp1_ngram_k3_c2",
                                                  "tp4_pp1_ngram_k1_c4", "tp2_pp2_none_c1"}));
  EXPECT_EQ(cells[4].label, "odd one");
  check_invariants(cells);
}

TEST(Sweep, APatternThatExcludesNothingIsAMistakeOfItsFile) {
  const ConfigFiles files;
  const auto complaint = [&](const std::string& text, const ConfigOverrides& overrides = {}) -> std::string {
    try {
      expand(files.load(text, overrides), {});
    } catch (const ConfigError& error) {
      const Diagnostic& d = error.diagnostics().at(0);
      return fmt::format("{}:{}: {}", d.origin.line, d.origin.column, d.message);
    }
    return "";
  };
  const auto excluding = [](const std::string& pattern) {
    return "{\"sweep\": {\"axes\": {\"tp\": [1, 2], \"pp\": [1, 2]},\n\"constraints\": [\"tp*pp < 4\"],\n\"exclude\": "
           "[" +
           pattern + "]}}";
  };
  EXPECT_EQ(complaint(excluding(R"({"tp": 2, "pp": 1})")), "");
  EXPECT_EQ(complaint(excluding(R"({"tp": 2, "pp": 2})")), "") << "a cell that is skipped anyway";
  EXPECT_EQ(
      complaint(excluding(R"({"tp": 2, "pp": 1}, {"tp": [4, 8], "pp": 1})")),
      "3:33: no cell fits this pattern of sweep.exclude: none has engine.parallel.tp [4,8]; change it, or take it "
      "out");
  EXPECT_EQ(
      complaint(R"({"sweep": {"axes": {"tp": [1, 2], "pp": [1, 2]}, "zip": [["tp", "pp"]],
"exclude": [{"tp": 1, "pp": 2}]}})"),
      "2:13: no cell fits this pattern of sweep.exclude: none has all of these values; change it, or take it out");
  // Nobody's mistake: an inherited pattern, and a grid that the command line changed.
  files.write("base.json", R"({"sweep": {"exclude": [{"tp": 4}]}})");
  EXPECT_EQ(complaint(R"({"extends": "base.json", "sweep": {"axes": {"tp": [1, 2]}}})"), "");
  EXPECT_EQ(complaint(excluding(R"({"tp": 2, "pp": 1})"), {.axis = {"tp=1"}}), "");
  const LoadedConfig whole = files.load(excluding(R"({"tp": 2, "pp": 1})"), {.axis = {"tp=1"}});
  EXPECT_EQ(complaint(experiment_json(whole).dump(), {.is_recorded = true}), "") << "a run of it can be resumed";
}

TEST(Sweep, CountsWhatIsNotAmongItsCells) {
  const ConfigFiles files;
  const char* const text = R"({"sweep": {"axes": {"tp": [1, 2], "proposer": ["none", "ngram"], "k": [1, 2, 3]},
    "exclude": [{"tp": 2, "proposer": "ngram", "k": 3}]}})";
  const ExpandedSweep whole = expand_counted(files.load(text), {});
  EXPECT_EQ(whole.cells.size(), 7u);
  EXPECT_EQ(whole.num_excluded, 1);
  EXPECT_EQ(whole.num_collapsed, 4) << "k of none, twice at either tp";
  EXPECT_EQ(whole.num_unselected, 0);
  const ExpandedSweep some = expand_counted(load_config(shipped("ngram_tp2.json"), {.only = "tp==1 && pp==1"}), {});
  EXPECT_EQ(some.cells.size() * 4, 64u);
  EXPECT_EQ(some.num_unselected, 64 - 16);
}

TEST(Sweep, OnlyKeepsTheBaselines) {
  const std::vector<Cell> cells = expand(
      load_config(shipped("ngram_tp2.json"), {.profile = "quick", .only = "tp==2 && k>3 && proposer == ngram"}), {});
  EXPECT_EQ(ids(cells), (std::vector<std::string>{"tp2_pp1_none_c1", "tp2_pp1_ngram_k5_c1", "tp2_pp2_none_c1",
                                                  "tp2_pp2_ngram_k5_c1"}));
  EXPECT_EQ(cells[1].baseline, 0u);
  EXPECT_EQ(cells[3].baseline, 2u);
  EXPECT_THROW(expand(load_config(shipped("ngram_tp2.json"), {.only = "tp==3"}), {}), Error);
  EXPECT_THROW(expand(load_config(shipped("ngram_tp2.json"), {.only = "tp+1"}), {}), Error);
}

TEST(Sweep, ImpossibleCellsAreSkippedWithTheReason) {
  const ConfigFiles files;
  const std::vector<Cell> cells = expand(files.load(R"({"speculation": {"proposer": "ngram", "ngram": {"min": 3}},
    "sweep": {"axes": {"speculation.ngram.max": [2, 4]}}})"),
                                         {});
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].skip_reason, "speculation.ngram.min 3 is larger than speculation.ngram.max 2");
  EXPECT_FALSE(cells[1].skip_reason);
  const std::vector<Cell> gpu =
      expand(files.load(R"({"sweep": {"axes": {"tp": [1, 2, 4]}}})"), {.devices = 2, .gpus = {2, true}});
  EXPECT_FALSE(gpu[1].skip_reason);
  EXPECT_EQ(gpu[2].skip_reason, "tp 4 x pp 1 takes 4 CUDA devices, found 2: use fewer ranks, or backend cpu");
}

TEST(Sweep, Mistakes) {
  const ConfigFiles files;
  const auto complaint = [&](const std::string& text) -> std::string {
    try {
      expand(files.load(text), {});
    } catch (const ConfigError& error) {
      const Diagnostic& d = error.diagnostics().at(0);
      return fmt::format("{}:{}: {}", d.origin.line, d.origin.column, d.message);
    }
    return "";
  };
  EXPECT_EQ(complaint(R"({"sweep": {"axes": {"k": "1..64", "concurrency": "1..1000", "sampling.seed": "1..1000"}}})"),
            "1:20: the axes cross to more than 100000 cells");
  EXPECT_EQ(complaint(R"({"sweep": {"axes": {"sampling.seed": "0..1000000000"}}})"),
            "1:38: the axis \"sampling.seed\" has more than 100000 values");
  EXPECT_EQ(complaint("{\"sweep\": {\"axes\": {\"tp\": [1, 2]},\n\"include\": [{\"tp\": 2}]}}"),
            "2:13: duplicate cell: the sweep already has one with these values");
  EXPECT_EQ(
      complaint(R"({"sweep": {"axes": {"proposer": ["ngram", "draft"]}, "baseline": {"proposer": "none"}}})"),
      "1:66: no cell has the values of sweep.baseline, {\"speculation.proposer\":\"none\"}: add them to the axes or "
      "change it");
  EXPECT_EQ(complaint(R"({"sweep": {"axes": {"tp": [1]}, "exclude": [{"tp": 1}]}})"),
            "1:44: no cell is left: sweep.exclude takes all of them out");
  EXPECT_EQ(complaint(R"({"sweep": {"constraints": ["tp + 1"]}})"),
            "1:27: the constraint \"tp + 1\" is neither true nor false");
  const auto published = [&](const std::string& members) {
    return complaint(R"({"sweep": {"include": [{"tp": 1, "label": "one"}, {"tp": 2, )" + members + "}]}}");
  };
  const std::string expected =
      "expected { \"over\": a row's label, \"speedup\": a ratio above 0, \"source\": a text (optional) }";
  EXPECT_EQ(published(R"("label": "two", "published": {"over": "one", "speedup": 2})"), "");
  EXPECT_EQ(published(R"("label": "two", "published": {"over": "on", "speedup": 2})"),
            "1:51: \"published\" is over \"on\", which is no row's label; labels: \"one\", \"two\"");
  EXPECT_EQ(published(R"("label": "one", "published": {"over": "one", "speedup": 2})"),
            "1:51: \"published\" is over \"one\", the label of 2 rows: give each row a label of its own");
  EXPECT_EQ(published(R"("label": "two", "published": {"over": "one", "speedup": 2, "source": "a paper"})"), "");
  EXPECT_EQ(published(R"("label": "two", "published": {"source": "a paper", "speedup": 2})"),
            "1:90: \"published\" lacks a key: " + expected);
  EXPECT_EQ(published(R"("published": {"over": "one", "speedup": 2})"),
            "1:51: a row with \"published\" needs a \"label\"");
  EXPECT_EQ(published(R"("label": "two", "published": 2)"), "1:90: \"published\" is 2: " + expected);
  EXPECT_EQ(published(R"("label": "two", "published": {"over": "one"})"),
            "1:90: \"published\" lacks a key: " + expected);
  EXPECT_EQ(published(R"("label": "two", "published": {"over": "one", "speedup": 0})"),
            "1:117: \"published\": \"speedup\" is 0: " + expected);
  EXPECT_EQ(published(R"("label": "two", "published": {"ovr": "one"})"),
            "1:98: \"published\": \"ovr\" is \"one\": " + expected);
}

TEST(Sweep, ABaselineIsNotForced) {
  const ConfigFiles files;
  const std::vector<Cell> cells = expand(
      files.load(
          R"({"sweep": {"axes": {"proposer": ["none", "synthetic"], "speculation.synthetic.acceptance_length": [1, 3]}}})"),
      {});
  ASSERT_EQ(cells.size(), 3u);
  for (size_t i = 0; i < cells.size(); ++i) {
    const CellResult planned = planned_result(cells[i], int(i), cells);
    EXPECT_EQ(planned.forced, planned.axes.proposer == "synthetic") << planned.id;
  }
}

TEST(Sweep, AForeignServerIsNotComparedWithItself) {
  const ConfigFiles files;
  const auto complaint = [&](const std::string& server, const std::string& sweep, const char* only = nullptr) {
    ConfigOverrides overrides;
    if (only) overrides.only = only;
    const std::string text =
        fmt::format(R"({{"measure": {{"level": "http"}}, "server": {{{}}}, "sweep": {{{}}}}})", server, sweep);
    try {
      expand(files.load(text, overrides), {});
    } catch (const ConfigError& error) {
      return error.diagnostics().at(0).message;
    }
    return std::string();
  };
  const std::string endpoint = R"("endpoint": "http://127.0.0.1:9")", plain = R"("command": "serve {port}")",
                    told = R"("command": "serve {port} {proposer} {k}")";
  const std::string proposers = R"("axes": {"proposer": ["none", "ngram"]})", ranks = R"("axes": {"tp": [1, 2]})",
                    load = R"("axes": {"load.concurrency": [1, 8]})";
  EXPECT_EQ(complaint(endpoint, proposers),
            "cells tp1_pp1_none_c1 and tp1_pp1_ngram_k5_c1 would compare a server with itself: http://127.0.0.1:9 does "
            "not know their speculation.proposer; give each its own server.endpoint in sweep.include, or select one of "
            "them with --only");
  EXPECT_EQ(
      complaint(plain, ranks),
      "cells tp1_pp1_none_c1 and tp2_pp1_none_c1 would compare a server with itself: server.command does not know "
      "their engine.parallel.tp; write {proposer} and {k} into it where those differ, or give each its own in "
      "sweep.include, or select one of them with --only");
  EXPECT_NE(complaint(told, ranks), "");
  EXPECT_EQ(complaint(told, proposers), "");
  EXPECT_EQ(complaint(endpoint, load), "");
  EXPECT_EQ(complaint(endpoint, ranks, "tp==1"), "");
  EXPECT_EQ(complaint(endpoint, proposers, "proposer=='ngram'"), "") << "without its baseline";
  EXPECT_NE(complaint(R"("command": "serve {port} {k}")", R"("axes": {"proposer": ["ngram", "draft"]})"), "");
  EXPECT_EQ(complaint(endpoint, R"("include": [{"label": "a", "proposer": "none"},
      {"label": "b", "proposer": "ngram", "server.endpoint": "http://127.0.0.1:10"}])"),
            "");
  EXPECT_NE(
      complaint(endpoint, R"("include": [{"label": "a", "proposer": "none"}, {"label": "b", "proposer": "ngram"}])"),
      "");
  EXPECT_EQ(complaint("", proposers), "") << "our own server is started with its cell's values";
}

// Resume and compare find recorded cells by these, whatever the options of proposers are made from.
TEST(Sweep, CellsKeepTheIdentitiesThatRunsWereRecordedWith) {
  const ConfigFiles files;
  const std::vector<Cell> cells = expand(files.load(R"({
    "speculation": {"num_speculative_tokens": 3, "ngram": {"match": "first"}, "draft": {"tp": "target", "dtype": "bf16"}},
    "sweep": {"axes": {"proposer": ["none", "ngram", "draft"]},
              "include": [{"proposer": "draft", "speculation.draft.self": true}]}})"),
                                         {});
  std::vector<std::string> identities;
  for (const Cell& cell : cells) identities.push_back(cell.config_hash);
  EXPECT_EQ(identities,
            (std::vector<std::string>{"ac399e6956302dea", "ad2726c37d6b1978", "373e504b925b1e9f", "0b1e2629ffb30a97"}));
}

TEST(Sweep, HashesAreStableAndFollowWhatMatters) {
  const std::vector<Cell> quick = expand(load_config(shipped("ngram_tp2.json"), {.profile = "quick"}), {});
  const std::vector<Cell> grown =
      expand(load_config(shipped("ngram_tp2.json"), {.profile = "quick", .axis = {"k=1..5"}}), {});
  std::set<std::string> hashes;
  for (const Cell& cell : grown) EXPECT_TRUE(hashes.insert(cell.config_hash).second);
  for (const Cell& cell : quick) EXPECT_TRUE(hashes.contains(cell.config_hash)) << "adding values re-runs no old cell";
}

}  // namespace
}  // namespace paceline
