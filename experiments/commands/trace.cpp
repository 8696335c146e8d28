// runexp trace: the ranks' lanes of a run for Perfetto

#include "experiments/report/trace.h"

#include <fmt/format.h>

#include "engine/util/suggest.h"
#include "experiments/analysis/read_run.h"
#include "experiments/commands/command_line.h"
#include "experiments/results/files/run_names.h"

namespace paceline {
namespace {

ExitCode trace_command(const std::filesystem::path& root, const std::string& name, const std::string& id) {
  const RunResult run = read_run(find_run(root, name));
  std::vector<size_t> cells;
  std::vector<std::string> ids;
  for (size_t i = 0; i < run.cells.size(); ++i) {
    const CellResult& cell = run.cells[i];
    if (cell.repetitions.empty() || cell.repetitions.front().lanes.empty()) continue;
    ids.push_back(cell.id);
    if (id.empty() || cell.id == id) cells.push_back(i);
  }
  if (ids.empty())
    fail(ExitCode::usage, "{}: no cell has a record of its ranks: the run is of an older version, or has no results",
         run.info.id);
  if (cells.empty())
    fail(ExitCode::usage, "{}: no cell \"{}\" with a record of its ranks{}; there are {}", run.info.id, id,
         did_you_mean(id, ids), fmt::join(ids, ", "));
  fmt::print("{}\n", chrome_trace(run, cells).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return ExitCode::ok;
}

}  // namespace

void add_trace_command(const Command& program) {
  struct Trace {
    std::filesystem::path root = "results";
    std::string run = "last", cell;
  };
  const auto trace = std::make_shared<Trace>();
  program
      .below("trace",
             "print when each rank worked and waited, as a trace that ui.perfetto.dev and chrome://tracing open")
      .option("--results", trace->root, "folder for results", {.shown = true})
      .option("run", trace->run, "last, last~N, @TAG, the beginning of an id or of its hash, or a folder",
              {.shown = true})
      .option("cell", trace->cell, "id of a cell; by default all cells, a process each")
      .calls([trace] { return trace_command(trace->root, trace->run, trace->cell); });
}

}  // namespace paceline
