#pragma once
// Warnings that anything logs while a cell is worked on also go to that cell's log.

#include <memory>

#include <spdlog/sinks/sink.h>

#include "experiments/results/files/cell_log.h"

namespace paceline {

/// While it lives, the default logger hands warnings and errors to `log`, too. Make and end it where no other thread
/// logs.
class WarningsToLog {
 public:
  explicit WarningsToLog(CellLog& log);
  ~WarningsToLog();
  WarningsToLog(const WarningsToLog&) = delete;
  WarningsToLog& operator=(const WarningsToLog&) = delete;

 private:
  std::shared_ptr<spdlog::sinks::sink> sink_;
};

}  // namespace paceline
