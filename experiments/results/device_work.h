#pragma once
// What the devices of a cell did and what they can do at most, as plain structs, how near the one came to the other,
// and what else the machine did. Of the engine only the books of its devices (kernels/work.h) and the kinds of
// activities. Definitions:
// docs/metrics.md.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/comm/activity_log.h"
#include "experiments/results/fields.h"
#include "kernels/work.h"

namespace paceline {

template <>
struct FieldsOf<Work> {
  template <class Visit>
  static void visit(Visit&& visit) {
    const auto traffic = [](auto member) {
      return [member](auto& work) -> auto& { return work.traffic.*member; };
    };
    visit("seconds", &Work::seconds, "in which the device was at work");
    visit("weight_bytes", traffic(&Traffic::weight_bytes), "read, each product's once");
    visit("kv_bytes", traffic(&Traffic::kv_bytes), "read");
    visit("logit_bytes", traffic(&Traffic::logit_bytes), "of rows that a draw or a verdict needs");
    visit("flops", traffic(&Traffic::flops), "multiply and add count as two");
    visit("attention_flops", traffic(&Traffic::attention_flops), "of these, of attention");
  }
};

/// One rank over a repetition.
struct RankWork {
  Work verify, draft, sample;
  int64_t comm_bytes = 0;
  double comm_wait_s = 0;

  double busy_s() const { return verify.seconds + draft.seconds + sample.seconds; }
  RankWork& operator+=(const RankWork& more);
  RankWork operator-(const RankWork& before) const;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("busy_s", &RankWork::busy_s, "of its device");
    visit("verify", &RankWork::verify, "passes of the target, prefill included");
    visit("draft", &RankWork::draft, "passes and samples of a draft model");
    visit("sample", &RankWork::sample, "acceptance and sampling for the target");
    visit("comm_bytes", &RankWork::comm_bytes, "what the rank put into sums, gathers and messages");
    visit("comm_wait_s", &RankWork::comm_wait_s, "its host's waits for other ranks");
  }
};

/// What the sampling rank's device can do at most, alone, measured before the cell's repetitions. No value: not
/// measured.
struct DeviceCeilings {
  std::optional<double> read_bytes_s, draft_read_bytes_s, copy_bytes_s, matrix_flops_s;
  std::string matrix;
  std::optional<double> link_bytes_s;

  template <class Visit>
  static void fields(Visit&& visit) {
    using C = DeviceCeilings;
    visit("read_bytes_s", &C::read_bytes_s, "plain reads: of the target's packed weights on CPUs, of memory on GPUs");
    visit("draft_read_bytes_s", &C::draft_read_bytes_s, "likewise the draft model's, which may lie in a nearer cache");
    visit("copy_bytes_s", &C::copy_bytes_s, "GPU: bytes read and written");
    visit("matrix_flops_s", &C::matrix_flops_s, "");
    visit("matrix", &C::matrix, R"(what was measured for it: "float32 FMAs", "own bfloat16 GEMM of 8192")");
    visit("link_bytes_s", &C::link_bytes_s, "to the device of a neighbouring rank, one way");
  }
};

/// A phase against the ceilings, per pass of the target. Bytes and operations are those that are counted; what else a
/// device moves makes the true floor higher.
struct Roofline {
  std::optional<double> ms;
  double bytes = 0, flops = 0;
  std::optional<double> read_share, matrix_share, floor_ms, floor_share;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("ms", &Roofline::ms, "of the device's time; null: not timed by itself");
    visit("bytes", &Roofline::bytes, "counted");
    visit("flops", &Roofline::flops, "counted");
    visit("read_share", &Roofline::read_share, "bytes / ms over the read rate");
    visit("matrix_share", &Roofline::matrix_share, "flops / ms over the matrix rate");
    visit("floor_ms", &Roofline::floor_ms, "the longer of reading and computing at the ceilings");
    visit("floor_share", &Roofline::floor_share, "floor_ms / ms: 1 is as fast as the ceilings allow");
  }
};

/// seconds, bytes and flops over `passes`; all rates per second.
struct RooflineInput {
  std::optional<double> seconds;
  double bytes = 0, flops = 0;
  int64_t passes = 0;
  std::optional<double> bytes_s, flops_s;  // ceilings
};
/// Shares and floors that lack a ceiling or a time have no value. passes 0: nothing has.
Roofline roofline(const RooflineInput& input);

/// A cell's devices. Everything but `busy` is the sampling rank's.
struct DeviceSummary {
  std::vector<double> busy;  // [rank] share of the wall time in which its device was at work
  Roofline verify, draft, sample, attention, communicate;

  template <class Visit>
  static void fields(Visit&& visit) {
    using D = DeviceSummary;
    visit("verify", &D::verify, "");
    visit("draft", &D::draft, "");
    visit("sample", &D::sample, "");
    visit("attention", &D::attention, "of the target; a part of `verify` that is not timed by itself");
    visit(
        "communicate", &D::communicate,
        "bytes: of the rank that puts in most; ms: the host's waits, null on GPUs; floor_ms: the bytes over the link");
  }
};
/// ranks: [tp * pp] sums over the repetitions; empty: not measured, nothing has a value. wall_s and passes likewise.
DeviceSummary summarize_devices(const std::vector<RankWork>& ranks, int deciding_rank, double wall_s, int64_t passes,
                                const DeviceCeilings& ceilings);

/// What the machine and other processes took from a repetition, between the start and the end of a repetition, over the
/// cores that the process may use. What the machine does not say has no value. GPUs are not watched: nothing here
/// speaks of their clocks or of other tenants.
struct Disturbance {
  double wall_s = 0;
  int cores = 0;
  std::optional<double> foreign_cpu_s, stolen_s, throttled_s;
  std::optional<int64_t> throttled_periods, thermal_events;
  std::optional<double> clock_ghz;

  template <class Visit>
  static void fields(Visit&& visit) {
    using D = Disturbance;
    visit("wall_s", &D::wall_s, "that was watched");
    visit("cores", &D::cores, "in the process's mask");
    visit("foreign_cpu_s", &D::foreign_cpu_s, "CPU time on these cores that is not the process's");
    visit("stolen_s", &D::stolen_s, "wanted by these cores and given to another virtual machine");
    visit("throttled_s", &D::throttled_s, "threads held back by the CPU quota of the cgroup, summed as it counts");
    visit("throttled_periods", &D::throttled_periods, "of the quota");
    visit("thermal_events", &D::thermal_events, "cores and packages that slowed down as they were too hot");
    visit("clock_ghz", &D::clock_ghz, "of the fastest of these cores, at the end");
    visit(
        "gpus", [](const D&) { return nlohmann::json(nullptr); }, "null: not watched");
  }
};

/// Busy shares of the ranks' devices, "0.66/0.31"; of more than four "0.18–0.54"; "–" without any.
std::string busy_text(const std::vector<double>& busy);

// What each rank of a cell did when, over a window of its first repetition: cells/<NAME>/ranks.json (schema:
// results/README.md).
inline constexpr const char* kRankLanesFile = "ranks.json";

/// A piece of work, or a wait within or before one. Times count from the window's start.
struct LaneActivity {
  ActivityKind kind = ActivityKind::pass;
  int64_t start_ns = 0, duration_ns = 0, pass = 0;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("start_ns", &LaneActivity::start_ns, "since the window's start");
    visit("duration_ns", &LaneActivity::duration_ns, "");
    visit("kind", &LaneActivity::kind, "place in `kinds`");
    visit("pass", &LaneActivity::pass, "number of the target's pass; 0: of none");
  }
};

struct RankLane {
  int stage = 0, shard = 0;
  std::string device;
  std::vector<LaneActivity> activities;  // by start; what reaches over an edge of the window is cut there

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("stage", &RankLane::stage, "", FieldRule::required);
    visit("shard", &RankLane::shard, "", FieldRule::required);
    visit("device", &RankLane::device, R"("cpu", "cuda:0")", FieldRule::required);
  }
};

/// All ranks on one time axis.
struct RankLanes {
  int64_t window_ns = 0;
  int deciding_rank = 0;
  std::vector<RankLane> ranks;  // [tp * pp]; empty: not recorded

  bool empty() const { return ranks.empty(); }
};

nlohmann::json rank_lanes_to_json(const RankLanes& lanes);
/// The inverse; nothing where the JSON has another form or a newer version.
std::optional<RankLanes> rank_lanes_from_json(const nlohmann::json& json);

}  // namespace paceline
