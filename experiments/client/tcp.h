#pragma once
// TCP connections of a client: non-blocking sockets, closed by their owner's end.

#include <sys/socket.h>
#include <utility>

#include "experiments/client/openai_client.h"

namespace paceline {

/// Where a server is, looked up once.
struct ServerAddress {
  sockaddr_storage address{};
  socklen_t length = 0;
};
/// The first one that the system knows. Throws Error(device): no such host.
ServerAddress look_up(const ServerUrl& url);

/// Owns a descriptor; -1: none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

  /// Begins to connect; the socket becomes writable when that is over. No socket, and `error` is errno: it could not.
  static Socket connecting_to(const ServerAddress& server, int& error);
  /// errno of a connection that has been made or refused; 0: it is there.
  int connect_error() const;
  /// Nothing has come and the server has not ended it: fit for another request.
  bool is_quiet() const;

 private:
  int fd_ = -1;
};

/// What errno of connect, send or recv means for a request.
RequestFailure failure_of_socket(int error);

}  // namespace paceline
