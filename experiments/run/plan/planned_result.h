#pragma once
// Between a planned cell and its result: what is known before it runs, and whether the engine ran what was asked.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/results/results.h"
#include "experiments/run/plan/sweep.h"

namespace paceline {

/// The result of `cells[index]` before it ran: done without repetitions, or skipped with the reason.
CellResult planned_result(const Cell& cell, int index, const std::vector<Cell>& cells);

/// Fills CellResult::forecast of the cells that are to run, measuring how fast this machine reads: some 10 ms for each
/// size of target. Cells that cannot be planned get none. auto_threads: as in limits_of().
void predict_steps(const std::vector<Cell>& cells, int auto_threads, std::vector<CellResult>& results);

/// Values that the engine echoes and the cell asked for, where they differ: "tp: asked 2, got 1". Empty: none.
std::vector<std::string> effective_differences(const Cell& cell, const nlohmann::json& effective);

}  // namespace paceline
