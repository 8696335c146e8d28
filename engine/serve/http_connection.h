#pragma once
// A connection of HttpServer, and the exchange that is its handler's. Of the server alone: others include no Asio.

#include <chrono>
#include <cstdint>
#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>  // which Asio of Boost 1.74 forgets
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "engine/serve/http_reader.h"
#include "engine/serve/http_server.h"

namespace paceline {

class HttpConnection;

constexpr size_t kHttpReadBytes = size_t{64} << 10;

/// What connections share.
struct HttpServerState {
  HttpServerState(const HttpServerOptions& options, HttpServer::Handler handles, HttpServer::Refuse refuses)
      : limits(options.limits),
        failpoints(options.failpoints),
        handler(std::move(handles)),
        refuse(std::move(refuses)),
        read_bytes(kHttpReadBytes) {}

  const std::string& date() {
    const std::time_t now = std::time(nullptr);
    if (now != date_time) date_text = http_date(date_time = now);
    return date_text;
  }

  boost::asio::io_context io{1};  // first: its handlers, which hold connections, go last
  const ServeLimits limits;
  const std::shared_ptr<Failpoints> failpoints;
  const HttpServer::Handler handler;
  const HttpServer::Refuse refuse;
  std::unordered_set<std::shared_ptr<HttpConnection>> connections;
  int64_t num_surplus = 0;
  int64_t held_bytes = 0;  // bodies that have not been answered
  bool draining = false;
  std::vector<char> read_bytes;  // of whoever reads now
  std::string frame;             // of whoever sends now
  std::time_t date_time = 0;
  std::string date_text;
};

/// Passes on to the connection while that answers this request.
class HttpAnswer final : public HttpExchange {
 public:
  explicit HttpAnswer(HttpConnection& connection) : connection_(&connection) {}

  void reply(HttpReply reply) override;
  void begin(HttpReply head) override;
  void send(std::string piece) override;
  void end() override;
  void abort() override;
  bool is_writing() const override;
  bool is_closed() const override { return connection_ == nullptr; }

  void written();
  /// The connection has nothing more to do with it; `left`: the client did not get the answer's end.
  void detach(bool left);
  void call_closed();

 private:
  HttpConnection* connection_;
  bool has_begun_ = false;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpServerState& shared, boost::asio::ip::tcp::socket socket, bool surplus)
      : shared_(shared), socket_(std::move(socket)), timer_(shared.io), reader_(shared.limits), surplus_(surplus) {}

  void start();
  /// The server drains: ends where nothing is asked or answered.
  void drain();
  /// At once, whatever is on its way. `left`: the client does not get the end of its answer.
  void close(bool left);
  /// The server is gone.
  void forget();

  // What HttpAnswer passes on.
  void reply(HttpReply reply);
  void begin(const HttpReply& head);
  void send(std::string_view piece);
  void end();
  bool is_writing() const { return !output_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  enum class Phase {
    reading,    // a request
    answering,  // it is the handler's
    flushing,   // the answer is whole, its last bytes are on their way
    lingering,  // our side is shut
    closed
  };

  void wait_readable();
  void on_readable();
  size_t room() const;
  void on_end_of_input(bool orderly);
  void take_bytes(std::string_view bytes);
  void read_request(std::string_view bytes);
  void dispatch();
  void refuse(int status, std::string_view message);
  void hold(int64_t bytes);
  HttpPersistence persistence(bool close);

  /// Moves from them only where the kernel does not take all.
  void write(std::string&& first, std::string&& second = {});
  size_t write_some(std::string_view first, std::string_view second, boost::system::error_code& error);
  void drop_taken();
  void wait_writable();
  void on_writable();
  void finish_answer();
  void after_answer();
  void linger();

  void set_deadline(Clock::time_point when);
  void arm(Clock::time_point when);
  void on_deadline();
  Clock::time_point after(int64_t seconds) const { return Clock::now() + std::chrono::seconds(seconds); }

  HttpServerState& shared_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  HttpRequestReader reader_;
  const bool surplus_;
  Phase phase_ = Phase::reading;
  bool is_waiting_to_read_ = false;
  bool input_has_ended_ = false;
  // The request that is answered.
  std::shared_ptr<HttpAnswer> answer_;
  int version_minor_ = 1;
  bool keep_alive_ = true;
  bool without_body_ = false;  // HEAD
  bool chunked_ = false;
  int64_t held_bytes_ = 0;  // its share of shared_.held_bytes
  std::string ahead_;       // bytes behind it
  // What the kernel has not taken.
  std::deque<std::string> output_;
  size_t output_begin_ = 0;  // of its first string: taken
  int64_t output_bytes_ = 0;
  int64_t lingered_bytes_ = 0;
  // The timer is set anew only where a deadline comes before the one it is armed for.
  Clock::time_point deadline_ = kNever, armed_ = kNever;
};

}  // namespace paceline
