#pragma once
// Bytes of an answer to server-sent events (WHATWG HTML, section 9.2): lines that end in LF, CRLF or CR, "data:" lines
// joined by LF, comments and other fields dropped, a blank line ends an event. No sockets, no clock: a fuzzer drives it
// as the client does.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace paceline {

class SseReader {
 public:
  using OnEvent = std::function<void(std::string_view data)>;

  /// max_event_bytes: of an event's lines together.
  explicit SseReader(size_t max_event_bytes = size_t{8} << 20) : max_event_bytes_(max_event_bytes) {}

  /// Takes bytes as they arrived and calls on_event for each event with data that ends in them, in order, with what its
  /// "data:" lines say ("[DONE]" is one like others). False, from there on for ever: an event is longer than allowed.
  bool feed(std::string_view bytes, const OnEvent& on_event);

  /// What came last is a part of an event: the stream ended too early. A line without its end counts, a comment too.
  bool has_half_event() const { return !line_.empty() || has_data_; }

 private:
  void end_line(const OnEvent& on_event);

  size_t max_event_bytes_;
  std::string line_, data_;
  bool has_data_ = false;
  bool is_at_start_ = true;  // a byte-order mark may stand there
  bool was_return_ = false;  // a LF right behind belongs to it
  bool is_overlong_ = false;
};

}  // namespace paceline
