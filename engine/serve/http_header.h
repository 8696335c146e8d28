#pragma once
// The strict half of reading a request: its header, byte by byte, before a parser sees it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/serve/limits.h"

namespace paceline {

/// Why a request is refused; the connection ends behind the answer, as nobody knows where the next one begins.
struct HttpRefusal {
  int status = 400;     // 400, 413, 414, 417 (Expect), 431, 501 (Transfer-Encoding), 505
  std::string message;  // one line, for the client
};

/// Gathers one header and refuses at the first byte that is wrong or over a limit, so what it says does not depend on
/// how the bytes arrived. What it refuses is listed at HttpRequestReader.
class HttpHeaderCheck {
 public:
  /// What the header says of the bytes behind it.
  struct Framing {
    int version_minor = 1;
    bool chunked = false;
    int64_t content_length = -1;    // -1: not said
    bool expects_continue = false;  // of HTTP/1.1
  };

  explicit HttpHeaderCheck(const ServeLimits& limits) : limits_(limits) {}

  /// Takes bytes up to the end of the header, or up to what is refused; returns how many.
  size_t feed(std::string_view bytes);

  bool is_complete() const { return complete_; }
  bool is_refused() const { return refused_; }
  const HttpRefusal& refusal() const { return refusal_; }
  /// What has come: request line, fields and the line that ends them once complete.
  const std::string& block() const { return block_; }
  /// REQUIRES: complete.
  const Framing& framing() const { return framing_; }

 private:
  void take(char c);
  void end_line();
  void check_request_line(std::string_view line);
  void check_field(std::string_view line);
  void check_content_length(std::string_view value);
  void check_transfer_encoding(std::string_view value);
  void finish();
  void refuse(int status, std::string message);

  ServeLimits limits_;
  std::string block_;
  size_t line_start_ = 0;
  int64_t num_lines_ = 0;   // whole ones
  int64_t num_blanks_ = 0;  // of the request line
  int64_t uri_bytes_ = 0;
  int num_hosts_ = 0, num_transfer_encodings_ = 0;
  std::string expect_;
  Framing framing_;
  HttpRefusal refusal_;
  bool complete_ = false, refused_ = false;
};

}  // namespace paceline
