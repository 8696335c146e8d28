#pragma once
// What the devices of a cell did and what they can do at most, as plain structs, and how near the one came to the
// other. Of the engine only the books of its devices (kernels/work.h). Definitions: docs/metrics.md.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/work.h"

namespace paceline {

/// One rank over a repetition.
struct RankWork {
  Work verify;             // passes of the target, prefill included
  Work draft;              // passes and samples of a draft model
  Work sample;             // acceptance and sampling for the target
  int64_t comm_bytes = 0;  // what the rank put into sums, gathers and messages
  double comm_wait_s = 0;  // its host's waits for other ranks

  double busy_s() const { return verify.seconds + draft.seconds + sample.seconds; }
  RankWork& operator+=(const RankWork& more);
  RankWork operator-(const RankWork& before) const;
};

/// What the deciding rank's device can do at most, alone, measured before the cell's repetitions. No value: not
/// measured.
struct DeviceCeilings {
  std::optional<double> read_bytes_s;        // plain reads: of the target's packed weights on CPUs, of memory on GPUs
  std::optional<double> draft_read_bytes_s;  // likewise the draft model's, which may lie in a nearer cache
  std::optional<double> copy_bytes_s;        // GPU: bytes read and written
  std::optional<double> matrix_flops_s;
  std::string matrix;                  // what was measured for it: "float32 FMAs", "own bfloat16 GEMM of 8192"
  std::optional<double> link_bytes_s;  // to the device of a neighbouring rank, one way
};

/// A phase against the ceilings, per pass of the target. Bytes and operations are those that are counted; what else a
/// device moves makes the true floor higher.
struct Roofline {
  std::optional<double> ms;            // of the device's time; no value: not timed by itself
  double bytes = 0, flops = 0;         // counted
  std::optional<double> read_share;    // bytes / ms over the read rate
  std::optional<double> matrix_share;  // flops / ms over the matrix rate
  std::optional<double> floor_ms;      // the longer of reading and computing at the ceilings
  std::optional<double> floor_share;   // floor_ms / ms: 1 is as fast as the ceilings allow
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

/// A cell's devices. Everything but `busy` is the deciding rank's.
struct DeviceSummary {
  std::vector<double> busy;  // [rank] share of the wall time in which its device was at work
  Roofline verify, draft, sample;
  Roofline attention;    // of the target; a part of verify that is not timed by itself
  Roofline communicate;  // bytes: of the rank that puts in most; ms: the host's waits, no value on GPUs; floor_ms: the
                         // bytes over the link
};
/// ranks: [tp * pp] sums over the repetitions; empty: not measured, nothing has a value. wall_s and passes likewise.
DeviceSummary summarize_devices(const std::vector<RankWork>& ranks, int deciding_rank, double wall_s, int64_t passes,
                                const DeviceCeilings& ceilings);

nlohmann::json ranks_to_json(const std::vector<RankWork>& ranks);
nlohmann::json ceilings_to_json(const DeviceCeilings& ceilings);
/// {"verify": {…}, "draft": {…}, "sample": {…}, "attention": {…}, "communicate": {…}}
nlohmann::json rooflines_to_json(const DeviceSummary& summary);

/// Busy shares of the ranks' devices, "0.66/0.31"; of more than four "0.18–0.54"; "–" without any.
std::string busy_text(const std::vector<double>& busy);

}  // namespace paceline
