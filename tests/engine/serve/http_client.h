#pragma once
// A client that writes bytes of its own to a socket, and a server on a thread for it.

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/serve/http_server.h"

namespace paceline::test {

/// How long a test waits for what must come; a machine that is busy may take long.
constexpr int kPatienceMs = 20'000;

class TestClient {
 public:
  TestClient() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {}  // connect() it
  explicit TestClient(int port) : TestClient() { connect(port); }
  TestClient(TestClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)), input_(std::move(other.input_)) {}
  ~TestClient() { close(); }

  /// Small, so that what the kernel holds is little.
  void set_receive_buffer(int bytes) { ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)); }

  bool connect(int port) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(uint16_t(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }

  static TestClient over_ipv6(int port) {
    TestClient client(::socket(AF_INET6, SOCK_STREAM, 0), 0);
    sockaddr_in6 to = {};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(uint16_t(port));
    to.sin6_addr = in6addr_loopback;
    if (::connect(client.fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) client.close();
    return client;
  }

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  /// As much as the server takes: it may have ended the connection.
  TestClient& send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      bytes.remove_prefix(size_t(sent));
    }
    return *this;
  }

  /// One read of what is there within the time; false: the end, an error or nothing.
  bool read_some(int timeout_ms = kPatienceMs) {
    pollfd waits{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&waits, 1, timeout_ms) <= 0) return false;
    char bytes[65536];
    const ssize_t count = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (count < 0) was_reset_ = true;
    if (count == 0) has_ended_ = true;
    if (count > 0) input_.append(bytes, size_t(count));
    return count > 0;
  }

  /// Up to and with `mark`; what came where the mark does not.
  std::string read_up_to(std::string_view mark) {
    size_t at = 0;
    while ((at = input_.find(mark)) == std::string::npos)
      if (!read_some()) return std::exchange(input_, {});
    const std::string text = input_.substr(0, at + mark.size());
    input_.erase(0, at + mark.size());
    return text;
  }

  std::string read_bytes(size_t count) {
    while (input_.size() < count && read_some()) {
    }
    const std::string text = input_.substr(0, count);
    input_.erase(0, count);
    return text;
  }

  std::string read_to_end() {
    while (read_some()) {
    }
    return std::exchange(input_, {});
  }

  /// The server said it is the end, and not by a reset.
  bool has_ended() const { return has_ended_; }
  bool was_reset() const { return was_reset_; }

  struct Reply {
    int status = 0;
    std::string head, body;  // body: de-chunked
    bool has(std::string_view line) const { return head.find(fmt::format("\r\n{}\r\n", line)) != std::string::npos; }
  };

  /// One answer with Content-Length or in chunks.
  Reply read_reply() {
    Reply reply;
    reply.head = read_up_to("\r\n\r\n");
    if (reply.head.size() > 12) reply.status = std::atoi(reply.head.c_str() + 9);
    const size_t length = reply.head.find("Content-Length: ");
    if (length != std::string::npos) {
      reply.body = read_bytes(size_t(std::atoll(reply.head.c_str() + length + 16)));
    } else if (reply.has("Transfer-Encoding: chunked")) {
      while (true) {
        const std::string line = read_up_to("\r\n");
        const size_t size = std::strtoull(line.c_str(), nullptr, 16);
        reply.body += read_bytes(size);
        if (read_up_to("\r\n") != "\r\n" || size == 0) break;
      }
    }
    return reply;
  }

  Reply ask(std::string_view bytes) { return send(bytes).read_reply(); }

  void end_sending() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  /// As when the program is killed with bytes unread.
  void reset() {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close();
  }

 private:
  TestClient(int fd, int) : fd_(fd) {}

  int fd_;
  std::string input_;
  bool has_ended_ = false, was_reset_ = false;
};

inline std::string get_request(std::string_view target, std::string_view fields = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: h\r\n{}\r\n", target, fields);
}

inline std::string post_request(std::string_view target, std::string_view body) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{}", target, body.size(), body);
}

/// Waits for what another thread does.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// A server on its thread. /hold keeps the exchange for the test; all else is answered by method, target and body.
class ServerOnThread {
 public:
  using Exchange = std::shared_ptr<HttpExchange>;

  explicit ServerOnThread(const ServeLimits& limits = {}, HttpServer::Handler handler = nullptr)
      : server(
            {.port = 0, .limits = limits},
            [this, handler](HttpRequest request, Exchange exchange) {
              ++num_requests;
              if (handler) return handler(std::move(request), std::move(exchange));
              if (request.path() != "/hold")
                return exchange->reply({.body = request.method + " " + request.target + " " + request.body});
              exchange->on_closed = [this] { ++num_closed; };
              exchange->on_written = [this] { ++num_written; };
              held.push_back(std::move(exchange));
              ++num_held;
            },
            [](int status, std::string_view message) {
              return HttpReply{.status = status, .body = std::string(message)};
            }),
        thread_([this] {
          server.run();
          has_ended = true;
        }) {}

  ~ServerOnThread() { stop(); }

  void stop() {
    server.stop();
    if (thread_.joinable()) thread_.join();
  }

  int port() const { return server.port(); }

  /// `work` on the server's thread, and what it returns.
  template <class Work>
  auto on_server(Work work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto result = task.get_future();
    server.post([&task] { task(); });
    return result.get();
  }

  /// The n-th exchange that is held, once it is.
  Exchange hold(size_t n = 0) {
    EXPECT_TRUE(comes_true([&] { return num_held > int(n); }));
    return on_server([&] { return held.at(n); });
  }

  std::vector<Exchange> held;  // on the server's thread
  std::atomic<int> num_requests{0}, num_held{0}, num_closed{0}, num_written{0};
  std::atomic<bool> has_ended{false};
  HttpServer server;

 private:
  std::thread thread_;  // last: it uses all else
};

}  // namespace paceline::test
