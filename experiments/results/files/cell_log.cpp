#include "experiments/results/files/cell_log.h"

#include <algorithm>
#include <fcntl.h>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "engine/util/clock.h"
#include "engine/util/printable.h"
#include "experiments/results/files/files.h"

namespace paceline {
namespace {

class CellLogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit CellLogSink(CellLog& log) : log_(log) { set_level(spdlog::level::warn); }

 protected:
  void sink_it_(const spdlog::details::log_msg& record) override {
    const spdlog::string_view_t level = spdlog::level::to_string_view(record.level);
    log_.line({level.data(), level.size()}, {record.payload.data(), record.payload.size()});
  }
  void flush_() override {}

 private:
  CellLog& log_;
};

}  // namespace

std::filesystem::path cell_log_file(const std::filesystem::path& run, const CellResult& cell) {
  return run / "cells" / cell.folder / "log.txt";
}

std::vector<std::string> log_tail(const std::filesystem::path& file) {
  constexpr size_t kMost = 64 * 1024;  // of the end: a log may have grown long
  std::string end(kMost, '\0');
  try {
    const UserFile log(file, kResultFile);
    const size_t from = log.size() - std::min(log.size(), kMost);
    const ssize_t got = ::pread(log.fd(), end.data(), end.size(), static_cast<off_t>(from));
    end.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  } catch (const Error&) {  // a picture of what went wrong, not a result
    return {};
  }
  std::istringstream in(end);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  if (lines.size() > kLogTail) lines.erase(lines.begin(), lines.end() - std::ptrdiff_t(kLogTail));
  return lines;
}

void append_to_log(const std::filesystem::path& file, std::string_view mark, std::string_view level,
                   std::string_view text) {
  std::string out;
  for (size_t at = 0; at == 0 || at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string piece = printable(text.substr(at, end - at));
    out += at == 0 ? fmt::format("{} {:<8}{}\n", mark, level, piece) : fmt::format("    {}\n", piece);
    at = end + 1;
  }
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0644);
  if (fd < 0) return;
  static_cast<void>(!::write(fd, out.data(), out.size()));
  ::close(fd);
}

CellLog::CellLog(std::filesystem::path run) : run_(std::move(run)), warnings_(std::make_shared<CellLogSink>(*this)) {
  spdlog::default_logger()->sinks().push_back(warnings_);
}

CellLog::~CellLog() { std::erase(spdlog::default_logger()->sinks(), warnings_); }

std::string CellLog::mark() const {
  return fmt::format("+{:.3f} s", std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count());
}

void CellLog::begin(const std::filesystem::path& file) {
  if (std::find(begun_.begin(), begun_.end(), file) != begun_.end()) return;
  begun_.push_back(file);
  append_to_log(file, utc_now(), "process", fmt::format("{}, started {} earlier", ::getpid(), mark().substr(1)));
}

void CellLog::enter(std::span<const CellResult* const> cells) {
  const std::lock_guard lock(mutex_);
  current_.clear();
  for (const CellResult* cell : cells) {
    current_.push_back(cell_log_file(run_, *cell));
    begin(current_.back());
  }
}

void CellLog::line(std::string_view level, std::string_view text) {
  const std::lock_guard lock(mutex_);
  for (const std::filesystem::path& file : current_) append_to_log(file, mark(), level, text);
}

void CellLog::line(const CellResult& cell, std::string_view level, std::string_view text) {
  const std::lock_guard lock(mutex_);
  const std::filesystem::path file = cell_log_file(run_, cell);
  begin(file);
  append_to_log(file, mark(), level, text);
}

}  // namespace paceline
