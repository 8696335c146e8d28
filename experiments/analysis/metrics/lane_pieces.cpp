#include "experiments/analysis/metrics/lane_pieces.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace paceline {
namespace {

using Pieces = std::vector<LanePiece>;

PieceKind piece_of(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::pass: return PieceKind::pass;
    case ActivityKind::draft: return PieceKind::draft;
    case ActivityKind::sample: return PieceKind::sample;
    case ActivityKind::wait_stage: return PieceKind::wait_stage;
    case ActivityKind::wait_peers: return PieceKind::wait_peers;
  }
  return PieceKind::pass;
}

/// Adds what of [start, end) lies behind the last piece; files are not trusted to be in order.
void append(Pieces& pieces, LanePiece piece) {
  if (!pieces.empty()) piece.start_ns = std::max(piece.start_ns, pieces.back().end_ns);
  if (piece.start_ns < piece.end_ns) pieces.push_back(piece);
}

/// Work with the waits cut out of it, and waits outside of work.
Pieces without_gaps_filled(const RankLane& lane, int64_t window_ns) {
  Pieces work, waits, out;
  for (const LaneActivity& a : lane.activities) {
    const LanePiece piece{.kind = piece_of(a.kind),
                          .start_ns = std::clamp<int64_t>(a.start_ns, 0, window_ns),
                          .end_ns = std::clamp<int64_t>(a.start_ns + a.duration_ns, 0, window_ns),
                          .pass = a.pass};
    append(is_wait(piece.kind) ? waits : work, piece);
  }
  size_t next = 0;
  const auto add_waits_until = [&](int64_t end_ns) {
    for (; next < waits.size() && waits[next].start_ns < end_ns; ++next) append(out, waits[next]);
  };
  for (const LanePiece& piece : work) {
    add_waits_until(piece.start_ns);
    LanePiece rest = piece;
    while (next < waits.size() && waits[next].start_ns < piece.end_ns) {
      LanePiece wait = waits[next++];
      wait.pass = piece.pass;
      append(out, {.kind = rest.kind, .start_ns = rest.start_ns, .end_ns = wait.start_ns, .pass = rest.pass});
      append(out, wait);
      rest.start_ns = wait.end_ns;
    }
    append(out, rest);
  }
  add_waits_until(window_ns);
  return out;
}

struct Span {
  int64_t start_ns, end_ns;
};

/// Where at least one rank works; by start, disjoint.
std::vector<Span> working(const std::vector<Pieces>& ranks) {
  std::vector<Span> all, out;
  for (const Pieces& pieces : ranks) {
    for (const LanePiece& piece : pieces)
      if (!is_wait(piece.kind)) all.push_back({piece.start_ns, piece.end_ns});
  }
  std::sort(all.begin(), all.end(), [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
  for (const Span& span : all) {
    if (!out.empty() && span.start_ns <= out.back().end_ns)
      out.back().end_ns = std::max(out.back().end_ns, span.end_ns);
    else
      out.push_back(span);
  }
  return out;
}

/// Of a rank that does not decide: outcome while another rank works, scheduler while none does.
void fill_without_batch(Pieces& out, Span gap, const std::vector<Span>& busy) {
  auto span = std::upper_bound(busy.begin(), busy.end(), gap.start_ns,
                               [](int64_t at, const Span& each) { return at < each.end_ns; });
  while (gap.start_ns < gap.end_ns) {
    const int64_t idle_until = span == busy.end() ? gap.end_ns : std::clamp(span->start_ns, gap.start_ns, gap.end_ns);
    append(out, {.kind = PieceKind::wait_scheduler, .start_ns = gap.start_ns, .end_ns = idle_until});
    if (idle_until == gap.end_ns) return;
    gap.start_ns = std::min(gap.end_ns, span->end_ns);
    append(out, {.kind = PieceKind::wait_outcome, .start_ns = idle_until, .end_ns = gap.start_ns});
    ++span;
  }
}

/// When the first rank began each pass.
std::map<int64_t, int64_t> beginnings(const RankLanes& lanes) {
  std::map<int64_t, int64_t> begun;
  for (const RankLane& lane : lanes.ranks) {
    for (const LaneActivity& a : lane.activities) {
      if (a.kind != ActivityKind::pass) continue;
      const auto [known, is_new] = begun.emplace(a.pass, a.start_ns);
      if (!is_new) known->second = std::min(known->second, a.start_ns);
    }
  }
  return begun;
}

}  // namespace

std::vector<std::vector<LanePiece>> lane_pieces(const RankLanes& lanes) {
  std::vector<Pieces> known;
  for (const RankLane& lane : lanes.ranks) known.push_back(without_gaps_filled(lane, lanes.window_ns));
  const std::vector<Span> busy = working(known);
  const std::map<int64_t, int64_t> begun = beginnings(lanes);
  std::vector<Pieces> out(known.size());
  for (size_t rank = 0; rank < known.size(); ++rank) {
    const auto fill = [&](Span gap, int64_t next_pass) {
      if (gap.start_ns >= gap.end_ns) return;
      if (int(rank) == lanes.deciding_rank)
        return append(out[rank], {.kind = PieceKind::wait_scheduler, .start_ns = gap.start_ns, .end_ns = gap.end_ns});
      const auto beginning = begun.find(next_pass);
      const int64_t posted =
          beginning == begun.end() ? gap.end_ns : std::clamp(beginning->second, gap.start_ns, gap.end_ns);
      fill_without_batch(out[rank], {gap.start_ns, posted}, busy);
      append(out[rank], {.kind = PieceKind::wait_handover, .start_ns = posted, .end_ns = gap.end_ns});
    };
    int64_t at = 0;
    for (const LanePiece& piece : known[rank]) {
      fill({at, piece.start_ns}, piece.pass);
      append(out[rank], piece);
      at = piece.end_ns;
    }
    fill({at, lanes.window_ns}, 0);
  }
  return out;
}

LaneShares lane_shares(const std::vector<LanePiece>& pieces, int64_t window_ns) {
  LaneShares shares{};
  for (const LanePiece& piece : pieces)
    shares[size_t(piece.kind)] += double(piece.end_ns - piece.start_ns) / double(window_ns);
  return shares;
}

double waiting_share(const LaneShares& shares) {
  return std::accumulate(shares.begin() + int(PieceKind::wait_stage), shares.end(), 0.0);
}

}  // namespace paceline
