#pragma once
// A server of HTTP/1.1 on one thread (Boost.Asio, callbacks): connections, deadlines, answers whole or in pieces.
//
//   accept ─▶ connection ─▶ HttpRequestReader ─▶ handler(request, exchange) ─▶ reply | begin, send …, end
//                 ▲                                                                      │
//                 └───────────────── the next request of the connection ◀────────────────┘
//
// While a request is answered the connection goes on reading, so that a client who leaves is seen at once; bytes of a
// next request wait in a buffer of max_header_bytes. While that is full nothing is read, and leaving shows when
// something is written.
//
// A client that ends its side of the connection (shutdown, `nc -N`) before the answer has ended has left, as with other
// servers of this API: nothing tells it from one that is gone. Behind the end of an answer it still gets what is on its
// way.
//
// A connection that is to end gets its answer first: the sending side is shut, and what still comes is read and dropped
// for at most 2 s and twice max_body_bytes, as closing on unread bytes would make the client lose the answer.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/serve/http_message.h"
#include "engine/serve/limits.h"
#include "engine/util/failpoints.h"

namespace paceline {

/// One request's answer. All members on the server's thread. Either reply(), or begin(), send() … and end(); calls
/// after the client has left, or behind the end, do nothing. An answer to HEAD is sent without its body.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  /// The whole answer, of any size.
  virtual void reply(HttpReply reply) = 0;

  /// Status and fields of an answer that comes in pieces: chunked, or up to the connection's end for HTTP/1.0.
  /// head.body is its first piece.
  virtual void begin(HttpReply head) = 0;
  /// One more piece, sent as one chunk; nothing where it is empty. It is written at once where nothing waits, else it
  /// waits behind that. A piece that would make more than max_unread_bytes wait (beside what the kernel holds, about
  /// 128 KiB, and the client's) drops the client.
  virtual void send(std::string piece) = 0;
  virtual void end() = 0;
  /// Ends the connection without an end of the answer.
  virtual void abort() = 0;

  /// A piece waits for the client to read: better to gather what comes now, and to send it as one when written.
  virtual bool is_writing() const = 0;
  /// The client has left, the connection was ended, or the answer was.
  virtual bool is_closed() const = 0;

  /// Called once each time is_writing() turns from true to false. Not for a piece that was written at once.
  std::function<void()> on_written;
  /// Called once, where the client leaves or is dropped before the answer has ended; never from within a member. The
  /// exchange forgets both functions at its end, so they may hold it.
  std::function<void()> on_closed;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address, "::1" or "[::1]", or a name: the first of its addresses that works
  int port = 8000;                 // 0: any that is free
  ServeLimits limits = {};
  std::shared_ptr<Failpoints> failpoints = nullptr;  // of tests: accept, read, write
};

class HttpServer {
 public:
  /// The request and where its answer goes, on the server's thread. Must not throw. The server keeps the exchange as
  /// long as its connection needs it; so may the handler.
  using Handler = std::function<void(HttpRequest request, std::shared_ptr<HttpExchange> exchange)>;
  /// What is answered where the HTTP layer itself refuses: a status, and a line for the client. Must not throw. The
  /// server adds Retry-After to a 503, and closes.
  using Refuse = std::function<HttpReply(int status, std::string_view message)>;

  /// Binds and listens; connections wait until run(). Throws Error(device) naming address, port and the system's
  /// reason. REQUIRES: a port of 0 to 65535.
  HttpServer(HttpServerOptions options, Handler handler, Refuse refuse);
  /// REQUIRES: run() is not running. Exchanges that are still held turn closed, without on_closed.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "127.0.0.1:8000", "[::1]:8000": where it listens.
  const std::string& address() const;
  int port() const;

  /// Serves on the calling thread until stop().
  void run();

  // From any thread.

  /// `work` runs on the server's thread, in the order of the calls of one thread.
  void post(std::function<void()> work);
  /// No new connections, and none is kept behind an answer; idle ones end now.
  void drain();
  /// Ends all connections, with on_closed, and run(). Before run() it makes that return at once.
  void stop();

  // On the server's thread.

  /// Without those over max_connections, which are being told so.
  int64_t num_connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
