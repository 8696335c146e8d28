#include "experiments/analysis/published_rows.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace paceline {
namespace {

std::string why(const CellSummary& s, const CellSummary& over) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  const std::optional<double>&tokens = s.tokens_per_target_forward, &tokens_over = over.tokens_per_target_forward;
  if (tokens && tokens_over && std::abs(*tokens / *tokens_over - 1) > 0.01)
    add(fmt::format("{:.2f} tokens per sequence per pass against {:.2f}", *tokens, *tokens_over));
  if (decode_pass_ratio(s, over))
    add(fmt::format("a decode pass takes {:.2f} ms against {:.2f}", *s.passes->decode.pass_ms,
                    *over.passes->decode.pass_ms));
  if (const std::string phase = costliest_phase(s); !phase.empty()) add(phase);
  constexpr double kIdle = 0.9;
  const std::vector<double>& busy = s.devices.busy;
  if (busy.size() > 1 && *std::min_element(busy.begin(), busy.end()) < kIdle)
    add(fmt::format("devices are busy {}", busy_text(busy)));
  return text;
}

}  // namespace

std::vector<PublishedRow> published_rows(const RunResult& run, const RunSummary& summary) {
  std::vector<PublishedRow> rows;
  for (const CellSummary& s : summary.cells) {
    const CellResult& cell = run.cells[s.cell];
    if (!cell.published) continue;
    PublishedRow row{.label = cell.axes.variant,
                     .over = cell.published->over,
                     .output_tok_s = s.output_tok_s,
                     .tpot_ms = s.tpot_ms.p50,
                     .measured = {},
                     .published = cell.published->speedup,
                     .source = cell.published->source,
                     .why = cell.status == CellStatus::done ? "" : cell.reason};
    const auto over = std::find_if(summary.cells.begin(), summary.cells.end(), [&](const CellSummary& other) {
      return run.cells[other.cell].axes.variant == row.over;
    });
    if (over != summary.cells.end() && s.output_tok_s && over->output_tok_s && *over->output_tok_s > 0) {
      row.measured = *s.output_tok_s / *over->output_tok_s;
      row.why = why(s, *over);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string published_sources(const std::vector<PublishedRow>& rows) {
  nlohmann::ordered_map<std::string, std::string> by_source;  // its rows
  for (const PublishedRow& row : rows) {
    std::string& labels = by_source[row.source];
    labels += (labels.empty() ? "" : ", ") + row.label;
  }
  std::string text;
  for (const auto& [source, labels] : by_source) {
    text += fmt::format("{}{}", text.empty() ? "published: " : "; ", source.empty() ? "source not named" : source);
    if (by_source.size() > 1) text += fmt::format(" ({})", labels);
  }
  return text;
}

}  // namespace paceline
