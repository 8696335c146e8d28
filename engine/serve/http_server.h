#pragma once
// A server of HTTP/1.1 on one thread (Boost.Asio, callbacks): connections, deadlines, answers whole or in pieces.
//
//   accept ─▶ connection ─▶ HttpRequestReader ─▶ handler(request, exchange) ─▶ reply | begin, send …, end
//                 ▲                                                                      │
//                 └───────────────── the next request of the connection ◀────────────────┘
//
// While a request is answered the connection goes on reading, so that a client who leaves is seen at once; bytes of a
// next request wait in a buffer of max_header_bytes.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/serve/http_message.h"
#include "engine/serve/limits.h"

namespace paceline {

/// One request's answer. All members on the server's thread. Either reply(), or begin(), send() … and end(); calls
/// after the client has left, or behind the end, do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  /// The whole answer.
  virtual void reply(HttpReply reply) = 0;

  /// Status and fields of an answer that comes in pieces: chunked, or up to the connection's end for HTTP/1.0.
  /// head.body is its first piece.
  virtual void begin(HttpReply head) = 0;
  /// One more piece, sent as one chunk. Where one is on its way (is_writing), it waits behind that.
  virtual void send(std::string piece) = 0;
  virtual void end() = 0;
  /// Ends the connection without an end of the answer.
  virtual void abort() = 0;

  /// A piece is on its way to the client: better to gather what comes now, and to send it as one when written.
  virtual bool is_writing() const = 0;
  /// The client has left, or the connection was ended.
  virtual bool is_closed() const = 0;

  /// Called at most once each time a write ends and nothing waits behind it.
  std::function<void()> on_written;
  /// Called once, where the client leaves or is dropped (unread bytes over the limit) before the answer has ended.
  std::function<void()> on_closed;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address or a name
  int port = 8000;                 // 0: any that is free
  ServeLimits limits = {};
};

class HttpServer {
 public:
  /// The request and where its answer goes, on the server's thread. Must not throw. The server keeps the exchange as
  /// long as its connection needs it; so may the handler.
  using Handler = std::function<void(HttpRequest request, std::shared_ptr<HttpExchange> exchange)>;
  /// What is answered where the HTTP layer itself refuses: a status, and a line for the client.
  using Refuse = std::function<HttpReply(int status, std::string_view message)>;

  /// Binds and listens; connections wait until run(). Throws Error(device) naming address, port and the system's
  /// reason.
  HttpServer(HttpServerOptions options, Handler handler, Refuse refuse);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "127.0.0.1:8000", "[::1]:8000": where it listens.
  const std::string& address() const;
  int port() const;

  /// Serves on the calling thread until stop().
  void run();

  // From any thread.

  /// `work` runs on the server's thread.
  void post(std::function<void()> work);
  /// No new connections, and none is kept behind an answer; idle ones end now.
  void drain();
  /// Ends all connections and run().
  void stop();

  // On the server's thread.

  int64_t num_connections() const;
  /// After `seconds`; the returned function forgets it.
  std::function<void()> call_after(double seconds, std::function<void()> work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
