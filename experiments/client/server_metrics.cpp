#include "experiments/client/server_metrics.h"

#include <charconv>
#include <cmath>

namespace paceline {
namespace {

constexpr std::string_view kPrefix = "vllm:spec_decode_num_";
constexpr int64_t kMostPositions = 1024;

/// Of a label set `{a="b",position="2"}`.
std::optional<int64_t> position_of(std::string_view labels) {
  constexpr std::string_view kLabel = "position=\"";
  const size_t at = labels.find(kLabel);
  if (at == std::string_view::npos) return std::nullopt;
  labels.remove_prefix(at + kLabel.size());
  int64_t position = 0;
  const auto read = std::from_chars(labels.data(), labels.data() + labels.size(), position);
  const bool is_good = read.ec == std::errc() && position >= 0 && position < kMostPositions;
  return is_good ? std::optional(position) : std::nullopt;
}

}  // namespace

std::optional<DraftCounters> draft_counters(std::string_view metrics) {
  DraftCounters out;
  bool has_drafts = false, has_drafted = false, has_accepted = false;
  while (!metrics.empty()) {
    const size_t end = metrics.find('\n');
    std::string_view line = metrics.substr(0, end);
    metrics.remove_prefix(end == std::string_view::npos ? metrics.size() : end + 1);
    if (!line.starts_with(kPrefix)) continue;
    line.remove_prefix(kPrefix.size());
    const size_t name_end = line.find_first_of("{ ");
    if (name_end == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, name_end);
    const size_t labels_end = line[name_end] == '{' ? line.find('}') : name_end;
    if (labels_end == std::string_view::npos) continue;
    const std::string_view labels = line.substr(name_end, labels_end - name_end);
    std::string_view number = line.substr(std::min(line.size(), labels_end + 1));
    while (number.starts_with(' ')) number.remove_prefix(1);
    double value = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
    if (read.ec != std::errc() || !std::isfinite(value) || value < 0 || value > 0x1p53) continue;
    const auto count = int64_t(std::llround(value));
    if (name == "drafts_total") {
      out.drafts += count;
      has_drafts = true;
    } else if (name == "draft_tokens_total") {
      out.drafted += count;
      has_drafted = true;
    } else if (name == "accepted_tokens_total") {
      out.accepted += count;
      has_accepted = true;
    } else if (name == "accepted_tokens_per_pos_total") {
      const std::optional<int64_t> position = position_of(labels);
      if (!position) continue;
      if (out.accepted_at.size() <= size_t(*position)) out.accepted_at.resize(size_t(*position) + 1);
      out.accepted_at[size_t(*position)] += count;
    }
  }
  return has_drafts && has_drafted && has_accepted ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<SpeculationStats> stats_between(const DraftCounters& before, const DraftCounters& after) {
  SpeculationStats out{.steps = after.drafts - before.drafts,
                       .drafted = after.drafted - before.drafted,
                       .accepted = after.accepted - before.accepted};
  if (out.steps < 0 || out.drafted < 0 || out.accepted < 0 || out.accepted > out.drafted) return std::nullopt;
  if (after.accepted_at.empty()) return out;
  int64_t at_least = out.steps;  // steps that accepted so many or more
  for (size_t i = 0; i < after.accepted_at.size(); ++i) {
    const int64_t more = after.accepted_at[i] - (i < before.accepted_at.size() ? before.accepted_at[i] : 0);
    if (more < 0 || more > at_least) return std::nullopt;
    out.steps_by_accepted.push_back(at_least - more);
    at_least = more;
  }
  out.steps_by_accepted.push_back(at_least);
  return out;
}

}  // namespace paceline
