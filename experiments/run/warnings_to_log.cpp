#include "experiments/run/warnings_to_log.h"

#include <algorithm>
#include <mutex>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

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

WarningsToLog::WarningsToLog(CellLog& log) : sink_(std::make_shared<CellLogSink>(log)) {
  spdlog::default_logger()->sinks().push_back(sink_);
}

WarningsToLog::~WarningsToLog() { std::erase(spdlog::default_logger()->sinks(), sink_); }

}  // namespace paceline
