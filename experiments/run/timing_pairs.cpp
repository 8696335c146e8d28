#include "experiments/run/timing_pairs.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "experiments/run/binary_run.h"
#include "kernels/error.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

/// A folder that goes when this does.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "paceline-timing-XXXXXX").string();
    if (!mkdtemp(name.data())) fail(ExitCode::store, "{}: {}", name, std::generic_category().message(errno));
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct PairOfRuns {
  BinaryCost baseline, now;
};

bool says_cpu(const BinaryCost& run) {
  return std::all_of(run.cells.begin(), run.cells.end(), [](const CellCost& cell) { return cell.cpu_s.has_value(); });
}

const CellCost* find_cell(const BinaryCost& run, const std::string& id) {
  const auto found = std::find_if(run.cells.begin(), run.cells.end(), [&](const CellCost& c) { return c.id == id; });
  return found == run.cells.end() ? nullptr : &*found;
}

/// The cells of the warm-up that both binaries have, without pairs yet.
PairTimes planned(const PairOfRuns& warm_up) {
  PairTimes times{.cells = {}, .whole_process = !says_cpu(warm_up.baseline) || !says_cpu(warm_up.now)};
  for (const CellCost& cell : warm_up.now.cells) {
    const CellCost* const before = find_cell(warm_up.baseline, cell.id);
    if (before)
      times.cells.push_back({.id = cell.id,
                             .judged = cell.num_ranks == 1,
                             .same_work = before->facts == cell.facts,
                             .same_threads = before->threads_per_rank == 0 || cell.threads_per_rank == 0 ||
                                             before->threads_per_rank == cell.threads_per_rank,
                             .pairs = {}});
  }
  if (times.cells.empty()) fail(ExitCode::usage, "the two binaries have no finished cell in common");
  if (times.whole_process) {
    const bool same_work =
        std::all_of(times.cells.begin(), times.cells.end(), [](const auto& c) { return c.same_work; });
    const bool judged = std::all_of(times.cells.begin(), times.cells.end(), [](const auto& c) { return c.judged; });
    times.cells = {{.id = "process", .judged = judged, .same_work = same_work, .pairs = {}}};
  }
  return times;
}

void add_pair(const PairOfRuns& runs, PairTimes& times) {
  if (times.whole_process) {
    TimedCell& process = times.cells.front();
    process.pairs.push_back(process.judged ? TimingPair{.baseline_s = runs.baseline.cpu_s, .now_s = runs.now.cpu_s}
                                           : TimingPair{.baseline_s = runs.baseline.wall_s, .now_s = runs.now.wall_s});
    return;
  }
  for (TimedCell& cell : times.cells) {
    const CellCost *const before = find_cell(runs.baseline, cell.id), *const now = find_cell(runs.now, cell.id);
    if (!before || !now) continue;
    const auto cost = [&](const CellCost& c) { return cell.judged ? c.cpu_s.value_or(0) : c.wall_s; };
    const bool disturbed = before->watched && now->watched && (before->noisy || now->noisy);
    (disturbed ? cell.disturbed : cell.pairs).push_back({.baseline_s = cost(*before), .now_s = cost(*now)});
  }
}

void check_pairs(const PairPlan& plan, const PairTimes& times) {
  const auto judged =
      std::count_if(times.cells.begin(), times.cells.end(), [](const TimedCell& cell) { return cell.judged; });
  if (const int fewest = fewest_timing_pairs(int(judged)); plan.pairs < fewest)
    fail(ExitCode::usage,
         "--pairs {}: too few to find any slowdown in {} cells at p < {}: use {} or more ({} is usual)", plan.pairs,
         judged, kTimingChance, fewest, kTimingPairs);
}

}  // namespace

PairTimes time_pairs(const PairPlan& plan) {
  const ScratchFolder scratch;
  const auto run = [&](const fs::path& binary) {
    return run_binary({.binary = binary,
                       .arguments = plan.arguments,
                       .scratch = scratch.path(),
                       .timeout_s = plan.timeout_s,
                       .interrupts = plan.interrupts});
  };
  PairOfRuns runs{.baseline = run(plan.baseline_bin), .now = run(plan.now_bin)};
  PairTimes times = planned(runs);
  check_pairs(plan, times);
  for (int pair = 0; pair < plan.pairs; ++pair) {
    if (pair % 2 == 0) runs.baseline = run(plan.baseline_bin);
    runs.now = run(plan.now_bin);
    if (pair % 2 != 0) runs.baseline = run(plan.baseline_bin);
    add_pair(runs, times);
    if (plan.on_pair_done) plan.on_pair_done(pair + 1);
  }
  return times;
}

}  // namespace paceline
