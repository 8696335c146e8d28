#include "experiments/ui/progress_log.h"

#include <memory>
#include <mutex>
#include <string>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

namespace paceline {

namespace {

class ProgressLogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ProgressLogSink(Progress& progress) : progress_(progress) {
    set_formatter_(std::make_unique<spdlog::pattern_formatter>("%H:%M:%S %l %v"));
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& record) override {
    spdlog::memory_buf_t line;
    formatter_->format(record, line);
    progress_.message(std::string(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  Progress& progress_;
};

}  // namespace

std::shared_ptr<spdlog::sinks::sink> make_progress_log_sink(Progress& progress) {
  return std::make_shared<ProgressLogSink>(progress);
}

}  // namespace paceline
