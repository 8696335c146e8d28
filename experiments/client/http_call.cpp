#include "experiments/client/http_call.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <poll.h>

#include <fmt/format.h>

#include "experiments/client/tcp.h"
#include "kernels/error.h"

namespace paceline {
namespace {

using CallClock = std::chrono::steady_clock;

/// False: not ready before the deadline.
bool wait_for(const Socket& socket, short events, CallClock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - CallClock::now()).count();
    if (left < 0) return false;
    pollfd one{.fd = socket.fd(), .events = events, .revents = 0};
    const int ready = ::poll(&one, 1, int(left) + 1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

HttpCallResult http_call(const ServerUrl& url, std::string_view method, std::string_view path, double timeout_s,
                         std::string_view api_key) {
  HttpCallResult out;
  const auto failed = [&](RequestFailure failure) {
    out.failure = std::move(failure);
    return out;
  };
  const auto deadline =
      CallClock::now() + std::chrono::duration_cast<CallClock::duration>(std::chrono::duration<double>(timeout_s));
  const RequestFailure stalled{RequestFault::stalled, fmt::format("no answer within {} s", timeout_s)};
  ServerAddress server;
  try {
    server = look_up(url);
  } catch (const Error& error) {
    return failed({RequestFault::connection_failed, error.what()});
  }
  int error = 0;
  const Socket socket = Socket::connecting_to(server, error);
  if (!socket) return failed(failure_of_socket(error));
  if (!wait_for(socket, POLLOUT, deadline)) return failed(stalled);
  if (const int refused = socket.connect_error()) return failed(failure_of_socket(refused));
  const std::string request = fmt::format(
      "{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: paceline\r\nConnection: close\r\n{}{}", method, url.base, path,
      url.authority(), api_key.empty() ? std::string() : fmt::format("Authorization: Bearer {}\r\n", api_key),
      method == "POST" ? "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" : "\r\n");
  for (std::string_view left = request; !left.empty();) {
    const ssize_t sent = ::send(socket.fd(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent > 0)
      left.remove_prefix(size_t(sent));
    else if (errno != EAGAIN && errno != EINTR)
      return failed(failure_of_socket(errno));
    else if (!wait_for(socket, POLLOUT, deadline))
      return failed(stalled);
  }
  HttpResponseReader reader({.max_body_bytes = uint64_t{16} << 20});
  std::array<char, 16384> buffer;
  using State = HttpResponseReader::State;
  while (reader.state() == State::header || reader.state() == State::body) {
    if (!wait_for(socket, POLLIN, deadline)) return failed(stalled);
    const ssize_t count = ::recv(socket.fd(), buffer.data(), buffer.size(), 0);
    if (count > 0)
      reader.feed({buffer.data(), size_t(count)}, [&](std::string_view piece) { out.body += piece; });
    else if (count == 0)
      reader.end();
    else if (errno != EAGAIN && errno != EINTR)
      return failed(failure_of_socket(errno));
  }
  if (reader.state() == State::refused) {
    out.body.clear();
    return failed({RequestFault::bad_http, reader.refusal()});
  }
  out.status = reader.status();
  if (const std::string* const name = reader.field("server")) out.server = *name;
  return out;
}

std::string result_text(const HttpCallResult& result) {
  return result.failure ? failure_text(*result.failure)
                        : fmt::format("answered {} {}", result.status, http_reason(result.status));
}

}  // namespace paceline
