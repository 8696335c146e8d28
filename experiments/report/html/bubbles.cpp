#include <algorithm>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/analysis/metrics/lane_pieces.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/svg/lanes.h"

namespace paceline::html {

namespace {

constexpr int64_t kMostDrawnPasses = 12;   // more are too narrow to be read
constexpr size_t kMostDrawnPieces = 1100;  // about 20 KB
constexpr size_t kMostRanks = 8;

struct Kind {
  const char* name;  // of the column
  int color;         // as in the chart of a step's phases
};
constexpr std::array<Kind, kNumPieceKinds> kKinds = {{{"passes", 0},
                                                      {"drafts", 1},
                                                      {"samples", 2},
                                                      {"stage before", 5},
                                                      {"collectives", 4},
                                                      {"outcome", 7},
                                                      {"hand-over", 8},
                                                      {"scheduler", 3}}};
constexpr int kOddPassColor = 6;

const RankLanes& lanes_of(const CellResult& cell) {
  static const RankLanes kNone;
  return cell.repetitions.empty() ? kNone : cell.repetitions.front().lanes;
}

/// A cell with what its lanes say.
struct Shown {
  const CellSummary* summary;
  const RankLanes* lanes;
  std::vector<std::vector<LanePiece>> pieces;  // [rank]
  std::vector<LaneShares> shares;              // [rank]
};

Shown shown(const Report& report, const CellSummary& s) {
  const RankLanes& lanes = lanes_of(report.cell(s));
  Shown out{.summary = &s, .lanes = &lanes, .pieces = lane_pieces(lanes), .shares = {}};
  for (const auto& pieces : out.pieces) out.shares.push_back(lane_shares(pieces, lanes.window_ns));
  return out;
}

bool is_faster(const CellSummary* a, const CellSummary* b) { return b == nullptr || ranks_before(*a, *b); }

/// The fastest cell under TP alone and the fastest with stages, of one proposer, variant and load: where there are
/// several such pairs, that with the fastest cell. Without a pair the fastest cell of several ranks, without one the
/// fastest.
std::vector<const CellSummary*> telling_cells(const Report& report) {
  struct Pair {
    const CellSummary *tensor = nullptr, *stages = nullptr;
    const CellSummary* faster() const { return !stages || (tensor && is_faster(tensor, stages)) ? tensor : stages; }
  };
  std::vector<std::pair<const CellAxes*, Pair>> pairs;
  const CellSummary* fastest = nullptr;
  for (const CellSummary* s : report.fastest()) {
    const CellResult& cell = report.cell(*s);
    if (lanes_of(cell).empty()) continue;
    if (is_faster(s, fastest)) fastest = s;
    if (cell.axes.tp * cell.axes.pp == 1) continue;
    auto known = std::find_if(pairs.begin(), pairs.end(), [&](const auto& each) {
      return each.first->proposer == cell.axes.proposer && each.first->variant == cell.axes.variant &&
             each.first->concurrency == cell.axes.concurrency;
    });
    if (known == pairs.end()) known = pairs.insert(pairs.end(), {&cell.axes, {}});
    const CellSummary*& place = cell.axes.pp > 1 ? known->second.stages : known->second.tensor;
    if (is_faster(s, place)) place = s;
  }
  const Pair* best = nullptr;
  for (const auto& [axes, pair] : pairs) {
    const auto rank = [](const Pair& p) { return p.tensor && p.stages; };
    if (!best || rank(pair) > rank(*best) || (rank(pair) == rank(*best) && is_faster(pair.faster(), best->faster())))
      best = &pair;
  }
  if (!best) return fastest ? std::vector{fastest} : std::vector<const CellSummary*>();
  std::vector<const CellSummary*> cells;
  for (const CellSummary* s : {best->tensor, best->stages})
    if (s) cells.push_back(s);
  return cells;
}

std::string rank_name(const RankLanes& lanes, size_t rank) {
  const bool has_stages = lanes.ranks.back().stage > 0;
  return has_stages ? fmt::format("rank {}, stage {}", rank, lanes.ranks[rank].stage) : fmt::format("rank {}", rank);
}

std::string percent(double share) {
  return share > 0 && share < 0.005 ? "under 1 %" : fmt::format("{:.0f} %", 100 * share);
}

/// "rank 1 waits 31 % of the window: 24 % for stage 0, 7 % for the scheduler."
std::string sentence(const RankLanes& lanes, size_t rank, const LaneShares& shares) {
  std::string reasons;
  const auto add = [&](PieceKind kind, const std::string& whom) {
    const double share = shares[size_t(kind)];
    if (share >= 0.005) reasons += fmt::format("{}{} {}", reasons.empty() ? ": " : ", ", percent(share), whom);
  };
  add(PieceKind::wait_stage, fmt::format("for stage {}", lanes.ranks[rank].stage - 1));
  add(PieceKind::wait_peers, "for other ranks in collectives");
  add(PieceKind::wait_outcome, "for the outcome of the step that others still work on");
  add(PieceKind::wait_handover, "for its thread to take up a pass that others have begun");
  add(PieceKind::wait_scheduler, "for the scheduler");
  return fmt::format("rank {} waits {} of the window{}.", rank, percent(waiting_share(shares)), reasons);
}

/// The last passes of the window, as many as can be drawn.
LaneChart chart_of(const Shown& cell, const std::string& label, const std::string& finding, int64_t num_passes) {
  int64_t last = 0;
  for (const auto& rank : cell.pieces)
    for (const LanePiece& piece : rank) last = std::max(last, piece.pass);
  const int64_t first = last + 1 - num_passes;
  int64_t begin = cell.lanes->window_ns;
  for (const auto& rank : cell.pieces)
    for (const LanePiece& piece : rank)
      if (piece.pass >= first) begin = std::min(begin, piece.start_ns);
  LaneChart chart{.title = label + ": when each rank worked and waited",
                  .x_label = "milliseconds",
                  .finding = finding,
                  .x_min = double(begin) / 1e6,
                  .x_max = double(cell.lanes->window_ns) / 1e6,
                  .rows = {}};
  for (size_t rank = 0; rank < std::min(cell.pieces.size(), kMostRanks); ++rank) {
    LaneRow row{.label = rank_name(*cell.lanes, rank), .bars = {}};
    for (const LanePiece& piece : cell.pieces[rank]) {
      if (piece.end_ns <= begin) continue;
      const bool is_odd = piece.kind == PieceKind::pass && piece.pass % 2 == 1;
      row.bars.push_back({.start = double(std::max(piece.start_ns, begin)) / 1e6,
                          .end = double(piece.end_ns) / 1e6,
                          .color = is_odd ? kOddPassColor : kKinds[size_t(piece.kind)].color,
                          .height = is_wait(piece.kind) ? BarHeight::low : BarHeight::full});
    }
    chart.rows.push_back(std::move(row));
  }
  return chart;
}

int64_t num_passes_of(const Shown& cell) {
  int64_t first = 0, last = 0;
  for (const auto& rank : cell.pieces) {
    for (const LanePiece& piece : rank) {
      if (piece.pass == 0) continue;
      first = first == 0 ? piece.pass : std::min(first, piece.pass);
      last = std::max(last, piece.pass);
    }
  }
  return last == 0 ? 0 : last - first + 1;
}

std::string drawing(const Report& report, const Shown& cell) {
  const std::string label = report.label(report.cell(*cell.summary).axes);
  const int64_t recorded = num_passes_of(cell);
  int64_t passes = std::clamp<int64_t>(recorded, 1, kMostDrawnPasses);
  std::string sentences, finding;
  for (size_t rank = 0; rank < cell.shares.size(); ++rank) {
    const std::string of_rank = sentence(*cell.lanes, rank, cell.shares[rank]);
    sentences += "<li>" + html_escaped(of_rank) + "</li>";
    finding += (finding.empty() ? "" : " ") + of_rank;
  }
  LaneChart chart = chart_of(cell, label, finding, passes);
  while (passes > 1 && num_lane_pieces(chart) > kMostDrawnPieces) chart = chart_of(cell, label, finding, --passes);
  return fmt::format("<h3>{}</h3>", html_escaped(label)) +
         note(fmt::format("{} in {:.1f} ms{}.", counted(recorded, "pass", "passes"),
                          double(cell.lanes->window_ns) / 1e6,
                          passes < recorded ? fmt::format("; drawn: the last {}", passes) : "")) +
         wide(chart.title, svg_lane_chart(chart)) + "<ul>" + sentences + "</ul>";
}

std::string table_of(const Report& report, const std::vector<Shown>& cells) {
  std::string rows;
  for (const Shown& cell : cells) {
    const CellResult& result = report.cell(*cell.summary);
    for (size_t rank = 0; rank < cell.shares.size(); ++rank) {
      rows += row_open(result, *cell.summary) + text_cell(report.label(result.axes)) +
              text_cell(rank_name(*cell.lanes, rank));
      for (size_t kind = 0; kind < kNumPieceKinds; ++kind) {
        if (PieceKind(kind) == PieceKind::wait_stage) rows += percent_cell(waiting_share(cell.shares[rank]));
        rows += percent_cell(cell.shares[rank][kind]);
      }
      rows += "</tr>\n";
    }
  }
  std::vector<TableColumn> columns = {{"cell", true}, {"rank", true}};
  for (size_t kind = 0; kind < kNumPieceKinds; ++kind) {
    if (PieceKind(kind) == PieceKind::wait_stage) columns.push_back({"waits", false, "those to the right together"});
    columns.push_back({kKinds[kind].name});
  }
  return table("Shares of the window by rank.", columns, rows);
}

/// "Ranks wait 12 % of the time under tp2 pp1 ngram k=3, 48 % under tp1 pp2 ngram k=3."
std::string comparison(const Report& report, const std::vector<Shown>& cells) {
  std::string text;
  for (const Shown& cell : cells) {
    double sum = 0;
    for (const LaneShares& shares : cell.shares) sum += waiting_share(shares);
    text += fmt::format("{} {} under {}", text.empty() ? "On average a rank waits" : ",",
                        percent(sum / double(cell.shares.size())), report.label(report.cell(*cell.summary).axes));
  }
  return "<p>" + html_escaped(text) + ".</p>";
}

bool is_on_gpus(const Shown& cell) {
  return std::any_of(cell.lanes->ranks.begin(), cell.lanes->ranks.end(),
                     [](const RankLane& rank) { return rank.device != "cpu"; });
}

}  // namespace

Section bubbles_section(const Report& report) {
  Section section{"bubbles", "When each rank worked and when it waited", ""};
  std::vector<Shown> cells;
  for (const CellSummary* s : telling_cells(report)) cells.push_back(shown(report, *s));
  if (cells.empty()) return section;
  std::vector<LegendEntry> legend = {{.name = "pass, even number", .color = 0, .swatch = true},
                                     {.name = "pass, odd number", .color = kOddPassColor, .swatch = true},
                                     {.name = "draft", .color = 1, .swatch = true},
                                     {.name = "sample", .color = 2, .swatch = true}};
  for (size_t kind = size_t(PieceKind::wait_stage); kind < kNumPieceKinds; ++kind)
    legend.push_back(
        {.name = fmt::format("low bar: waits, {}", kKinds[kind].name), .color = kKinds[kind].color, .swatch = true});
  section.body = comparison(report, cells) + chart_legend(legend);
  for (const Shown& cell : cells) section.body += drawing(report, cell);
  section.body += table_of(report, cells);
  section.body += note(
      "The last passes before half of the first repetition's requests had finished. Ranks are threads that read one "
      "monotonic clock. stage before: for its message. collectives: for the other ranks. outcome: without a batch "
      "while another rank works, as the next one needs what that makes. hand-over: another rank has begun the pass, "
      "and this one's thread is still to wake up or to get a core. scheduler: without a batch while no rank works; on "
      "the deciding rank, whose thread runs the engine, all time between pieces of work. "
      "<code>runexp trace</code> writes the windows of all cells for Perfetto.");
  if (std::any_of(cells.begin(), cells.end(), is_on_gpus))
    section.body += note(
        "On GPUs these are the hosts: a piece of work is the time in which its kernels were given out, and the device "
        "may run them later, while its host waits. The share of time in which a device was busy stands in the section "
        "on devices.");
  return section;
}

}  // namespace paceline::html
