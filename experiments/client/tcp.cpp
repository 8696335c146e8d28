#include "experiments/client/tcp.h"

#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <system_error>
#include <unistd.h>

#include "kernels/error.h"

namespace paceline {

ServerAddress look_up(const ServerUrl& url) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found);
  if (error != 0 || !found) fail(ExitCode::device, "{}: no such host: {}", url.text(), ::gai_strerror(error));
  ServerAddress out;
  out.length = found->ai_addrlen;
  std::memcpy(&out.address, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return out;
}

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Socket Socket::connecting_to(const ServerAddress& server, int& error) {
  Socket out(::socket(server.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  error = errno;
  if (!out) return out;
  const int on = 1;
  ::setsockopt(out.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(out.fd(), reinterpret_cast<const sockaddr*>(&server.address), server.length) == 0 ||
      errno == EINPROGRESS) {
    error = 0;
    return out;
  }
  error = errno;
  return Socket();
}

int Socket::connect_error() const {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

bool Socket::is_quiet() const {
  char byte = 0;
  return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

RequestFailure failure_of_socket(int error) {
  const RequestFault fault = error == ECONNREFUSED                   ? RequestFault::connection_refused
                             : error == ECONNRESET || error == EPIPE ? RequestFault::connection_reset
                             : error == ETIMEDOUT                    ? RequestFault::stalled
                                                                     : RequestFault::connection_failed;
  return {fault, std::generic_category().message(error)};
}

}  // namespace paceline
