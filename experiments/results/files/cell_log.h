#pragma once
// The log of a cell, cells/<folder>/log.txt: what was said while processes worked on it. For people; nothing is read
// back from it, and a line that the disk does not take is no error.

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/sinks/sink.h>

#include "experiments/results/results.h"

namespace paceline {

inline constexpr size_t kLogTail = 20;  // lines that reports show of a failed cell

/// <run folder>/cells/<folder>/log.txt
std::filesystem::path cell_log_file(const std::filesystem::path& run, const CellResult& cell);

/// The last kLogTail lines of a log; none where there is no file.
std::vector<std::string> log_tail(const std::filesystem::path& file);

/// Appends "<mark> <level> <text>"; a text of several lines gives as many, the later ones indented. Control characters
/// are spelled out. REQUIRES the cell's folder (RunFolder::record_start makes it). Any thread, any process: a call is
/// one write.
void append_to_log(const std::filesystem::path& file, std::string_view mark, std::string_view level,
                   std::string_view text);

/// The logs of a run under way. Lines begin with the seconds since this object was made, by the monotonic clock. While
/// it lives, the default logger hands warnings and errors to it, too: make and end it where no other thread logs. Any
/// thread may write lines.
class CellLog {
 public:
  explicit CellLog(std::filesystem::path run);
  ~CellLog();
  CellLog(const CellLog&) = delete;

  /// From here on lines go to the logs of these cells, after one that names the process where it is their first.
  void enter(std::span<const CellResult* const> cells);
  /// To the cells that were entered last.
  void line(std::string_view level, std::string_view text);
  /// To one cell.
  void line(const CellResult& cell, std::string_view level, std::string_view text);

 private:
  std::string mark() const;
  void begin(const std::filesystem::path& file);

  const std::filesystem::path run_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<std::filesystem::path> current_;  // log files
  std::vector<std::filesystem::path> begun_;    // by this process
  const std::shared_ptr<spdlog::sinks::sink> warnings_;
};

}  // namespace paceline
