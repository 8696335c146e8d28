#pragma once
// What a run leaves behind, as plain structs: the runner fills them, summary computes metrics from them, the results
// store and the reports write them. No engine type appears here, so old and foreign results fit as well.
//
// Units: *_ms milliseconds, *_s seconds, *_bytes bytes; durations come from the monotonic clock. Rates are per second.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/results/device_work.h"
#include "experiments/results/disturbance.h"
#include "experiments/results/rank_lanes.h"
#include "experiments/workload/workload_facts.h"

namespace paceline {

/// One finished request of one repetition.
/// An *emission* is a moment at which the request received tokens: the pass that ends its prompt gives one token, every
/// verify step gives accepted + 1. A *verify step* is a target pass after the prompt is complete, with drafts or
/// without.
struct RequestRecord {
  std::string id;             // of the prompt
  int64_t dataset_index = 0;  // Prompt::index; requests of two cells are the same when index and id are
  std::string category;
  int prompt_tokens = 0;
  std::vector<int32_t> output;           // [num_output] token ids, the stop token included
  double ttft_ms = 0;                    // submit, in an open loop the intended time of it -> first emission
  double e2e_ms = 0;                     // likewise -> last emission
  std::optional<double> arrival_ms;      // open loop: intended time, since the repetition's first
  double send_delay_ms = 0;              // open loop: how much later the engine took it; ttft and e2e hold it
  std::vector<double> itl_ms;            // [num_emissions - 1] gaps between emissions
  std::vector<int> tokens_per_emission;  // [num_emissions]; sums to num_output
  std::vector<int> drafted;              // [num_verify_steps] draft tokens given to each verify step, 0 included
  std::vector<int> accepted;             // [num_verify_steps] of those, accepted
  std::vector<int> depth = {};           // [num_verify_steps] levels of drafts; empty: none branch, so as drafted
  std::string finish_reason;             // "stop", "length", "cancelled", "error"
  bool degenerate = false;               // is_degenerate(output), statistics.h

  /// Most tokens that the step could have accepted.
  int depth_at(size_t step) const { return depth.empty() ? drafted[step] : depth[step]; }
};

/// Wall time of the deciding rank, split by phase; sums over a repetition. The phases do not overlap.
struct PhaseTimes {
  double draft_ms = 0;        // proposer
  double verify_ms = 0;       // target forward passes, prefill included
  double sample_ms = 0;       // verifier and sampling
  double schedule_ms = 0;     // scheduler, batch building, commit, detokenising
  double communicate_ms = 0;  // sums and messages between ranks
  double bubble_ms = 0;       // waiting for another pipeline stage
  double other_ms = 0;

  PhaseTimes operator+(const PhaseTimes& more) const;
  PhaseTimes operator*(double factor) const;

  double total_ms() const {
    return draft_ms + verify_ms + sample_ms + schedule_ms + communicate_ms + bubble_ms + other_ms;
  }
};

/// Target passes of one kind; sums over a repetition.
struct PassTimes {
  int64_t passes = 0;
  int64_t steps = 0;  // (sequence, pass) pairs that emitted
  PhaseTimes phases;  // without other_ms, which lies between passes
};

/// By what a pass computes: rows of prompts (or of what a preempted sequence computes again), rows of sequences that
/// decode with their drafts, or both.
struct PassesByKind {
  PassTimes prefill, decode, mixed;
};

/// Of a cascade's stage: verify steps whose drafts were its own, these drafts, and those of them that were kept.
struct StageCounters {
  std::string name;
  int64_t drafts = 0, drafted = 0, accepted = 0;
};

/// Exact counts of one repetition; in strict numerics they are the same on every machine.
struct RunCounters {
  int64_t steps = 0;            // (sequence, target pass) pairs that emitted: prompt ends and verify steps
  int64_t verify_steps = 0;     // of these, after the prompt was complete
  int64_t target_forwards = 0;  // batched passes of the target, chunked prefill included
  int64_t drafts = 0;           // verify steps with at least one draft token
  int64_t drafted = 0;
  int64_t accepted = 0;
  std::vector<int64_t> proposed_by_position;  // [k] verify steps with drafts for more than i positions
  std::vector<int64_t> accepted_by_position;  // [k] verify steps with more than i accepted
  int64_t preemptions = 0;
  int64_t swapped_blocks = 0;  // copied to host memory
  int64_t prefix_hit_tokens = 0;
  int64_t draft_catchup_tokens = 0;
  int64_t kv_blocks_peak = 0;
  int64_t collectives = 0;
  std::vector<StageCounters> stages;  // empty: the proposer has none
};

/// The state after one step of a repetition. Counts and times that grow do so from its start.
struct TimelinePoint {
  double time_ms = 0;
  int requests = 0;           // submitted and not finished
  int kv_blocks = 0;          // of the target that are not free
  int64_t output_tokens = 0;  // emitted so far
  double bubble_ms = 0;       // so far, on the deciding rank
};
inline constexpr size_t kMaxTimelinePoints = 256;

/// CPU time of all threads of the process.
struct CpuTime {
  double used_s = 0;
  double waited_s = 0;  // of it, in the wait loops of the devices' thread pools
  double work_s() const { return used_s - waited_s; }
};

struct RepetitionResult {
  std::vector<RequestRecord> requests;
  double wall_s = 0;  // first submit -> last emission
  double idle_s = 0;  // of these, without a request in the engine (open loop); in no phase
  PhaseTimes phases;
  std::optional<PassesByKind> passes;  // none: recorded before passes were told apart
  RunCounters counters;
  std::vector<RankWork> ranks;          // [tp * pp]; empty: not measured
  std::vector<TimelinePoint> timeline;  // at most kMaxTimelinePoints, evenly thinned; empty: not recorded
  std::optional<CpuTime> cpu;           // none: not measured
  int64_t turn = -1;                    // how many repetitions the run had measured before it; -1: not known
  int process = -1;                     // how many processes had worked on the run before its own; -1: not known
  std::optional<double> ended_at_s;     // of the clock on the wall, since 1970: when, never how long; none: not known
  std::optional<Disturbance> disturbance;  // none: not watched
  RankLanes lanes;                         // of the first repetition; empty: not recorded
};

/// The axes by which cells are told apart.
struct CellAxes {
  int tp = 1;
  int pp = 1;
  std::string proposer = "none";
  std::optional<int> num_speculative_tokens;  // no value for "none"
  int concurrency = 1;
  std::string variant;  // what else tells the cell apart: a row's label, or other swept keys; empty: nothing

  /// The word in a record, perhaps of a program with other proposers.
  bool drafts() const { return proposer != "none"; }
  bool operator==(const CellAxes&) const = default;
};

/// What others measured for a row, to be read beside its own result.
struct PublishedSpeedup {
  std::string over;  // label of the row that it refers to
  double speedup = 0;
  std::string source;  // who measured it, where to read it; empty: not said
};

enum class CellStatus { done, failed, skipped };
enum class CertificateStatus { pass, fail, baseline, unverified };

/// Fast numerics: requests whose tokens part from the reference's, and what recomputed logits say about them
/// (experiments/analysis/flips.h).
struct FlipCount {
  int64_t found = 0;
  int64_t explained = 0;        // by noise
  int64_t positions = 0;        // at which logits were computed again
  std::optional<double> noise;  // the largest there; none: not measured
};

/// What the run proved about a cell's tokens.
struct CertificateResult {
  CertificateStatus status = CertificateStatus::unverified;
  std::string method;  // e.g. "token-exact against tp1_pp1_none_c1"
  int64_t tokens_checked = 0;
  int64_t mismatches = 0;          // requests with a difference; fast numerics: with one that noise does not explain
  std::string detail;              // the first difference, or why nothing was checked
  std::optional<FlipCount> flips;  // fast numerics only
};

/// The target's logits at one output position of a request, computed again in passes of many rows and in passes of few,
/// which differ in fast numerics.
struct LogitCheck {
  int64_t dataset_index = 0;
  std::string request;  // id
  int64_t position = 0;
  int32_t token = -1, reference_token = -1;  // a flip's; -1: the request agrees here
  std::optional<double> gap;                 // of these two, the larger of both ways; none: says nothing about the flip
  double noise = 0;                          // largest |difference| of a logit
  double largest = 0;                        // |logit|
};
struct LogitEvidence {
  std::string reference;  // id of the cell whose tokens it is about; empty: nothing was computed
  std::vector<LogitCheck> checks;
};

/// Bytes of the whole cell, over all ranks.
struct CellMemory {
  int64_t weights_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t rss_peak_bytes = 0;  // VmHWM of the process; 0 when unknown
};

/// What reading weights alone predicts for a step, as it was when the run began (experiments/run/forecast.h).
struct StepForecast {
  double target_bytes = 0;  // weights over all ranks
  double draft_bytes = 0;   // of the draft model, read num_speculative_tokens times a step; 0: none
  double read_bytes_s = 0;  // of all usable cores
  double step_ms = 0;
};

struct CellResult {
  int index = 0;   // order in the plan
  std::string id;  // e.g. "tp2_pp1_ngram_k5_c1"; safe as a folder name
  std::string
      identity;        // hash of everything that decides the cell's numbers; the same cell of a grown sweep has it, too
  std::string folder;  // name below cells/; kept when a grown sweep moves the cell
  CellAxes axes;
  std::string model;            // path, shape and kind of the target's weights: texts of one model are compared
  std::string baseline_id;      // id of the cell that speedup refers to; its own id for a baseline; empty: none
  std::string load = "closed";  // "closed", "offline", or of an open loop "poisson 4/s", "trace monday", ...
  std::optional<PublishedSpeedup> published;
  std::optional<StepForecast> forecast;  // none: on GPUs, and of runs that did not predict
  CellStatus status = CellStatus::done;
  std::string reason;                 // for failed and skipped: one line
  std::vector<std::string> log_tail;  // failed cells: the last lines of log.txt (cell_log.h)
  bool not_run = false;               // skipped, although planned: the run ended before it
  nlohmann::json requested;           // what the config asked for
  nlohmann::json effective;           // what the engine says it ran
  std::vector<RepetitionResult> repetitions;
  CertificateResult certificate;
  LogitEvidence logits;         // fast numerics only
  bool oversubscribed = false;  // more threads than cores: measured, never ranked
  bool forced = false;          // stated acceptance: never ranked
  bool random_weights = false;  // no trained text: acceptance and tokens mean nothing; never ranked where it drafts
  double load_s = 0;
  CellMemory memory;
  DeviceCeilings ceilings;
};

/// What a reader needs to read the first requests' outputs of one model; cells hold token ids only.
struct SampleTexts {
  struct Prompt {
    int64_t dataset_index = 0;
    std::string id;
    std::string text;  // cut to kMaxSamplePromptBytes
  };
  struct Token {
    int32_t id = 0;
    std::string bytes;  // perhaps a part of a character
  };
  std::string model;  // CellResult::model
  std::vector<Prompt> prompts;
  std::vector<Token> tokens;  // of all cells' outputs to these prompts, by id
};
inline constexpr size_t kMaxSamplePrompts = 4, kMaxSamplePromptBytes = 1200;

/// Facts about the run that the config does not hold.
struct RunInfo {
  std::string name;
  std::string id;                                     // <time>_<name>_<hash>; set by RunFolder
  std::string profile;                                // empty: none
  std::string config_path;                            // as the user typed it
  std::vector<std::string> argv;                      // the command that reproduces the run
  std::map<std::string, std::string> variables = {};  // of the environment, that gave values of the configuration
  std::string program;                                // binary_hash of the program that works on it now
  std::string config_hash;                            // fnv1a64_hex of the resolved config
  std::string started_at;                             // UTC, ISO 8601
  std::string status = "running";                     // running, done, failed_cells, interrupted
  uint64_t seed = 0;
  std::string numerics;           // strict, fast, or "fast and strict" where cells differ
  std::string only;               // --only, empty: every cell
  int auto_threads_per_rank = 0;  // what auto meant when the run began; resumed cells keep it
  std::string builtin_root;       // folder behind builtin: names
  nlohmann::json inputs =
      nlohmann::json::object();  // fingerprints of the files that decide the numbers: path -> digest
};

/// Latencies that count as good (report.slo); empty: not asked for.
struct ServiceLevel {
  std::optional<double> ttft_ms, tpot_ms;

  bool empty() const { return !ttft_ms && !tpot_ms; }
};

struct RunResult {
  RunInfo info;
  ServiceLevel slo;
  WorkloadFacts workload;
  nlohmann::json environment;             // experiments/results/environment.h
  nlohmann::json config_resolved;         // the merged config
  nlohmann::json config_origins;          // key path -> where it was written, without defaults; null: not recorded
  std::vector<CellResult> cells;          // in plan order, failed and skipped ones too
  std::vector<SampleTexts> sample_texts;  // by model; empty: none kept
  double wall_s = 0;
  std::string folder;  // results folder, empty before it exists
};

/// How far a run came. Every cell is done, failed or skipped; the others are parts of these.
struct CellCounts {
  int done = 0;     // at least one repetition
  int partial = 0;  // of these: fewer repetitions than were asked for
  int failed = 0;
  int skipped = 0;
  int not_run = 0;  // of these: planned, and the run ended before them

  int planned() const { return done + failed + not_run; }
  bool finished() const { return partial == 0 && not_run == 0; }
};
/// What every text, file and report counts by.
CellCounts count_cells(const std::vector<CellResult>& cells);

/// measure.repetitions of the cell's configuration; 0 where it does not say.
int repetitions_asked(const CellResult& cell);

/// What the engine says it ran; false where it says nothing.
bool has_fast_numerics(const CellResult& cell);

/// Threads of a rank with which cells ran, each number once, ascending: what `auto` came to. Empty: they do not say.
std::vector<int> threads_per_rank_of(const RunResult& run);

const char* to_string(CellStatus status);
const char* to_string(CertificateStatus status);

/// A number for JSON: null when it is not finite. JSON has no NaN, and a reader must not see a made-up value.
nlohmann::json json_number(double value);
nlohmann::json json_number(const std::optional<double>& value);

/// The whole cell without its requests, as written to cells/<n>_<id>/cell.json (schema: results/README.md).
nlohmann::json cell_to_json(const CellResult& cell);
/// Its parts, as the journal keeps them (parse.h reads them back): what was planned, what was found when it was loaded,
/// a repetition without its requests, the evidence of fast numerics.
nlohmann::json cell_plan_to_json(const CellResult& cell);
nlohmann::json cell_load_to_json(const CellResult& cell);
/// Columns, which are shorter than points; null where no timeline was recorded.
nlohmann::json timeline_to_json(const RepetitionResult& repetition);
nlohmann::json repetition_to_json(const RepetitionResult& repetition);
nlohmann::json logit_checks_to_json(const LogitEvidence& logits);
/// One line of requests.jsonl.
nlohmann::json request_to_json(const RequestRecord& request, int repetition);
nlohmann::json counters_to_json(const RunCounters& counters);
/// What lies between passes is no part of one.
enum class OtherTime : uint8_t { shown, none };
nlohmann::json phases_to_json(const PhaseTimes& phases, OtherTime other);
nlohmann::json workload_to_json(const WorkloadFacts& workload);
/// samples.json
nlohmann::json samples_to_json(const RunResult& run);

/// Sum over the repetitions; kv_blocks_peak is the largest.
RunCounters pooled_counters(const CellResult& cell);

/// Of all finished cells in fast numerics: sums, and the largest noise. None: there is no such cell with a certificate.
std::optional<FlipCount> pooled_flips(const RunResult& run);

/// Hash of all output tokens of one repetition, ordered by dataset index and id, so that batch order does not matter.
std::string output_hash(const RepetitionResult& repetition);

}  // namespace paceline
