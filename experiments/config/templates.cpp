#include "experiments/config/templates.h"

namespace paceline {

namespace {

constexpr std::string_view kMinimal = R"json(// One question: is n-gram lookup faster than plain decoding here?
{
  "$schema": "experiment.schema.json",
  "extends": ["base/defaults.json", "workloads/reading_qa.json"],
  "name": "minimal",

  "speculation": { "num_speculative_tokens": 5 },  // k: tokens drafted in one step

  "sweep": {
    "axes": { "speculation.proposer": ["none", "ngram"] },  // "none" is the baseline of "ngram"
  },

  "profiles": {
    "quick": {
      "workload": { "requests": 12 },
      "sampling": { "max_tokens": 48 },
      "measure": { "repetitions": 3 },
    },
  },
}
)json";

constexpr std::string_view kNgramKSweep =
    R"json(// How many tokens should n-gram lookup draft, and how long a match should it ask for?
{
  "$schema": "experiment.schema.json",
  "extends": ["base/defaults.json", "workloads/reading_qa.json"],
  "name": "ngram_k_sweep",

  "measure": { "repetitions": 7 },  // fewer than 7 cannot carry a close verdict

  "sweep": {
    "axes": {
      "speculation.proposer": ["none", "ngram"],
      "speculation.num_speculative_tokens": "1..8",  // void for "none": those cells collapse into one
      "speculation.ngram.max": [2, 4],               // longest suffix that is looked up
    },
  },

  "report": { "x": "num_speculative_tokens", "facet": ["tp", "pp"] },

  "profiles": {
    "quick": {
      "workload": { "requests": 12 },
      "sampling": { "max_tokens": 48 },
      "measure": { "repetitions": 3 },
      "sweep": { "axes": { "speculation.num_speculative_tokens": [1, 3, 5], "speculation.ngram.max": [4] } },
    },
  },
}
)json";

constexpr std::string_view kDraftVsNgram =
    R"json(// Which proposer pays: a small draft model, or lookup in the text so far?
{
  "$schema": "experiment.schema.json",
  "extends": ["base/defaults.json", "workloads/reading_qa.json"],
  "name": "draft_vs_ngram",

  "speculation": {
    "ngram": { "min": 2, "max": 4 },
    "draft": { "path": "builtin:draft-600k", "tp": 1 },  // must share the target's tokenizer
  },
  "measure": { "repetitions": 7 },

  "sweep": {
    "axes": {
      "speculation.proposer": ["none", "ngram", "draft"],
      "speculation.num_speculative_tokens": [1, 3, 5],
    },
  },

  "profiles": {
    "quick": {
      "workload": { "requests": 12 },
      "sampling": { "max_tokens": 48 },
      "measure": { "repetitions": 3 },
      "sweep": { "axes": { "speculation.num_speculative_tokens": [3] } },
    },
  },
}
)json";

constexpr std::string_view kTpVsPp =
    R"json(// Two ranks: split each layer (TP) or the layers (PP)?
// And does speculation change the answer?
{
  "$schema": "experiment.schema.json",
  "extends": ["base/defaults.json", "workloads/reading_qa.json"],
  "name": "tp_vs_pp",

  "speculation": { "num_speculative_tokens": 5 },
  "measure": { "repetitions": 7 },

  "sweep": {
    "axes": {
      "engine.parallel.tp": [1, 2, 1],
      "engine.parallel.pp": [1, 1, 2],
      "speculation.proposer": ["none", "ngram"],
    },
    "zip": [["tp", "pp"]],                  // one rank, two by tensors, two by layers; without zip: 2 x 2
    "constraints": ["tp*pp <= devices"],    // on a machine with one device those cells are listed as skipped
    "baseline": { "tp": 1, "pp": 1, "proposer": "none" },  // everything is compared with one plain rank
  },

  "profiles": {
    "quick": {
      "workload": { "requests": 12 },
      "sampling": { "max_tokens": 48 },
      "measure": { "repetitions": 3 },
    },
  },
}
)json";

constexpr std::string_view kBatchCrossover =
    R"json(// At which load does speculation stop paying? A busy engine has no idle arithmetic left for drafts.
{
  "$schema": "experiment.schema.json",
  "extends": ["base/defaults.json", "workloads/reading_qa.json"],
  "name": "batch_crossover",

  "measure": {
    "repetitions": 7,
    "warmup_requests": "=load.concurrency",  // computed for each cell
  },

  "sweep": {
    "axes": {
      "speculation.proposer": ["none", "ngram", "draft"],
      "speculation.num_speculative_tokens": [2, 5],
      "load.concurrency": "1..32*2",         // requests in flight: 1, 2, 4, 8, 16, 32
    },
  },

  "report": { "x": "concurrency" },

  "profiles": {
    "quick": {
      "workload": { "requests": 80 },           // 5 a place at the largest concurrency: fewer are one wave
      "sampling": { "max_tokens": 48 },
      "measure": { "repetitions": 3 },
      "sweep": { "axes": { "speculation.num_speculative_tokens": [3], "load.concurrency": [1, 4, 16] } },
    },
  },
}
)json";

constexpr std::string_view kStatedAcceptance =
    R"json(// How good would a draft model have to be? Its cost is real, its acceptance is set by hand:
// where the ratio crosses 1 lies the acceptance length that it must reach.
// Drafts are taken from the text, which warming up has shown, so the output stays the model's.
{
  "$schema": "experiment.schema.json",
  "extends": ["base/defaults.json", "workloads/reading_qa.json"],
  "name": "stated_acceptance",

  "speculation": {
    "num_speculative_tokens": 5,
    "synthetic": { "costs": "draft" },          // drafts in earnest, and in vain
  },
  "measure": { "repetitions": 7 },

  "sweep": {
    "axes": {
      "speculation.proposer": ["none", "synthetic"],
      // Mean tokens of a step, from 1 (all drafts refused) to k + 1 (all kept); void for "none".
      "speculation.synthetic.acceptance_length": [1, 2, 3, 4, 5, 6],
    },
  },

  "profiles": {
    "quick": {
      "workload": { "requests": 12 },
      "sampling": { "max_tokens": 48 },
      "measure": { "repetitions": 3 },
      "sweep": { "axes": { "speculation.synthetic.acceptance_length": [1, 3, 6] } },
    },
  },
}
)json";

constexpr std::string_view kCiRegression =
    R"json(// A gate for continuous integration: tokens and counters, which are the same on every machine.
// Times are not compared.
//
//   runexp regress configs/ci_regression.json --baseline ci.json --update-baseline    once, and commit ci.json
//   runexp regress configs/ci_regression.json --baseline ci.json                      exit code 7 when they differ
{
  "$schema": "experiment.schema.json",
  "extends": ["base/defaults.json", "workloads/reading_qa.json"],
  "name": "ci_regression",

  "engine": { "backend": "cpu", "numerics": "strict" },  // the same bits everywhere
  "workload": { "requests": 8, "order_seed": 7 },
  "sampling": { "temperature": 0, "seed": 1, "max_tokens": 32 },
  "measure": { "repetitions": 1, "verify_lossless": true },

  "sweep": {
    "axes": {
      "engine.parallel.tp": [1, 2],
      "speculation.proposer": ["none", "ngram", "draft"],
      "speculation.num_speculative_tokens": [3],
    },
    "on_error": "stop",
    "max_failures": 1,
  },

  "profiles": {
    "quick": { "workload": { "requests": 2 }, "sampling": { "max_tokens": 8 } },
  },
}
)json";

constexpr std::string_view kOpenLoopSlo =
    R"yaml(# At a given rate of requests, which proposer keeps to the latency that users were promised?
$schema: experiment.schema.json
extends: [base/defaults.json, workloads/reading_qa.json]
name: open_loop_slo

load:
  mode: poisson    # requests arrive whether the engine keeps up or not
  rate_per_s: 4    # requests per second; below what the engine can do, or queues grow without end

report:
  slo:             # a request that meets both is good; cells are ranked by good requests per second
    ttft_ms: 500   # until the first token
    tpot_ms: 50    # then per token

workload: { requests: 200 }     # percentiles of a queue need many
measure: { repetitions: 5 }

speculation: { num_speculative_tokens: 3 }
sweep:
  axes:
    speculation.proposer: [none, ngram, draft]
    load.rate_per_s: [2, 4]

profiles:
  quick:
    workload: { requests: 24 }
    sampling: { max_tokens: 32 }
    measure: { repetitions: 3 }
    sweep: { axes: { load.rate_per_s: [4] } }
)yaml";

constexpr ExperimentTemplate kTemplates[] = {
    {"minimal", "is n-gram lookup faster than plain decoding here?", kMinimal},
    {"ngram-k-sweep", "how many tokens should n-gram lookup draft?", kNgramKSweep},
    {"draft-vs-ngram", "which proposer pays, a draft model or n-gram lookup?", kDraftVsNgram},
    {"tp-vs-pp", "two ranks: split each layer, or the layers?", kTpVsPp},
    {"batch-crossover", "at which load does speculation stop paying?", kBatchCrossover},
    {"open-loop-slo", "which proposer keeps a latency target at a given rate of requests? (YAML)", kOpenLoopSlo,
     ".yaml"},
    {"stated-acceptance", "how good would a draft model have to be?", kStatedAcceptance},
    {"ci-regression", "do tokens and counters stay the same? for `runexp regress`", kCiRegression},
};

}  // namespace

std::span<const ExperimentTemplate> experiment_templates() { return kTemplates; }

}  // namespace paceline
