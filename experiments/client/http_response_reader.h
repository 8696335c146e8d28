#pragma once
// Bytes of a connection to one HTTP/1.1 answer (RFC 9112), strictly and within bounds. No sockets, no clock.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/serve/http_message.h"

namespace paceline {

struct HttpResponseLimits {
  size_t max_header_bytes = size_t{64} << 10;  // status line and fields; of trailers likewise
  uint64_t max_body_bytes = uint64_t{256} << 20;
};

/// One answer to a request that is not HEAD. Interim answers (1xx) are skipped. Refused, besides what is over a limit:
/// Content-Length and Transfer-Encoding together, two different Content-Lengths, codings other than chunked, a folded
/// field, a bare LF, versions other than 1.0 and 1.1.
class HttpResponseReader {
 public:
  enum class State : uint8_t { header, body, complete, refused };
  using OnBody = std::function<void(std::string_view piece)>;

  explicit HttpResponseReader(const HttpResponseLimits& limits = {}) : limits_(limits) {}

  /// Takes bytes as they arrived, and calls on_body with the pieces of the body, de-chunked. Returns how many it took:
  /// all of them, but for those behind the answer's end.
  size_t feed(std::string_view bytes, const OnBody& on_body);
  /// The server has ended the connection: that ends a body without a length, and cuts every other one short.
  void end();

  State state() const { return state_; }
  /// Why it is refused: one line.
  const std::string& refusal() const { return refusal_; }
  /// Known once state() is body or complete.
  int status() const { return status_; }
  const std::vector<HttpField>& fields() const { return fields_; }
  /// Of the first field of that name, whatever its case; null: there is none.
  const std::string* field(std::string_view name) const;
  /// Another request may follow on the connection. REQUIRES: complete.
  bool keeps_alive() const;

 private:
  enum class Body : uint8_t { none, sized, chunk_size, chunk, chunk_end, trailer, until_close };

  void refuse(std::string why);
  void end_header();
  void read_fields(std::string_view block);
  void choose_body();
  bool take_line(std::string_view& bytes);
  void begin_chunk();
  void give(std::string_view& bytes, const OnBody& on_body);

  HttpResponseLimits limits_;
  State state_ = State::header;
  Body body_ = Body::none;
  std::string line_;  // the header so far, or a line between chunks
  std::string refusal_;
  int status_ = 0, version_minor_ = 1;
  std::vector<HttpField> fields_;
  uint64_t left_ = 0;   // of a sized body or a chunk
  uint64_t taken_ = 0;  // of the body
  size_t trailer_bytes_ = 0;
  bool ended_by_close_ = false;
};

}  // namespace paceline
