#include "experiments/run/timing_pairs.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/analysis/statistics/noise.h"
#include "kernels/error.h"

extern char** environ;

namespace paceline {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(5);  // costs this process next to nothing, the other one nothing
constexpr double kGrace_s = 10;                       // between asking a process to end and ending it

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Ended {
  int status = 0;
  rusage usage{};
  double wall_s = 0;
  bool timed_out = false;
};

pid_t spawned(const BinaryCall& call, const fs::path& messages) {
  std::vector<std::string> words = {call.binary.string(), "run"};
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  words.insert(words.end(), {"--results", (call.scratch / "results").string(), "--ui", "quiet"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, call.binary.c_str(), &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    fail(ExitCode::usage, "{}: cannot be started: {}; expected a runexp program", call.binary.string(),
         std::generic_category().message(error));
  return pid;
}

/// Waits for the end; asks for it when time is over or the user wants to stop, and enforces it after that.
Ended waited_for(pid_t pid, const BinaryCall& call) {
  const auto start = Clock::now();
  Ended out;
  double asked_s = -1;  // when it was asked to end
  while (true) {
    const pid_t done = wait4(pid, &out.status, WNOHANG, &out.usage);
    out.wall_s = seconds_since(start);
    if (done == pid) return out;
    if (done < 0 && errno != EINTR)
      fail(ExitCode::device, "{}: wait4: {}", call.binary.string(), std::generic_category().message(errno));
    const bool late = out.wall_s > call.timeout_s, stop = call.interrupts && call.interrupts() > 0;
    if ((late || stop) && asked_s < 0) {
      out.timed_out = late;
      asked_s = out.wall_s;
      kill(pid, SIGTERM);
    }
    if (asked_s >= 0 && out.wall_s > asked_s + kGrace_s) kill(pid, SIGKILL);
    std::this_thread::sleep_for(kPoll);
  }
}

std::string last_line(const fs::path& file) {
  std::ifstream in(file);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = line;
  return last.empty() ? "it printed no message" : last;
}

void check_ended_well(const Ended& ended, const BinaryCall& call, const fs::path& messages) {
  const std::string name = call.binary.string();
  if (ended.timed_out) fail(ExitCode::device, "{}: did not end within {} s", name, call.timeout_s);
  if (call.interrupts && call.interrupts() > 0) fail(ExitCode::interrupted, "stopped by the user");
  if (WIFSIGNALED(ended.status))
    fail(ExitCode::device, "{}: ended by signal {}: {}", name, WTERMSIG(ended.status), last_line(messages));
  if (const int code = WEXITSTATUS(ended.status); code != 0)
    fail(code <= int(ExitCode::internal) ? ExitCode(code) : ExitCode::usage, "{}: exit code {}: {}", name, code,
         last_line(messages));
}

double seconds_of(const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); }

CellCost cost_of(const json& cell) {
  const json &repetitions = cell.at("repetitions"), &axes = cell.at("axes");
  CellCost cost{.id = cell.at("id"), .num_ranks = axes.at("tp").get<int>() * axes.at("pp").get<int>()};
  double cpu_s = 0;
  bool says_cpu = !repetitions.empty();
  CellResult disturbed;  // what noise_of() looks at
  for (const json& r : repetitions) {
    if (const json watched = r.value("disturbance", json()); watched.is_object())
      disturbed.repetitions.emplace_back().disturbance = from_fields<Disturbance>(watched);
    else
      disturbed.repetitions.emplace_back();
    cost.wall_s += r.at("wall_s").get<double>();
    const json used = r.value("cpu_s", json()), waited = r.value("cpu_wait_s", json());
    says_cpu = says_cpu && used.is_number() && waited.is_number();
    if (says_cpu) cpu_s += used.get<double>() - waited.get<double>();
  }
  if (says_cpu) cost.cpu_s = cpu_s;
  cost.watched = was_watched(disturbed);
  cost.noisy = !noise_of(disturbed).empty();
  if (const json effective = cell.value("effective", json()); effective.is_object())
    cost.threads_per_rank = effective.value("threads_per_rank", 0);
  if (!repetitions.empty())
    cost.facts = repetitions.front().at("output_hash").dump() + repetitions.front().at("counters").dump();
  return cost;
}

/// Of the only run below `results`.
std::vector<CellCost> read_costs(const fs::path& results, const std::string& binary) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(results))  // links are not followed: each file comes once
    if (entry.path().filename() == "cell.json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // folders begin with the cell's number
  std::vector<CellCost> costs;
  for (const fs::path& file : files) {
    std::ifstream in(file);
    try {
      const json cell = json::parse(in);
      if (cell.at("status") == "done") costs.push_back(cost_of(cell));
    } catch (const json::exception&) {
      fail(ExitCode::store, "{}: wrote a cell.json of another form than this program reads ({})", binary,
           file.filename().string());
    }
  }
  if (costs.empty()) fail(ExitCode::store, "{}: left no finished cell; expected a runexp program", binary);
  return costs;
}

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
  PairTimes times{.whole_process = !says_cpu(warm_up.baseline) || !says_cpu(warm_up.now)};
  for (const CellCost& cell : warm_up.now.cells) {
    const CellCost* const before = find_cell(warm_up.baseline, cell.id);
    if (before)
      times.cells.push_back({.id = cell.id,
                             .judged = cell.num_ranks == 1,
                             .same_work = before->facts == cell.facts,
                             .same_threads = before->threads_per_rank == 0 || cell.threads_per_rank == 0 ||
                                             before->threads_per_rank == cell.threads_per_rank});
  }
  if (times.cells.empty()) fail(ExitCode::usage, "the two binaries have no finished cell in common");
  if (times.whole_process) {
    const bool same_work =
        std::all_of(times.cells.begin(), times.cells.end(), [](const auto& c) { return c.same_work; });
    const bool judged = std::all_of(times.cells.begin(), times.cells.end(), [](const auto& c) { return c.judged; });
    times.cells = {{.id = "process", .judged = judged, .same_work = same_work}};
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
    if (cell.judged && !disturbed) cell.wall.push_back({.baseline_s = before->wall_s, .now_s = now->wall_s});
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

BinaryCost run_binary(const BinaryCall& call) {
  const fs::path messages = call.scratch / "stderr.txt", results = call.scratch / "results";
  std::error_code ignored;
  fs::remove_all(results, ignored);
  fs::create_directories(results);
  const Ended ended = waited_for(spawned(call, messages), call);
  check_ended_well(ended, call, messages);
  BinaryCost cost{.cells = read_costs(results, call.binary.string()),
                  .cpu_s = seconds_of(ended.usage.ru_utime) + seconds_of(ended.usage.ru_stime),
                  .wall_s = ended.wall_s};
  fs::remove_all(results, ignored);
  return cost;
}

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
