#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/analysis/metrics/lane_pieces.h"
#include "experiments/report/html/parts.h"

namespace paceline::html {

namespace {

constexpr int64_t kMostDrawnPasses = 12;   // more are too narrow to be read
constexpr size_t kMostDrawnPieces = 1100;  // about 20 KB
constexpr size_t kMostRanks = 8;

struct Kind {
  const char* name;  // of the column
  int color;         // as in the chart of a step's phases
  const char* help;
};
constexpr std::array<Kind, kNumPieceKinds> kKinds = {
    {{"passes", 0, ""},
     {"drafts", 1, ""},
     {"samples", 2, ""},
     {"previous stage", 5, "for the message of the previous pipeline stage"},
     {"collective", 4, "for other ranks in collectives"},
     {"other rank", 7, "idle: the next batch needs what another rank still computes"},
     {"wake-up", 8, "the pass has begun on another rank; this rank's thread is not running yet"},
     {"scheduler", 3,
      "idle, no batch is scheduled; on the sampling rank any time outside passes, drafting and sampling"}}};
constexpr int kOddPassColor = 6;

const RankLanes& lanes_of(const CellResult& cell) {
  static const RankLanes kNone;
  return cell.repetitions.empty() ? kNone : cell.repetitions.front().lanes;
}

/// A cell with what its lanes say.
struct Shown {
  const RankLanes* lanes;
  std::string label;
  std::vector<std::vector<LanePiece>> pieces;  // [rank]
  std::vector<LaneShares> shares;              // [rank]
};

/// The fastest cell under TP alone and the fastest with stages, of one proposer, variant and load: where there are
/// several such pairs, that with the fastest cell. Without a pair the fastest cell of several ranks, without one the
/// fastest.
std::vector<const CellSummary*> telling_cells(const Report& report) {
  using Pair = std::array<const CellSummary*, 2>;
  std::vector<std::pair<std::tuple<std::string, std::string, int>, Pair>> pairs;
  const CellSummary* fastest = nullptr;
  const auto is_faster = [](const CellSummary* a, const CellSummary* b) { return !b || (a && ranks_before(*a, *b)); };
  for (const CellSummary* s : report.fastest()) {
    const CellAxes& axes = report.cell(*s).axes;
    if (lanes_of(report.cell(*s)).empty()) continue;
    if (is_faster(s, fastest)) fastest = s;
    if (axes.tp * axes.pp == 1) continue;
    const CellSummary*& place = group_of(pairs, std::tuple(axes.proposer, axes.variant, axes.concurrency))[axes.pp > 1];
    if (is_faster(s, place)) place = s;
  }
  const auto best = std::min_element(pairs.begin(), pairs.end(), [&](const auto& a, const auto& b) {
    const auto is_whole = [](const Pair& pair) { return pair[0] && pair[1]; };
    if (is_whole(a.second) != is_whole(b.second)) return is_whole(a.second);
    return ranks_before(**std::min_element(a.second.begin(), a.second.end(), is_faster),
                        **std::min_element(b.second.begin(), b.second.end(), is_faster));
  });
  std::vector<const CellSummary*> cells = {fastest};
  if (best != pairs.end()) cells.assign(best->second.begin(), best->second.end());
  std::erase(cells, nullptr);
  return cells;
}

/// Least and largest number of a recorded pass; 0: none.
std::pair<int64_t, int64_t> passes_of(const Shown& cell) {
  int64_t first = 0, last = 0;
  for (const auto& rank : cell.pieces) {
    for (const LanePiece& piece : rank) {
      if (piece.pass == 0) continue;
      first = first == 0 ? piece.pass : std::min(first, piece.pass);
      last = std::max(last, piece.pass);
    }
  }
  return {first, last};
}

std::string rank_of(const Shown& cell, size_t rank) {
  return rank_name(rank, cell.lanes->ranks[rank].stage, cell.lanes->ranks.back().stage > 0);
}

/// From the pass `first` on.
LaneChart lanes_from(const Shown& cell, int64_t first) {
  int64_t begin = cell.lanes->window_ns;
  for (const auto& rank : cell.pieces)
    for (const LanePiece& piece : rank)
      if (piece.pass >= first) begin = std::min(begin, piece.start_ns);
  LaneChart chart{.title = cell.label + ": when each rank worked and waited",
                  .x_label = "milliseconds",
                  .x_min = double(begin) / 1e6,
                  .x_max = double(cell.lanes->window_ns) / 1e6};
  for (size_t rank = 0; rank < std::min(cell.pieces.size(), kMostRanks); ++rank) {
    chart.finding += fmt::format("{} waits {}. ", rank_of(cell, rank), percent(waiting_share(cell.shares[rank])));
    LaneRow row{.label = rank_of(cell, rank)};
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

std::string drawing(const Shown& cell) {
  const auto [first, last] = passes_of(cell);
  const int64_t recorded = last == 0 ? 0 : last - first + 1;
  int64_t passes = std::clamp<int64_t>(recorded, 1, kMostDrawnPasses);
  LaneChart chart = lanes_from(cell, last + 1 - passes);
  while (passes > 1 && num_lane_pieces(chart) > kMostDrawnPieces) chart = lanes_from(cell, last + 1 - --passes);
  return fmt::format("<h3>{}</h3>", html_escaped(cell.label)) +
         note(fmt::format("{} in {:.1f} ms{}.", counted(recorded, "pass", "passes"),
                          double(cell.lanes->window_ns) / 1e6,
                          passes < recorded ? fmt::format("; drawn: the last {}", passes) : "")) +
         wide(chart.title, svg_lane_chart(chart));
}

std::string shares_table(const std::vector<Shown>& cells) {
  Table table{.title = "What each rank did in all recorded passes, in shares of their time.",
              .columns = {{"cell", true}, {"rank", true}},
              .rows = {}};
  for (size_t kind = 0; kind < kNumPieceKinds; ++kind) {
    if (PieceKind(kind) == PieceKind::wait_stage)
      table.columns.push_back({"waits", false, "the columns to the right together"});
    table.columns.push_back({kKinds[kind].name, false, kKinds[kind].help});
  }
  for (const Shown& cell : cells) {
    for (size_t rank = 0; rank < cell.shares.size(); ++rank) {
      Table::Row row{.cells = {cell.label, rank_of(cell, rank)}};
      for (size_t kind = 0; kind < kNumPieceKinds; ++kind) {
        if (PieceKind(kind) == PieceKind::wait_stage) row.cells.emplace_back(percent(waiting_share(cell.shares[rank])));
        row.cells.emplace_back(percent(cell.shares[rank][kind]));
      }
      table.rows.push_back(std::move(row));
    }
  }
  return html_table(table);
}

/// "On average a rank waits 12 % of the time in tp2 pp1 ngram k=3, 48 % in tp1 pp2 ngram k=3."
std::string comparison(const std::vector<Shown>& cells) {
  std::string text;
  for (const Shown& cell : cells) {
    double sum = 0;
    for (const LaneShares& shares : cell.shares) sum += waiting_share(shares);
    const std::string share = percent(sum / double(cell.shares.size()));
    text += text.empty() ? fmt::format("On average a rank waits {} of the time in {}", share, cell.label)
                         : fmt::format(", {} in {}", share, cell.label);
  }
  return "<p>" + html_escaped(text) + ".</p>";
}

}  // namespace

Section bubbles_section(const Report& report) {
  Section section{"bubbles", "When each rank worked and when it waited"};
  std::vector<Shown> cells;
  bool on_gpus = false;
  for (const CellSummary* s : telling_cells(report)) {
    const RankLanes& lanes = lanes_of(report.cell(*s));
    Shown cell{.lanes = &lanes, .label = report.label(report.cell(*s).axes), .pieces = lane_pieces(lanes)};
    for (const auto& pieces : cell.pieces) cell.shares.push_back(lane_shares(pieces, lanes.window_ns));
    for (const RankLane& rank : lanes.ranks) on_gpus = on_gpus || rank.device != "cpu";
    cells.push_back(std::move(cell));
  }
  if (cells.empty()) return section;
  std::vector<LegendEntry> legend = {{.name = "pass, even number", .color = 0, .swatch = true},
                                     {.name = "pass, odd number", .color = kOddPassColor, .swatch = true}};
  for (size_t kind = 1; kind < kNumPieceKinds; ++kind)
    legend.push_back({.name = kKinds[kind].name, .color = kKinds[kind].color, .swatch = true});
  section.body =
      comparison(cells) + chart_legend(legend) +
      note(
          "Low bars: waiting for the previous stage; for a collective; for another rank, whose result the next batch "
          "needs; for wake-up (the pass has begun on another rank, this rank's thread is not running yet); for the "
          "scheduler (no batch is scheduled).");
  for (const Shown& cell : cells) section.body += drawing(cell);
  section.body +=
      shares_table(cells) + note(
                                "Recorded until half of the first repetition's requests have finished. <code>runexp "
                                "trace</code> writes the passes of all cells for Perfetto.");
  if (on_gpus)
    section.body += note(
        "On GPUs these are the hosts: a piece of work is the time in which its kernels were given out, "
        "and the device may run them later, while its host waits.");
  return section;
}

}  // namespace paceline::html
