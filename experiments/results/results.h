#pragma once
// What a run leaves behind, as plain structs: the runner fills them, summary computes metrics from them, the results
// store and the reports write them. No engine type appears here, so old and foreign results fit as well.
//
// Units: *_ms milliseconds, *_s seconds, *_bytes bytes; durations come from the monotonic clock. Rates are per second.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/results/certificate_record.h"
#include "experiments/results/client_record.h"
#include "experiments/results/device_work.h"
#include "experiments/results/fields.h"
#include "experiments/workload/workload_facts.h"

namespace paceline {

/// One finished request of one repetition.
/// An *emission* is a moment at which the request received tokens: the pass that ends its prompt gives one token, every
/// verify step gives accepted + 1. A *verify step* is a target pass after the prompt is complete, with drafts or
/// without.
struct RequestRecord {
  std::string id;
  int64_t dataset_index = 0;
  std::string category;
  int prompt_tokens = 0;
  std::vector<int32_t> output;
  double ttft_ms = std::numeric_limits<double>::quiet_NaN();  // not finite: an answer that came whole has none
  double e2e_ms = 0;
  std::optional<double> arrival_ms;
  double send_delay_ms = 0;
  std::vector<double> itl_ms;
  std::vector<int> tokens_per_emission, drafted, accepted, depth = {};
  std::string finish_reason;
  bool degenerate = false;
  std::string text;
  std::optional<int64_t> stated_tokens;

  /// Of the output.
  int64_t num_tokens() const { return stated_tokens.value_or(int64_t(output.size())); }

  /// Most tokens that the step could have accepted.
  int depth_at(size_t step) const { return depth.empty() ? drafted[step] : depth[step]; }

  template <class Visit>
  static void fields(Visit&& visit) {
    using R = RequestRecord;
    using enum FieldRule;
    visit("id", &R::id, "of the prompt", required);
    visit("dataset_index", &R::dataset_index,
          "place in the data set; requests of two cells are the same when it and `id` are", required);
    visit("category", &R::category, "of the prompt");
    visit("prompt_tokens", &R::prompt_tokens, "");
    visit("output", &R::output, "token ids, the stop token included", required);
    visit("ttft_ms", &R::ttft_ms,
          "submit, in an open loop the intended time of it, to first emission, over HTTP to the first event with text; "
          "null where the answer came whole");
    visit("e2e_ms", &R::e2e_ms, "likewise to last emission");
    visit("arrival_ms", &R::arrival_ms, "open loop: intended time, since the repetition's first", sparse);
    visit("send_delay_ms", &R::send_delay_ms,
          "open loop: how much later the engine took it; `ttft_ms` and `e2e_ms` hold it", sparse);
    visit("itl_ms", &R::itl_ms, "gaps between emissions");
    visit("tokens_per_emission", &R::tokens_per_emission,
          "sums to the output's length; empty where a server does not tell");
    visit("drafted", &R::drafted, "draft tokens given to each verify step, 0 included");
    visit("accepted", &R::accepted, "of those, accepted");
    visit("depth", &R::depth, "levels of drafts of each verify step; absent: none branch, so as drafted", sparse);
    visit("finish_reason", &R::finish_reason, R"("stop", "length", "cancelled", "error")");
    visit("degenerate", &R::degenerate, "the output ends in a loop");
    visit("text", &R::text, "of the answer, from a server that is not ours; absent elsewhere", sparse);
    visit("stated_tokens", &R::stated_tokens,
          "how many tokens the output has by the server's usage, where it gives no ids and `output` is empty", sparse);
  }
};

/// Which request of a workload: dataset index and id.
using RequestKey = std::pair<int64_t, std::string>;
inline RequestKey key_of(const RequestRecord& request) { return {request.dataset_index, request.id}; }

/// Wall time of the sampling rank, split by phase; sums over a repetition. The phases do not overlap.
struct PhaseTimes {
  double draft_ms = 0, verify_ms = 0, sample_ms = 0, schedule_ms = 0, communicate_ms = 0, bubble_ms = 0, other_ms = 0;

  PhaseTimes operator+(const PhaseTimes& more) const;
  PhaseTimes operator*(double factor) const;
  double total_ms() const;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("draft", &PhaseTimes::draft_ms, "proposer");
    visit("verify", &PhaseTimes::verify_ms, "target forward passes, prefill included");
    visit("sample", &PhaseTimes::sample_ms, "verifier and sampling");
    visit("schedule", &PhaseTimes::schedule_ms, "scheduler, batch building, commit, detokenising");
    visit("communicate", &PhaseTimes::communicate_ms, "waiting for other ranks in collectives");
    visit("bubble", &PhaseTimes::bubble_ms, "waiting for the previous pipeline stage");
    visit("other", &PhaseTimes::other_ms, "the rest; none of a pass", FieldRule::sparse);
  }
};

/// Target passes of one kind; sums over a repetition.
struct PassTimes {
  int64_t passes = 0;
  int64_t steps = 0;
  PhaseTimes phases;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("passes", &PassTimes::passes, "");
    visit("steps", &PassTimes::steps, "(sequence, pass) pairs that emitted");
    visit("phase_ms", &PassTimes::phases, "without `other`, which lies between passes");
  }
};

/// By what a pass computes.
struct PassesByKind {
  PassTimes prefill, decode, mixed;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("prefill", &PassesByKind::prefill, "rows of prompts, or of what a preempted sequence computes again");
    visit("decode", &PassesByKind::decode, "rows of sequences that decode, with their drafts");
    visit("mixed", &PassesByKind::mixed, "both");
  }
};

/// Of a cascade's stage.
struct StageCounters {
  std::string name;
  int64_t drafts = 0, drafted = 0, accepted = 0;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("name", &StageCounters::name, "");
    visit("drafts", &StageCounters::drafts, "verify steps whose drafts were its own");
    visit("drafted", &StageCounters::drafted, "these drafts");
    visit("accepted", &StageCounters::accepted, "those of them that were kept");
  }
};

/// Exact counts of one repetition; in strict numerics they are the same on every machine.
struct RunCounters {
  int64_t steps = 0, verify_steps = 0, target_forwards = 0, drafts = 0, drafted = 0, accepted = 0;
  std::vector<int64_t> proposed_by_position, accepted_by_position;  // [k]
  int64_t preemptions = 0, swapped_blocks = 0, prefix_hit_tokens = 0, draft_catchup_tokens = 0, kv_blocks_peak = 0,
          collectives = 0, dead_rows = 0;
  std::vector<StageCounters> stages;

  /// Sums; of kv_blocks_peak the larger.
  RunCounters& operator+=(const RunCounters& more);

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = RunCounters;
    using enum FieldRule;
    visit("steps", &C::steps, "(sequence, target pass) pairs that emitted: prompt ends and verify steps");
    visit("verify_steps", &C::verify_steps, "of these, after the prompt was complete");
    visit("target_forwards", &C::target_forwards, "batched passes of the target, chunked prefill included");
    visit("drafts", &C::drafts, "verify steps with at least one draft token");
    visit("drafted", &C::drafted, "draft tokens");
    visit("accepted", &C::accepted, "of these, kept");
    visit("proposed_by_position", &C::proposed_by_position,
          "`[i]`: verify steps with drafts for more than i positions");
    visit("accepted_by_position", &C::accepted_by_position, "`[i]`: verify steps with more than i accepted");
    visit("preemptions", &C::preemptions, "");
    visit("swapped_blocks", &C::swapped_blocks, "KV blocks copied to host memory; absent: none", sparse);
    visit("prefix_hit_tokens", &C::prefix_hit_tokens, "found in the prefix cache");
    visit("draft_catchup_tokens", &C::draft_catchup_tokens, "rows of a draft model that only fill its KV");
    visit("kv_blocks_peak", &C::kv_blocks_peak, "most blocks in use; pooled: the largest");
    visit("collectives", &C::collectives, "sums and gathers between ranks");
    visit("dead_rows", &C::dead_rows, "computed ahead for sequences that had already ended; absent: none", sparse);
    visit("stages", &C::stages, "of a cascade's stages; absent: it has none", sparse);
  }
};

/// The state after one step of a repetition. Counts and times that grow do so from its start.
struct TimelinePoint {
  double time_ms = 0;
  int requests = 0, kv_blocks = 0;
  int64_t output_tokens = 0;
  double bubble_ms = 0;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("time_ms", &TimelinePoint::time_ms, "");
    visit("requests", &TimelinePoint::requests, "submitted and not finished");
    visit("kv_blocks", &TimelinePoint::kv_blocks, "of the target that are not free");
    visit("output_tokens", &TimelinePoint::output_tokens, "emitted so far");
    visit("bubble_ms", &TimelinePoint::bubble_ms, "so far, on the sampling rank");
  }
};
inline constexpr size_t kMaxTimelinePoints = 256;

struct RepetitionResult;
int64_t output_tokens_of(const RepetitionResult& repetition);
/// Hash of all output tokens, ordered by dataset index and id, so that batch order does not matter.
std::string output_hash(const RepetitionResult& repetition);

struct RepetitionResult {
  std::vector<RequestRecord> requests;
  double wall_s = 0, idle_s = 0;
  PhaseTimes phases;
  std::optional<PassesByKind> passes;  // none: recorded before passes were told apart
  RunCounters counters;
  std::vector<RankWork> ranks;              // [tp * pp]; empty: not measured
  std::vector<TimelinePoint> timeline;      // at most kMaxTimelinePoints, evenly thinned; empty: not recorded
  std::optional<double> cpu_s, cpu_wait_s;  // none: not measured
  int64_t turn = -1;                        // how many repetitions the run had measured before it; -1: not known
  int process = -1;                         // how many processes had worked on the run before its own; -1: not known
  std::optional<double> ended_at_s;
  std::optional<Disturbance> disturbance;  // none: not watched
  std::optional<ClientRecord> client;      // none: measured in the process
  RankLanes lanes;                         // of the first repetition; empty: not recorded

  template <class Visit>
  static void fields(Visit&& visit) {
    using R = RepetitionResult;
    visit("wall_s", &R::wall_s, "first submit to last emission");
    visit("idle_s", &R::idle_s, "of these, without a request in the engine (open loop); in no phase");
    visit(
        "requests", [](const R& r) { return r.requests.size(); }, "their number");
    visit("output_tokens", output_tokens_of, "of them all");
    visit("output_hash", output_hash,
          "FNV-1a over all output tokens in the order of the prompts "
          "([docs/metrics.md](../docs/metrics.md#checks-on-the-records))");
    visit("phase_ms", &R::phases, "");
    visit("passes", &R::passes, "null in runs of older programs");
    visit("counters", &R::counters, "");
    visit("ranks", &R::ranks, "in order; empty: not measured");
    visit("cpu_s", &R::cpu_s, "CPU time of all threads of the process");
    visit("cpu_wait_s", &R::cpu_wait_s, "of it, in the wait loops of the devices' thread pools");
    visit("disturbance", &R::disturbance, "null: not watched");
    visit("client", &R::client, "of `measure.level` http; absent elsewhere", FieldRule::sparse);
    visit("ended_at_s", &R::ended_at_s, "of the clock on the wall, since 1970: when, never how long");
  }
};

template <>
struct FieldsOf<WorkloadFacts> {
  template <class Visit>
  static void visit(Visit&& visit) {
    using W = WorkloadFacts;
    using enum FieldRule;
    visit("format", &W::format, R"(of the data set: "paceline", "spec_bench"; null: not known)", null_if_default);
    visit("prompts", &W::prompts, "that the requests were taken from");
    visit("filtered", &W::filtered, "left out by `workload.categories` and `workload.max_prompt_chars`");
    visit("bad_records", &W::bad_records, "left out by `workload.skip_bad`");
    visit("first_bad_record", &W::first_bad, "what was wrong with the first of them, with file and line",
          null_if_default);
  }
};

/// The axes by which cells are told apart.
struct CellAxes {
  int tp = 1, pp = 1;
  std::string proposer = "none";
  std::optional<int> num_speculative_tokens;
  int concurrency = 1;
  std::string variant;

  /// The word in a record, perhaps of a program with other proposers.
  bool drafts() const { return proposer != "none"; }
  bool operator==(const CellAxes&) const = default;

  template <class Visit>
  static void fields(Visit&& visit) {
    using enum FieldRule;
    visit("tp", &CellAxes::tp, "tensor parallel ranks", required);
    visit("pp", &CellAxes::pp, "pipeline stages", required);
    visit("proposer", &CellAxes::proposer, "", required);
    visit("num_speculative_tokens", &CellAxes::num_speculative_tokens, "k; null for `none`", required);
    visit("concurrency", &CellAxes::concurrency, "0: no closed loop", required);
    visit("variant", &CellAxes::variant, "what else tells the cell apart: a row's label, or other swept keys");
  }
};

/// What others measured for a row, to be read beside its own result.
struct PublishedSpeedup {
  std::string over;
  double speedup = 0;
  std::string source;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("over", &PublishedSpeedup::over, "label of the row that it refers to");
    visit("speedup", &PublishedSpeedup::speedup, "");
    visit("source", &PublishedSpeedup::source, "who measured it, where to read it");
  }
};

enum class CellStatus { done, failed, skipped };
const char* to_string(CellStatus status);

/// Bytes of the whole cell, over all ranks.
struct CellMemory {
  int64_t weights_bytes = 0, kv_bytes = 0, workspace_bytes = 0, rss_peak_bytes = 0;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("weights_bytes", &CellMemory::weights_bytes, "over all ranks, as the rest");
    visit("kv_bytes", &CellMemory::kv_bytes, "");
    visit("workspace_bytes", &CellMemory::workspace_bytes, "");
    visit("rss_peak_bytes", &CellMemory::rss_peak_bytes, "VmHWM of the process; 0 when unknown");
  }
};

/// What reading weights alone predicts for a step, as it was when the run began (experiments/run/plan/forecast.h).
struct StepForecast {
  double target_bytes = 0, draft_bytes = 0, read_bytes_s = 0, step_ms = 0;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("target_bytes", &StepForecast::target_bytes, "weights over all ranks");
    visit("draft_bytes", &StepForecast::draft_bytes, "of the draft model, read k times a step; 0: none");
    visit("read_bytes_s", &StepForecast::read_bytes_s, "of all usable cores");
    visit("step_ms", &StepForecast::step_ms, "");
  }
};

struct CellResult {
  int index = 0;
  std::string id;  // safe as a folder name
  std::string identity;
  std::string folder;  // name below cells/; kept when a grown sweep moves the cell
  CellAxes axes;
  std::string model, baseline_id, load = "closed";
  std::optional<PublishedSpeedup> published;
  std::optional<StepForecast> forecast;  // none: on GPUs, and of runs that did not predict
  CellStatus status = CellStatus::done;
  std::string reason;
  std::vector<std::string> log_tail;  // failed cells: the last lines of log.txt (cell_log.h)
  bool not_run = false;               // skipped, although planned: the run ended before it
  nlohmann::json requested, effective;
  std::vector<RepetitionResult> repetitions;
  CertificateResult certificate;
  LogitEvidence logits;  // fast numerics only
  bool oversubscribed = false, forced = false, random_weights = false;
  double load_s = 0;
  CellMemory memory;
  DeviceCeilings ceilings;

  /// What was planned.
  template <class Visit>
  static void plan_fields(Visit&& visit) {
    using R = CellResult;
    using enum FieldRule;
    visit("index", &R::index, "order in the plan", required);
    visit("id", &R::id, R"("tp2_pp1_ngram_k5_c1")", required);
    visit("identity", &R::identity,
          "hash of everything that decides the cell's numbers; the same cell of a grown sweep has it, too", required);
    visit("axes", &R::axes, "", required);
    visit("model", &R::model,
          "path, shape and kind of the target's weights; certificates compare cells of one model and one kind of "
          "numerics");
    visit("baseline_id", &R::baseline_id, "the cell that ratios refer to; its own for a baseline", null_if_default);
    visit("published", &R::published, "what the experiment file says that others measured; else null");
    visit("load", &R::load, R"("closed", "offline", or of an open loop what was sent: "poisson 4/s", "trace monday")");
    visit("forecast", &R::forecast, "what reading alone predicted for a step when the run began; null on GPUs");
    visit("requested", &R::requested, "what the config asked for; in cell.json alone", required);
    visit("forced", &R::forced, "stated acceptance: never ranked");
    visit("random_weights", &R::random_weights,
          "`load_format: dummy`: times are real; tokens, acceptance and certificate say nothing about a trained model; "
          "never ranked where it drafts");
  }

  /// What was found when it was loaded.
  template <class Visit>
  static void load_fields(Visit&& visit) {
    using R = CellResult;
    visit("effective", &R::effective,
          "what the engine says it ran; `draft_tp`, the ranks of a draft model's tensors, where one ran",
          FieldRule::required);
    visit("oversubscribed", &R::oversubscribed, "more threads than cores: measured, never ranked");
    visit("load_s", &R::load_s, "");
    visit("memory", &R::memory, "");
    visit("ceilings", &R::ceilings, "of the sampling rank's device; null: not measured");
  }

  /// What came out.
  template <class Visit>
  static void result_fields(Visit&& visit) {
    using R = CellResult;
    using enum FieldRule;
    visit(
        "status", [](const R& r) { return std::string(to_string(r.status)); }, R"("done", "failed", "skipped")");
    visit("reason", &R::reason, "for failed and skipped: one line", null_if_default);
    visit("certificate", &R::certificate, "");
  }
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

/// Facts about the run that the config does not hold, as manifest.json has them.
struct RunInfo {
  std::string name, id, profile, config_path;
  std::vector<std::string> argv;
  std::map<std::string, std::string> variables = {};
  std::string program;  // binary_hash of the program that works on it now
  std::string config_hash, started_at, status = "running";
  uint64_t seed = 0;
  std::string numerics, only;
  int auto_threads_per_rank = 0;
  std::string builtin_root;
  nlohmann::json inputs = nlohmann::json::object();

  template <class Visit>
  static void fields(Visit&& visit) {
    using enum FieldRule;
    visit("name", &RunInfo::name, "");
    visit("id", &RunInfo::id, "<time>_<name>_<hash>; set by RunFolder");
    visit("profile", &RunInfo::profile, "null: none", null_if_default);
    visit("config_path", &RunInfo::config_path, "as the user typed it");
    visit("argv", &RunInfo::argv, "the command that reproduces the run");
    visit("variables", &RunInfo::variables, "of the environment, that gave values of the configuration");
    visit("config_hash", &RunInfo::config_hash, "fnv1a64_hex of the resolved config");
    visit("started_at", &RunInfo::started_at, "UTC, ISO 8601");
    visit("status", &RunInfo::status, R"("running", "done", "failed_cells", "interrupted")");
    visit("seed", &RunInfo::seed, "");
    visit("numerics", &RunInfo::numerics, R"("strict", "fast", or "fast and strict" where cells differ)");
    visit("only", &RunInfo::only, "--only; null: every cell", null_if_default);
    visit("auto_threads_per_rank", &RunInfo::auto_threads_per_rank,
          "what auto meant when the run began; resumed cells keep it");
    visit("builtin_root", &RunInfo::builtin_root, "folder behind builtin: names");
    visit("inputs", &RunInfo::inputs, "fingerprints of the files that decide the numbers: path -> digest");
  }
};

/// Latencies that count as good (report.slo); empty: not asked for.
struct ServiceLevel {
  std::optional<double> ttft_ms, tpot_ms;
  double attainment = 0.9;  // share of good requests at which a rate is kept

  bool empty() const { return !ttft_ms && !tpot_ms; }
};

struct RunResult {
  RunInfo info;
  ServiceLevel slo;
  WorkloadFacts workload;
  nlohmann::json environment;             // experiments/results/files/environment.h
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

/// What the cell asked for, and of which model and under which load, without the settings below the paths `left_out`
/// ("speculation", "engine.parallel.tp"): equal texts for cells that are the same but for these. Of old records, which
/// do not hold what was asked for, the variant stands for it.
std::string asked_without(const CellResult& cell, std::span<const std::string_view> left_out);

/// Measured over HTTP, from a server that is not ours.
bool is_foreign(const CellResult& cell);

/// What the engine says it ran; false where it says nothing.
bool has_fast_numerics(const CellResult& cell);

/// Each repetition drew its texts anew (sampling.redraw, at a temperature), the same in all cells. False for records
/// that do not say so, and for greedy ones, whose repetitions have one text.
bool draws_anew(const CellResult& cell);

/// Threads of a rank with which cells ran, each number once, ascending: what `auto` came to. Empty: they do not say.
std::vector<int> threads_per_rank_of(const RunResult& run);

/// A number for JSON: null when it is not finite. JSON has no NaN, and a reader must not see a made-up value.
nlohmann::json json_number(double value);
nlohmann::json json_number(const std::optional<double>& value);

/// The whole cell without its requests, as written to cells/<n>_<id>/cell.json (schema: results/README.md).
nlohmann::json cell_to_json(const CellResult& cell);

// What is read again, with its inverse. Fields that an older version did not write keep their defaults. All inverses
// throw nlohmann::json::exception for JSON of another form.

/// Parts of a cell, as the journal keeps them: what was planned, what was found when it was loaded.
nlohmann::json cell_plan_to_json(const CellResult& cell);
void read_cell_plan(const nlohmann::json& json, CellResult& cell);
nlohmann::json cell_load_to_json(const CellResult& cell);
void read_cell_load(const nlohmann::json& json, CellResult& cell);
/// Without its requests.
nlohmann::json repetition_to_json(const RepetitionResult& repetition);
RepetitionResult repetition_from_json(const nlohmann::json& json);
/// Columns; null where no timeline was recorded.
nlohmann::json timeline_to_json(const RepetitionResult& repetition);
std::vector<TimelinePoint> timeline_from_json(const nlohmann::json& json);
nlohmann::json logit_checks_to_json(const LogitEvidence& logits);
std::vector<LogitCheck> logit_checks_from_json(const nlohmann::json& json);
/// One line of requests.jsonl; its repetition stands in `repetition`.
nlohmann::json request_to_json(const RequestRecord& request, int repetition);
RequestRecord request_from_json(const nlohmann::json& json);
/// samples.json
nlohmann::json samples_to_json(const RunResult& run);
std::vector<SampleTexts> samples_from_json(const nlohmann::json& json);

nlohmann::json counters_to_json(const RunCounters& counters);

/// Sum over the repetitions; kv_blocks_peak is the largest.
RunCounters pooled_counters(const CellResult& cell);

/// Of all finished cells in fast numerics: sums, and the largest noise. None: there is no such cell with a certificate.
std::optional<FlipCount> pooled_flips(const RunResult& run);

}  // namespace paceline
