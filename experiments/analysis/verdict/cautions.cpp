#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/analysis/metrics/closed_loop.h"
#include "experiments/analysis/verdict/parts.h"

namespace paceline {
namespace {

/// What is to be said of cells without their baseline: "tp1 pp1 none, the baseline of 3 cells that ran, failed".
std::vector<std::string> missing_baselines(const VerdictView& view) {
  std::map<size_t, int> missing;  // cells that ran, by their baseline
  for (const CellSummary& s : view.summary().cells) {
    const CellSummary* const base = view.baseline_of(s);
    if (view.cell(s).status == CellStatus::done && base && view.cell(*base).status != CellStatus::done)
      ++missing[base->cell];
  }
  std::vector<std::string> texts;
  for (const auto& [base, cells] : missing) {
    const bool failed = view.run().cells[base].status == CellStatus::failed;
    texts.push_back(fmt::format("{}, the baseline of {}, {}", view.label(view.summary().cells[base]),
                                counted(cells, "cell that ran", "cells that ran"), failed ? "failed" : "did not run"));
  }
  return texts;
}

void add_state(const VerdictView& view, std::vector<VerdictSentence>& out) {
  const RunSummary& summary = view.summary();
  if (summary.failed > 0)
    out.push_back({VerdictKind::caution,
                   fmt::format("{} of {} failed; the table says why.", summary.failed,
                               counted(int64_t(summary.cells.size()), "cell")),
                   true});
  if (!summary.finished()) return;  // said in its own sentence
  for (const std::string& text : missing_baselines(view))
    out.push_back({VerdictKind::caution, text + ": their gain is not known.", true});
}

void add_workload(const VerdictView& view, std::vector<VerdictSentence>& out) {
  const WorkloadFacts& workload = view.run().workload;
  if (workload.bad_records == 0) return;
  out.push_back({VerdictKind::caution,
                 fmt::format("{} left out of the data set (workload.skip_bad); the first: {}.",
                             counted(workload.bad_records, "bad record was", "bad records were"), workload.first_bad)});
}

void add_never_drafted(const VerdictView& view, std::vector<VerdictSentence>& out) {
  std::vector<const CellSummary*> idle;
  for (const CellSummary& s : view.summary().cells) {
    if (view.cell(s).status == CellStatus::done && view.speculates(s) && s.counters.verify_steps > 0 &&
        s.counters.drafts == 0)
      idle.push_back(&s);
  }
  if (idle.empty()) return;
  out.push_back(
      {VerdictKind::caution,
       fmt::format("{} never drafted: {}. {} decoded as without speculation: not ranked.",
                   counted(int64_t(idle.size()), "cell"), view.labels(idle), idle.size() == 1 ? "It" : "They")});
}

/// Cells that are marked.
void add_marks(const VerdictView& view, std::vector<VerdictSentence>& out) {
  int oversubscribed = 0, forced = 0, random = 0;
  for (const CellResult& cell : view.run().cells) {
    if (cell.status != CellStatus::done) continue;
    oversubscribed += cell.oversubscribed ? 1 : 0;
    forced += cell.forced ? 1 : 0;
    random += cell.random_weights ? 1 : 0;
  }
  if (oversubscribed > 0)
    out.push_back(
        {VerdictKind::caution, counted(oversubscribed, "cell ran", "cells ran") +
                                   " more threads than cores (oversubscribed): measured and checked, not ranked."});
  if (forced > 0)
    out.push_back(
        {VerdictKind::caution, counted(forced, "cell uses", "cells use") + " stated acceptance: not ranked."});
  if (random > 0)
    out.push_back({VerdictKind::caution,
                   counted(random, "cell has", "cells have") +
                       " random weights (load_format dummy): times are real; tokens, acceptance and certificate are "
                       "not those of a trained model.",
                   true});
}

/// Cells that had no more than `in_batch` requests at once, for one reason, whatever concurrency they were asked for.
struct Unreached {
  int64_t in_batch = 0;
  bool lacks_requests = false;  // else places
  std::vector<int> concurrencies;
  std::vector<const CellSummary*> cells;
  bool are_all = true;  // of these concurrencies

  std::string text(const VerdictView& view) const {
    std::string names;
    for (size_t i = 0; i < concurrencies.size(); ++i)
      names += fmt::format("{}{}", i == 0 ? "" : i + 1 == concurrencies.size() ? " and " : ", ", concurrencies[i]);
    const std::string why = lacks_requests
                                ? fmt::format("at most {} in flight, as there are no more (workload.requests)",
                                              counted(in_batch, "request was", "requests were"))
                                : fmt::format(
                                      "at most {} at once (engine.scheduler.max_num_seqs, or static_batch_size), "
                                      "and the others waited for a place",
                                      counted(in_batch, "request ran", "requests ran"));
    return fmt::format("Concurrency {} {} not reached in {}: {}.", names, concurrencies.size() == 1 ? "was" : "were",
                       are_all ? counted(int64_t(cells.size()), "cell") : view.labels(cells), why);
  }
};

std::vector<Unreached> unreached_of(const VerdictView& view) {
  std::vector<Unreached> out;
  for (const LoadGroup& group : view.groups()) {
    std::vector<Unreached> of_group;
    int64_t closed = 0;
    for (const CellSummary* s : group.cells) {
      const std::optional<ClosedLoop> loop = closed_loop_of(view.cell(*s));
      if (!loop || view.cell(*s).status != CellStatus::done) continue;
      ++closed;
      if (loop->is_reached()) continue;
      const Unreached kind{.in_batch = loop->in_batch,
                           .lacks_requests = loop->in_batch == loop->in_flight,
                           .concurrencies = {group.concurrency},
                           .cells = {}};
      auto known = std::find_if(of_group.begin(), of_group.end(), [&](const Unreached& other) {
        return other.in_batch == kind.in_batch && other.lacks_requests == kind.lacks_requests;
      });
      if (known == of_group.end()) known = of_group.insert(of_group.end(), kind);
      known->cells.push_back(s);
    }
    for (Unreached& each : of_group) {
      each.are_all = int64_t(each.cells.size()) == closed;
      const auto known = std::find_if(out.begin(), out.end(), [&](const Unreached& other) {
        return other.in_batch == each.in_batch && other.lacks_requests == each.lacks_requests &&
               other.are_all == each.are_all;
      });
      if (known == out.end()) {
        out.push_back(std::move(each));
        continue;
      }
      if (known->concurrencies.back() != group.concurrency) known->concurrencies.push_back(group.concurrency);
      known->cells.insert(known->cells.end(), each.cells.begin(), each.cells.end());
    }
  }
  return out;
}

/// Of its speed, and where it was compared of its gain.
bool has_interval(const CellSummary& s) {
  const std::optional<RatioInterval>& gain = s.open_loop ? s.decode_speedup : s.speedup;
  return s.repetitions > 1 && (!gain || gain->low);
}

/// Records of older programs, which lack what some sentences rest on.
void add_age(const VerdictView& view, std::vector<VerdictSentence>& out) {
  int64_t lacking = 0;
  for (const CellSummary& s : view.summary().cells)
    lacking += view.cell(s).status == CellStatus::done && s.repetitions > 0 && !s.passes ? 1 : 0;
  if (lacking > 0)
    out.push_back(
        {VerdictKind::caution,
         fmt::format("{} recorded before prefill and decode passes were told apart: what a decode pass costs, "
                     "bounds and break-even are not known there.",
                     counted(lacking, "cell was", "cells were"))});
}

/// What the intervals are of: every repetition sends the same prompts.
void add_scope(const VerdictView& view, std::vector<VerdictSentence>& out) {
  int64_t prompts = 0;
  for (const CellSummary& s : view.summary().cells) {
    if (s.repetitions > 1) prompts = std::max(prompts, int64_t(view.cell(s).repetitions.front().requests.size()));
  }
  if (prompts == 0) return;
  out.push_back({VerdictKind::caution,
                 fmt::format("Intervals cover the scatter of timing only: all repetitions send the same {}, and other "
                             "prompts may give other ratios.",
                             counted(prompts, "prompt"))});
}

/// How much the numbers carry.
void add_evidence(const VerdictView& view, std::vector<VerdictSentence>& out) {
  int fewest = std::numeric_limits<int>::max(), most = 0, without_interval = 0, far = 0;
  double most_degenerate = 0, farthest_s = 0;
  for (const CellSummary& s : view.summary().cells) {
    if (view.cell(s).status != CellStatus::done) continue;
    fewest = std::min(fewest, s.repetitions);
    most = std::max(most, s.repetitions);
    without_interval += has_interval(s) ? 0 : 1;
    most_degenerate = std::max(most_degenerate, s.degenerate_share.value_or(0));
    if (!s.baseline_far) continue;
    ++far;
    farthest_s = std::max(farthest_s, std::fabs(*s.baseline_apart_s));
  }
  if (far > 0)
    out.push_back({VerdictKind::caution,
                   fmt::format("{} at another time than the baseline (up to {} apart), so repetitions are not paired, "
                               "and what drifted in between is in no interval.",
                               counted(far, "cell was measured", "cells were measured"), rough_time_text(farthest_s))});
  constexpr int kEnough = 7;
  if (view.summary().done > 0 && most == 1)
    out.push_back({VerdictKind::caution,
                   fmt::format("1 repetition only: there are no intervals, so no order of speeds is shown; use 3 or "
                               "more, and {} or more before a close call is believed.",
                               kEnough)});
  else if (view.summary().done > 0 && fewest < kEnough)
    out.push_back({VerdictKind::caution,
                   fmt::format("{} repetitions: {}; use {} or more before a close call is believed.",
                               fewest == most ? std::to_string(fewest) : fmt::format("Between {} and {}", fewest, most),
                               without_interval == 0 ? "intervals are wide"
                                                     : counted(without_interval, "cell has", "cells have") +
                                                           " no interval, and the others' are wide",
                               kEnough)});
  if (most_degenerate > 0.1)
    out.push_back({VerdictKind::caution,
                   fmt::format("Up to {} of the outputs end in a repetition, which flatters every proposer.",
                               percent_text(most_degenerate))});
}

}  // namespace

std::string unfinished_text(const VerdictView& view) {
  const RunSummary& counts = view.summary();
  if (counts.finished()) return "";
  std::string text = fmt::format("Not finished: {} of {} ran", counts.done, counted(counts.planned(), "cell"));
  if (counts.done > 0 && counts.partial == counts.done)
    text += ", none with all its repetitions";
  else if (counts.partial > 0)
    text += fmt::format(", {} of them with fewer repetitions than asked for", counts.partial);
  if (counts.failed > 0) text += fmt::format("; {} failed", counts.failed);
  if (counts.not_run > 0) text += fmt::format("; {} did not run", counts.not_run);
  for (const std::string& missing : missing_baselines(view)) text += "; " + missing;
  return text;
}

std::vector<std::string> concurrency_sentences(const VerdictView& view) {
  std::vector<std::string> texts;
  for (const Unreached& each : unreached_of(view)) texts.push_back(each.text(view));
  return texts;
}

void add_cautions(const VerdictView& view, std::vector<VerdictSentence>& out) {
  add_state(view, out);
  add_workload(view, out);
  add_marks(view, out);
  add_never_drafted(view, out);
  add_age(view, out);
  add_evidence(view, out);
  add_scope(view, out);
}

}  // namespace paceline
