#include "experiments/client/sse_reader.h"

namespace paceline {

bool SseReader::feed(std::string_view bytes, const OnEvent& on_event) {
  while (!bytes.empty() && !is_overlong_) {
    if (was_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    was_return_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + data_.size() + piece.size() > max_event_bytes_) {
      is_overlong_ = true;
      break;
    }
    line_ += piece;
    if (end == std::string_view::npos) break;
    was_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(on_event);
  }
  return !is_overlong_;
}

void SseReader::end_line(const OnEvent& on_event) {
  std::string_view line = line_;
  if (is_at_start_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  is_at_start_ = false;
  if (line.empty()) {
    if (has_data_) on_event(data_);
    data_.clear();
    has_data_ = false;
  } else if (const size_t colon = line.find(':'); line.substr(0, colon) == "data") {
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  line_.clear();
}

}  // namespace paceline
