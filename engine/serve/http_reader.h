#pragma once
// Bytes of a connection to HTTP/1.1 requests (RFC 9112), strictly: what two readers could understand differently is
// refused. Boost.Beast parses; limits and strictness are ours. No sockets, no clock: a fuzzer drives it as a server
// does.

#include <cstddef>
#include <memory>
#include <string_view>

#include "engine/serve/http_header.h"
#include "engine/serve/http_message.h"
#include "engine/serve/limits.h"

namespace paceline {

/// One connection's requests, one after another. Refused, besides what is over a limit: Content-Length and
/// Transfer-Encoding together, two Content-Lengths, codings other than chunked, a folded field, a bare LF or CR, a
/// blank before a field's colon, control characters and NUL in fields, no Host or two of them (HTTP/1.1), a target that
/// does not begin with '/', other versions than 1.0 and 1.1, a preface of HTTP/2 or TLS, and an empty line before the
/// request. Trailer fields and extensions of chunks are dropped; extensions of one request are at most
/// max_header_bytes.
class HttpRequestReader {
 public:
  enum class State {
    idle,      // nothing of the next request has come
    header,    // part of its header
    body,      // its header, part of its body
    complete,  // take() it
    refused    // see refusal(); final
  };

  explicit HttpRequestReader(const ServeLimits& limits);
  ~HttpRequestReader();
  HttpRequestReader(HttpRequestReader&&) noexcept;
  HttpRequestReader& operator=(HttpRequestReader&&) noexcept;

  /// Takes bytes as they arrived and returns how many it took: all of them, but for those behind a request that is
  /// complete or refused. Requests and refusals do not depend on how the bytes are parted. Holds at most
  /// max_header_bytes beside the body.
  size_t feed(std::string_view bytes);

  State state() const;
  /// The client waits for "100 Continue" before it sends the body (state: body, nothing of which has come).
  bool wants_continue() const;
  /// Bytes of the body so far.
  size_t held_bytes() const;

  /// REQUIRES: complete. The reader is then idle.
  HttpRequest take();
  /// REQUIRES: refused.
  const HttpRefusal& refusal() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace paceline
