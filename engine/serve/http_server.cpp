#include "engine/serve/http_server.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "engine/serve/http_connection.h"
#include "kernels/error.h"

namespace paceline {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

/// Between an accept that failed and the next: where file handles are used up it would fail again at once.
constexpr std::chrono::milliseconds kAcceptPause{50};
/// Connections over max_connections that are told so at one time; the next wait for their turn.
constexpr int64_t kMaxSurplus = 512;
/// Asked of the kernel, which takes about twice of it. Left to itself it takes megabytes from a server whose client
/// does not read: minutes of a stream of tokens.
constexpr int kSendBufferBytes = 64 << 10;

std::string written_address(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::string_view fix_of(const ErrorCode& error) {
  if (error == asio::error::address_in_use) return "end what listens there, or pass another port (0: any that is free)";
  if (error == asio::error::access_denied) return "ports below 1024 are root's; pass another";
  if (error == boost::system::errc::address_not_available)
    return "it must be an address of this machine: 127.0.0.1 for its own programs, 0.0.0.0 for the network";
  return "pass an address of this machine (127.0.0.1, ::1, 0.0.0.0) or a name of it";
}

}  // namespace

/// Work that other threads hand to the server's, woken with no lock held. asio::post wakes it under a lock that it
/// takes next: on the core of a thread that computes it sleeps again at once, has had its turn, and runs a whole step
/// later.
class HttpInbox {
 public:
  explicit HttpInbox(asio::io_context& io) : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), wake_(io) {
    if (fd_ < 0) fail(ExitCode::device, "eventfd: {}", ErrorCode(errno, boost::system::system_category()).message());
    wake_.assign(fd_);
    wait();
  }
  /// From any thread.
  void put(std::function<void()> work) {
    bool was_empty = false;
    {
      const std::lock_guard lock(mutex_);
      was_empty = work_.empty();
      work_.push_back(std::move(work));
    }
    if (!was_empty) return;
    constexpr uint64_t kOne = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd_, &kOne, sizeof kOne);
  }

 private:
  void wait() {
    wake_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const ErrorCode& error) {
      if (error) return;
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t read = ::read(fd_, &count, sizeof count);
      {
        const std::lock_guard lock(mutex_);
        std::swap(work_, taken_);
      }
      for (std::function<void()>& work : taken_) std::exchange(work, nullptr)();
      taken_.clear();
      wait();
    });
  }

  const int fd_;  // wake_'s
  asio::posix::stream_descriptor wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> work_, taken_;
};

struct HttpServer::Impl : HttpServerState {
  using HttpServerState::HttpServerState;

  void listen(std::string host, int at);
  ErrorCode listen_at(const tcp::endpoint& endpoint);
  void accept_next();
  void accept_later();
  void admit(tcp::socket socket);
  std::vector<std::shared_ptr<HttpConnection>> all() const { return {connections.begin(), connections.end()}; }

  asio::executor_work_guard<asio::io_context::executor_type> stays{io.get_executor()};
  tcp::acceptor acceptor{io};
  asio::steady_timer accept_pause{io};
  HttpInbox inbox{io};
  std::string address;
  int port = 0;
};

void HttpServer::Impl::listen(std::string host, int at) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  ErrorCode error;
  std::vector<tcp::endpoint> endpoints;
  const auto literal = asio::ip::make_address(host, error);
  if (!error) {
    endpoints.emplace_back(literal, static_cast<unsigned short>(at));
  } else if (!host.empty()) {  // which would be every address
    for (const auto& entry : tcp::resolver(io).resolve(host, fmt::to_string(at), tcp::resolver::passive, error))
      endpoints.push_back(entry.endpoint());
  }
  for (const tcp::endpoint& endpoint : endpoints) {
    error = listen_at(endpoint);
    if (!error) return;
  }
  fail(ExitCode::usage, "{}: {}; {}", written_address(host, at), error.message(), fix_of(error));
}

ErrorCode HttpServer::Impl::listen_at(const tcp::endpoint& endpoint) {
  ErrorCode error, ignored;
  acceptor.close(ignored);
  acceptor.open(endpoint.protocol(), error);
  if (error) return error;
  acceptor.set_option(tcp::acceptor::reuse_address(true), ignored);  // connections of a server that ended may be dying
  acceptor.set_option(tcp::socket::send_buffer_size(kSendBufferBytes), ignored);  // accepted sockets have it, too
  acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) return error;
  const tcp::endpoint bound = acceptor.local_endpoint(error);
  port = bound.port();
  address = written_address(bound.address().to_string(), port);
  return error;
}

void HttpServer::Impl::accept_next() {
  if (num_surplus >= kMaxSurplus) return accept_later();
  acceptor.async_accept([this](const ErrorCode& error, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (error || fails_at(failpoints, Failpoint::accept)) return accept_later();
    admit(std::move(socket));
    accept_next();
  });
}

void HttpServer::Impl::accept_later() {
  accept_pause.expires_after(kAcceptPause);
  accept_pause.async_wait([this](const ErrorCode&) {
    if (acceptor.is_open()) accept_next();
  });
}

void HttpServer::Impl::admit(tcp::socket socket) {
  const bool surplus = int64_t(connections.size()) - num_surplus >= limits.max_connections;
  num_surplus += surplus;
  const auto connection = std::make_shared<HttpConnection>(*this, std::move(socket), surplus);
  connections.insert(connection);
  connection->start();
}

HttpServer::HttpServer(HttpServerOptions options, Handler handler, Refuse refuse)
    : impl_(std::make_unique<Impl>(options, std::move(handler), std::move(refuse))) {
  PACELINE_CHECK(options.port >= 0 && options.port < 65536, "port {}", options.port);
  impl_->listen(std::move(options.host), options.port);
}

HttpServer::~HttpServer() {
  for (const auto& connection : impl_->connections) connection->forget();
}

const std::string& HttpServer::address() const { return impl_->address; }
int HttpServer::port() const { return impl_->port; }

void HttpServer::run() {
  impl_->accept_next();
  impl_->io.run();
}

void HttpServer::post(std::function<void()> work) { impl_->inbox.put(std::move(work)); }

void HttpServer::drain() {
  post([this] {
    impl_->draining = true;
    ErrorCode ignored;
    impl_->acceptor.close(ignored);
    impl_->accept_pause.cancel();
    for (const auto& connection : impl_->all()) connection->drain();
  });
}

void HttpServer::stop() {
  post([this] {
    ErrorCode ignored;
    impl_->acceptor.close(ignored);
    for (const auto& connection : impl_->all()) connection->close(true);
    asio::post(impl_->io, [this] { impl_->io.stop(); });  // behind every on_closed
  });
}

int64_t HttpServer::num_connections() const { return int64_t(impl_->connections.size()) - impl_->num_surplus; }

}  // namespace paceline
