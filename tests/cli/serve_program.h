#pragma once
// runexp serve as a program of its own.

#include <arpa/inet.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <vector>

#include "tests/cli/runexp.h"
#include "tests/support/long_samples.h"

namespace paceline::test {

/// A server under way; its port once it listens.
class Served {
 public:
  explicit Served(std::vector<std::string> args, std::vector<std::string> environment = {}) {
    args.insert(args.begin(), "serve");
    args.insert(args.end(), {"--port", "0"});
    process_.emplace(runexp_argv(args), ProcessOptions{.folder = kSource,
                                                       .environment = std::move(environment),
                                                       .timeout_s = (long_samples() ? 1200 : 300) * time_factor(),
                                                       .streams = Streams::pipes});
    EXPECT_TRUE(process_->wait_for_stderr("http://127.0.0.1:", 30 * time_factor()));
  }
  Process& process() { return *process_; }
  std::string url() { return "http://127.0.0.1:" + std::to_string(port()); }

  /// The answer to one request on a connection of its own, as bytes.
  std::string ask(const std::string& method, const std::string& path, const std::string& body = "",
                  const std::string& fields = "") {
    const int socket = connected();
    send(socket, method, path, body, "Connection: close\r\n" + fields);
    std::string answer;
    char bytes[4096];
    for (ssize_t count; (count = ::recv(socket, bytes, sizeof bytes, 0)) > 0;) answer.append(bytes, size_t(count));
    ::close(socket);
    return answer;
  }
  /// A new connection; reads from it end after a minute without a byte.
  int connected() {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    const timeval patience{.tv_sec = time_t(60 * time_factor()), .tv_usec = 0};
    EXPECT_EQ(::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(uint16_t(port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return socket;
  }
  static void send(int socket, const std::string& method, const std::string& path, const std::string& body,
                   const std::string& fields = "") {
    const std::string request = method + " " + path +
                                " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + fields +
                                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    EXPECT_EQ(::send(socket, request.data(), request.size(), MSG_NOSIGNAL), ssize_t(request.size()));
  }

 private:
  int port() {
    if (port_ == 0) {
      const std::string err = process_->err();
      const std::string mark = "http://127.0.0.1:";
      port_ = std::atoi(err.c_str() + err.find(mark) + mark.size());
    }
    return port_;
  }

  std::optional<Process> process_;
  int port_ = 0;
};

}  // namespace paceline::test
