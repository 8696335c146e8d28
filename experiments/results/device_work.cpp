#include "experiments/results/device_work.h"

#include <algorithm>

namespace paceline {

RankWork& RankWork::operator+=(const RankWork& more) {
  verify += more.verify;
  draft += more.draft;
  sample += more.sample;
  comm_bytes += more.comm_bytes;
  comm_wait_s += more.comm_wait_s;
  return *this;
}

RankWork RankWork::operator-(const RankWork& before) const {
  return {.verify = verify - before.verify,
          .draft = draft - before.draft,
          .sample = sample - before.sample,
          .comm_bytes = comm_bytes - before.comm_bytes,
          .comm_wait_s = comm_wait_s - before.comm_wait_s};
}

Roofline roofline(const RooflineInput& input) {
  Roofline out;
  if (input.passes <= 0) return out;
  const double passes = double(input.passes);
  out.bytes = input.bytes / passes;
  out.flops = input.flops / passes;
  if (input.seconds && *input.seconds > 0) out.ms = *input.seconds * 1e3 / passes;
  const bool can_read = input.bytes_s && *input.bytes_s > 0, can_compute = input.flops_s && *input.flops_s > 0;
  if (out.ms && can_read) out.read_share = input.bytes / *input.seconds / *input.bytes_s;
  if (out.ms && can_compute) out.matrix_share = input.flops / *input.seconds / *input.flops_s;
  if (can_read) {
    const double reading = out.bytes / *input.bytes_s, computing = can_compute ? out.flops / *input.flops_s : 0.0;
    out.floor_ms = std::max(reading, computing) * 1e3;
    if (out.ms) out.floor_share = *out.floor_ms / *out.ms;
  }
  return out;
}

DeviceSummary summarize_devices(const std::vector<RankWork>& ranks, int deciding_rank, double wall_s, int64_t passes,
                                const DeviceCeilings& ceilings) {
  DeviceSummary out;
  if (ranks.empty() || wall_s <= 0) return out;
  for (const RankWork& rank : ranks) out.busy.push_back(rank.busy_s() / wall_s);
  if (size_t(deciding_rank) >= ranks.size()) return out;
  const RankWork& own = ranks[size_t(deciding_rank)];
  const auto of = [&](const Work& work, const std::optional<double>& read) {
    return roofline({.seconds = work.seconds,
                     .bytes = double(work.traffic.bytes()),
                     .flops = double(work.traffic.flops),
                     .passes = passes,
                     .bytes_s = read,
                     .flops_s = ceilings.matrix_flops_s});
  };
  out.verify = of(own.verify, ceilings.read_bytes_s);
  out.draft = of(own.draft, ceilings.draft_read_bytes_s);
  out.sample = of(own.sample, ceilings.read_bytes_s);
  out.attention = roofline({.bytes = double(own.verify.traffic.kv_bytes),
                            .flops = double(own.verify.traffic.attention_flops),
                            .passes = passes,
                            .bytes_s = ceilings.read_bytes_s,
                            .flops_s = ceilings.matrix_flops_s});
  int64_t most_bytes = 0;
  for (const RankWork& rank : ranks) most_bytes = std::max(most_bytes, rank.comm_bytes);
  if (ranks.size() > 1)
    out.communicate = roofline(
        {.seconds = own.comm_wait_s, .bytes = double(most_bytes), .passes = passes, .bytes_s = ceilings.link_bytes_s});
  if (ceilings.link_bytes_s) {  // devices exchange while the host does not look: its waits say nothing
    out.communicate.ms.reset();
    out.communicate.read_share.reset();
    out.communicate.floor_share.reset();
  }
  return out;
}

std::string busy_text(const std::vector<double>& busy) {
  constexpr size_t kMostListed = 4;
  if (busy.empty()) return "–";
  if (busy.size() > kMostListed) {
    const auto [lowest, highest] = std::minmax_element(busy.begin(), busy.end());
    return fmt::format("{:.2f}–{:.2f}", *lowest, *highest);
  }
  std::string out;
  for (const double share : busy) out += fmt::format("{}{:.2f}", out.empty() ? "" : "/", share);
  return out;
}

}  // namespace paceline
