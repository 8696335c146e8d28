#include "experiments/client/load_driver.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <poll.h>

#include <fmt/format.h>

#include "experiments/client/tcp.h"
#include "kernels/error.h"

namespace paceline {
namespace {

using DriverClock = std::chrono::steady_clock;

constexpr size_t kMostReady = 128;    // connections that are made before the clock starts
constexpr double kSlice_ms = 20;      // longest wait before the user is heard
constexpr double kKeptEnd_ms = 1000;  // behind the last byte that was sent: later a server has begun to work on it
constexpr double kReport_ms = 100;
constexpr double kConnectTimeout_s = 5;  // of the ready ones

/// A connection with the request that it carries.
struct Carrier {
  Socket socket;
  bool is_connecting = true;
  bool was_kept = false;  // the connection was there before, and no byte of the answer has come on it
  size_t request = 0;
  size_t sent = 0;  // bytes of the request
  double last_ms = 0;
  std::unique_ptr<AnswerReader> reader;
};

class Driver {
 public:
  Driver(std::span<const DrivenRequest> requests, const DriveOptions& options)
      : requests_(requests), options_(options), server_(look_up(options.url)) {
    result_.answers.resize(requests.size());
    buffer_.resize(size_t{64} << 10);
  }

  DriveResult run() {
    make_ready();
    start_ = DriverClock::now();
    result_.start_s = std::chrono::duration<double>(start_.time_since_epoch()).count();
    const size_t places = options_.concurrency > 0 ? options_.concurrency : requests_.size();
    if (!is_open()) free_since_.assign(std::min(places, requests_.size()), 0.0);
    while (num_over_ < requests_.size()) {
      send_due();
      wait_and_serve();
      heed();
    }
    result_.wall_s = now() / 1e3;
    return std::move(result_);
  }

 private:
  bool is_open() const { return options_.order == SendOrder::open; }
  double now() const { return std::chrono::duration<double, std::milli>(DriverClock::now() - start_).count(); }

  /// Connections for the requests that are sent first. One that is not made fails with its request, later.
  void make_ready() {
    const size_t most = is_open() ? 1 : options_.concurrency > 0 ? options_.concurrency : requests_.size();
    const size_t count = std::min({most, requests_.size(), kMostReady});
    const auto deadline = DriverClock::now() + std::chrono::duration<double>(kConnectTimeout_s);
    for (size_t i = 0; i < count; ++i) {
      int error = 0;
      Socket socket = Socket::connecting_to(server_, error);
      if (!socket) return;
      pollfd one{.fd = socket.fd(), .events = POLLOUT, .revents = 0};
      int ready = 0;
      while ((ready = ::poll(&one, 1, int(kSlice_ms))) <= 0) {
        if (DriverClock::now() > deadline) return;
        if (options_.stop_now && options_.stop_now()) fail(ExitCode::interrupted, "stopped by the user");
      }
      if (socket.connect_error() != 0) return;
      idle_.push_back(std::move(socket));
    }
  }

  double intended(size_t request) const { return requests_[request].send_at_s * 1e3; }

  void send_due() {
    while (next_ < requests_.size()) {
      if (is_open()) {
        if (intended(next_) > now()) return;
        begin(intended(next_));
      } else {
        if (free_since_.empty()) return;
        const double since = free_since_.back();
        free_since_.pop_back();
        begin(since);
      }
    }
  }

  void begin(double intended_ms) {
    const size_t index = next_++;
    if (carriers_.empty() && is_open()) result_.idle_s += (now() - idle_since_ms_) / 1e3;
    DrivenAnswer& answer = result_.answers[index];
    answer.intended_ms = intended_ms;
    answer.sent_ms = now();
    if (is_open() || options_.concurrency > 0) result_.send_late_ms.push_back(answer.sent_ms - intended_ms);
    Carrier carrier;
    carrier.request = index;
    carrier.last_ms = answer.sent_ms;
    carrier.reader =
        std::make_unique<AnswerReader>(options_.delivery, requests_[index].as_chat, requests_[index].max_tokens);
    while (!idle_.empty() && !carrier.socket) {
      if (idle_.back().is_quiet()) carrier.socket = std::move(idle_.back());
      idle_.pop_back();
    }
    carrier.was_kept = bool(carrier.socket);
    carrier.is_connecting = !carrier.socket;
    if (carrier.is_connecting) connect(carrier);
    carriers_.push_back(std::move(carrier));
    Carrier& added = carriers_.back();
    if (!added.is_connecting) send_more(added);
    if (added.reader->done()) end_done();
  }

  void connect(Carrier& carrier) {
    int error = 0;
    carrier.socket = Socket::connecting_to(server_, error);
    if (!carrier.socket) fail_with(carrier, error);
  }

  /// A server may end a kept connection while the next request is on its way; llama.cpp's does so behind each stream,
  /// whatever its fields say. Such a request is sent once more, on a new connection. False: it is another failure.
  bool send_again(Carrier& carrier) {
    if (!carrier.was_kept || now() - carrier.last_ms > kKeptEnd_ms) return false;
    ++result_.sent_again;
    carrier.was_kept = false;
    carrier.is_connecting = true;
    carrier.sent = 0;
    connect(carrier);
    return true;
  }

  void fail_with(Carrier& carrier, int error) {
    RequestFailure failure = failure_of_socket(error);
    carrier.reader->fail(failure.fault, std::move(failure.detail));
  }

  void send_more(Carrier& carrier) {
    const std::string& bytes = requests_[carrier.request].bytes;
    while (carrier.sent < bytes.size()) {
      const ssize_t sent =
          ::send(carrier.socket.fd(), bytes.data() + carrier.sent, bytes.size() - carrier.sent, MSG_NOSIGNAL);
      if (sent > 0) {
        carrier.sent += size_t(sent);
        carrier.last_ms = now();
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return;
      } else if (errno != EINTR) {
        // The server may have answered and gone before it read all of it: what it says is told where it can be read.
        return receive(carrier, errno);
      }
    }
  }

  /// Takes what has come. `error`: of a write that failed; 0: none did.
  void receive(Carrier& carrier, int error) {
    for (;;) {
      const ssize_t count = ::recv(carrier.socket.fd(), buffer_.data(), buffer_.size(), 0);
      const int why = errno;
      const double at = now();
      if (count > 0) {
        carrier.last_ms = at;
        carrier.was_kept = false;
        carrier.reader->feed({buffer_.data(), size_t(count)}, at);
        if (error == 0 || carrier.reader->done()) return;
      } else if (count == 0) {
        if (!send_again(carrier)) carrier.reader->end_of_connection(at);
        return;
      } else if (why == EAGAIN || why == EWOULDBLOCK) {
        if (error != 0 && !send_again(carrier)) fail_with(carrier, error);
        return;
      } else if (why != EINTR) {
        if (!send_again(carrier)) fail_with(carrier, why);
        return;
      }
    }
  }

  void wait_and_serve() {
    polled_.clear();
    double wait_ms = kSlice_ms;
    const double before = now();
    for (const Carrier& carrier : carriers_) {
      const bool is_sending = carrier.is_connecting || carrier.sent < requests_[carrier.request].bytes.size();
      polled_.push_back(
          {.fd = carrier.socket.fd(), .events = short(is_sending ? POLLIN | POLLOUT : POLLIN), .revents = 0});
    }
    if (is_open() && next_ < requests_.size()) wait_ms = std::clamp(intended(next_) - before, 0.0, wait_ms);
    if (num_over_ == requests_.size()) return;
    timespec wait{.tv_sec = 0, .tv_nsec = long(wait_ms * 1e6)};
    const int ready = ::ppoll(polled_.data(), polled_.size(), &wait, nullptr);
    const double told = now();
    for (size_t i = 0; i < polled_.size() && ready > 0; ++i) {
      if (polled_[i].revents == 0) continue;
      Carrier& carrier = carriers_[i];
      if (carrier.is_connecting) {
        if (const int error = carrier.socket.connect_error()) {
          fail_with(carrier, error);
          continue;
        }
        if ((polled_[i].revents & POLLOUT) == 0) continue;
        carrier.is_connecting = false;
      }
      if ((polled_[i].revents & POLLOUT) != 0) send_more(carrier);
      if (!carrier.reader->done() && (polled_[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        result_.read_late_ms.push_back(now() - told);
        receive(carrier, 0);
      }
    }
    const double stalled_ms = options_.stall_timeout_s * 1e3;
    for (Carrier& carrier : carriers_) {
      if (!carrier.reader->done() && told - carrier.last_ms > stalled_ms)
        carrier.reader->fail(RequestFault::stalled, fmt::format("not a byte for {} s", options_.stall_timeout_s));
    }
    end_done();
  }

  /// Takes the answers that are over, in the order in which they were sent, and their connections' places.
  void end_done() {
    for (Carrier& carrier : carriers_) {
      if (!carrier.reader->done()) continue;
      DrivenAnswer& answer = result_.answers[carrier.request];
      const bool is_kept = carrier.sent == requests_[carrier.request].bytes.size() && carrier.reader->keeps_alive();
      answer.answer = carrier.reader->take();
      answer.is_over = true;
      ++num_over_;
      if (is_kept) idle_.push_back(std::move(carrier.socket));
      if (!is_open()) free_since_.push_back(carrier.last_ms);
      idle_since_ms_ = carrier.last_ms;
      carrier.reader.reset();
    }
    std::erase_if(carriers_, [](const Carrier& carrier) { return !carrier.reader; });
  }

  void heed() {
    if (options_.stop_now && options_.stop_now()) fail(ExitCode::interrupted, "stopped by the user");
    const double at = now();
    if (at > options_.timeout_s * 1e3 && num_over_ < requests_.size())
      fail(ExitCode::device, "the pass took longer than {} s (sweep.cell_timeout_s): {} of {} requests done",
           options_.timeout_s, num_over_, requests_.size());
    if (!options_.on_progress || at - reported_ms_ < kReport_ms) return;
    reported_ms_ = at;
    options_.on_progress(result_.answers, at);
  }

  std::span<const DrivenRequest> requests_;
  const DriveOptions& options_;
  ServerAddress server_;
  DriverClock::time_point start_;
  DriveResult result_;
  std::vector<Carrier> carriers_;
  std::vector<pollfd> polled_;  // as carriers_
  std::vector<Socket> idle_;
  std::vector<double> free_since_;  // closed loop: places, by when they became free
  std::vector<char> buffer_;
  size_t next_ = 0, num_over_ = 0;
  double idle_since_ms_ = 0, reported_ms_ = 0;
};

}  // namespace

DriveResult drive(std::span<const DrivenRequest> requests, const DriveOptions& options) {
  return Driver(requests, options).run();
}

}  // namespace paceline
