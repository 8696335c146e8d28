#include "engine/serve/http_connection.h"

#include <algorithm>
#include <array>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

namespace paceline {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::seconds kLingerTime{2};
constexpr int kReadsAtOnce = 4;  // before other connections have their turn

}  // namespace

// --- HttpAnswer ------------------------------------------------------------------------------------------------------

void HttpAnswer::reply(HttpReply reply) {
  if (connection_ != nullptr && !std::exchange(has_begun_, true)) connection_->reply(std::move(reply));
}

void HttpAnswer::begin(HttpReply head) {
  if (connection_ != nullptr && !std::exchange(has_begun_, true)) connection_->begin(head);
}

void HttpAnswer::send(std::string piece) {
  if (connection_ != nullptr && has_begun_ && !piece.empty()) connection_->send(piece);
}

void HttpAnswer::end() {
  if (connection_ != nullptr && has_begun_) connection_->end();
}

void HttpAnswer::abort() {
  if (connection_ != nullptr) connection_->close(false);
}

bool HttpAnswer::is_writing() const { return connection_ != nullptr && connection_->is_writing(); }

void HttpAnswer::written() {
  if (!on_written) return;
  auto call = std::exchange(on_written, nullptr);  // it may end this answer, which forgets it
  call();
  if (!is_closed() && !on_written) on_written = std::move(call);
}

void HttpAnswer::detach(bool left) {
  connection_ = nullptr;
  on_written = nullptr;
  if (!left) on_closed = nullptr;
}

void HttpAnswer::call_closed() {
  if (const auto call = std::exchange(on_closed, nullptr)) call();
}

// --- HttpConnection: reading -----------------------------------------------------------------------------------------

void HttpConnection::start() {
  ErrorCode error;
  socket_.non_blocking(true, error);
  socket_.set_option(tcp::no_delay(true), error);
  if (surplus_) return refuse(503, fmt::format("{} connections are open", shared_.limits.max_connections));
  set_deadline(after(shared_.limits.idle_timeout_s));
  wait_readable();
}

void HttpConnection::wait_readable() {
  if (is_waiting_to_read_ || input_has_ended_ || phase_ == Phase::closed || room() == 0) return;
  is_waiting_to_read_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const ErrorCode& error) {
    self->is_waiting_to_read_ = false;
    if (self->phase_ == Phase::closed) return;
    if (error) return self->close(true);
    self->on_readable();
  });
}

size_t HttpConnection::room() const {
  if (phase_ == Phase::lingering || (phase_ == Phase::reading && ahead_.empty())) return kHttpReadBytes;
  const size_t most = size_t(shared_.limits.max_header_bytes);
  return most - std::min(most, ahead_.size());
}

void HttpConnection::on_readable() {
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const size_t most = std::min(room(), kHttpReadBytes);
    if (most == 0) return;
    ErrorCode error;
    const size_t count = socket_.read_some(asio::buffer(shared_.read_bytes.data(), most), error);
    if (fails_at(shared_.failpoints, Failpoint::read)) error = asio::error::connection_reset;
    if (error == asio::error::would_block || error == asio::error::interrupted) break;
    if (error) return on_end_of_input(error == asio::error::eof);
    take_bytes({shared_.read_bytes.data(), count});
    if (phase_ == Phase::closed) return;
  }
  wait_readable();
}

void HttpConnection::on_end_of_input(bool orderly) {
  input_has_ended_ = true;
  keep_alive_ = false;
  if (orderly && phase_ == Phase::flushing) return;
  close(true);
}

void HttpConnection::take_bytes(std::string_view bytes) {
  if (phase_ == Phase::lingering) {
    lingered_bytes_ += int64_t(bytes.size());
    if (lingered_bytes_ > 2 * shared_.limits.max_body_bytes) close(false);
  } else if (phase_ == Phase::reading && ahead_.empty()) {
    read_request(bytes);
  } else {
    ahead_.append(bytes);
  }
}

void HttpConnection::read_request(std::string_view bytes) {
  using State = HttpRequestReader::State;
  const State before = reader_.state();
  const size_t used = reader_.feed(bytes);
  const State state = reader_.state();
  if (state == State::refused) return refuse(reader_.refusal().status, reader_.refusal().message);
  hold(int64_t(reader_.held_bytes()));
  if (shared_.held_bytes > shared_.limits.max_held_bytes)
    return refuse(503, "requests that wait for their answers hold all the memory there is for bodies");
  if (state == State::complete) {
    ahead_ = bytes.substr(used);
    return dispatch();
  }
  if (state == before) return;
  set_deadline(after(state == State::body ? shared_.limits.body_timeout_s : shared_.limits.header_timeout_s));
  if (reader_.wants_continue()) write("HTTP/1.1 100 Continue\r\n\r\n");
}

void HttpConnection::dispatch() {
  HttpRequest request = reader_.take();
  version_minor_ = request.version_minor;
  keep_alive_ = request.keep_alive;
  without_body_ = request.method == "HEAD";
  phase_ = Phase::answering;
  set_deadline(output_.empty() ? kNever : after(shared_.limits.idle_timeout_s));
  answer_ = std::make_shared<HttpAnswer>(*this);
  shared_.handler(std::move(request), answer_);
}

void HttpConnection::refuse(int status, std::string_view message) {
  HttpReply reply = shared_.refuse(status, message);
  const auto says_when = [](const HttpField& field) { return same_http_name(field.name, "Retry-After"); };
  if (status == 503 && std::none_of(reply.fields.begin(), reply.fields.end(), says_when))
    reply.fields.push_back({"Retry-After", "1"});
  reader_ = HttpRequestReader(shared_.limits);  // frees the body
  phase_ = Phase::answering;
  keep_alive_ = without_body_ = false;
  this->reply(std::move(reply));
}

void HttpConnection::hold(int64_t bytes) {
  shared_.held_bytes += bytes - held_bytes_;
  held_bytes_ = bytes;
}

// --- HttpConnection: answering ---------------------------------------------------------------------------------------

HttpPersistence HttpConnection::persistence(bool close) {
  keep_alive_ = keep_alive_ && !close && !shared_.draining;
  if (!keep_alive_) return HttpPersistence::close;
  return version_minor_ == 0 ? HttpPersistence::keep_alive : HttpPersistence::unsaid;
}

void HttpConnection::reply(HttpReply reply) {
  const HttpPersistence persists = persistence(reply.close);
  std::string head = http_head(reply, HttpFraming::length, persists, shared_.date());
  if (without_body_ || reply.status == 204) reply.body.clear();
  write(std::move(head), std::move(reply.body));
  finish_answer();
}

void HttpConnection::begin(const HttpReply& head) {
  chunked_ = version_minor_ > 0;
  const HttpPersistence persists = persistence(head.close || !chunked_);
  std::string text =
      http_head(head, chunked_ ? HttpFraming::chunked : HttpFraming::until_close, persists, shared_.date());
  if (!head.body.empty() && !without_body_)
    text += chunked_ ? fmt::format("{:x}\r\n{}\r\n", head.body.size(), head.body) : head.body;
  write(std::move(text));
}

void HttpConnection::send(std::string_view piece) {
  if (without_body_) return;
  std::string& frame = shared_.frame;  // keeps its memory
  frame.clear();
  if (chunked_) fmt::format_to(std::back_inserter(frame), "{:x}\r\n", piece.size());
  frame.append(piece);
  if (chunked_) frame.append("\r\n");
  if (!output_.empty() && output_bytes_ + int64_t(frame.size()) > shared_.limits.max_unread_bytes) return close(true);
  write(std::move(frame));
}

void HttpConnection::end() {
  if (chunked_ && !without_body_) write("0\r\n\r\n");
  finish_answer();
}

void HttpConnection::finish_answer() {
  if (phase_ != Phase::answering) return;
  phase_ = Phase::flushing;
  if (answer_) std::exchange(answer_, nullptr)->detach(false);
  hold(0);
  if (output_.empty()) after_answer();
}

void HttpConnection::after_answer() {
  if (!keep_alive_ || shared_.draining) return linger();
  phase_ = Phase::reading;
  set_deadline(after(shared_.limits.idle_timeout_s));
  if (ahead_.empty()) return wait_readable();
  // Not from here, which may be deep in the answer to the request before.
  asio::post(shared_.io, [self = shared_from_this()] {
    if (self->phase_ != Phase::reading) return;
    self->read_request(std::exchange(self->ahead_, {}));
    self->wait_readable();
  });
}

void HttpConnection::linger() {
  if (input_has_ended_) return close(false);
  ErrorCode error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  if (error) return close(false);
  phase_ = Phase::lingering;
  ahead_ = {};
  set_deadline(Clock::now() + kLingerTime);
  wait_readable();
}

// --- HttpConnection: writing -----------------------------------------------------------------------------------------

size_t HttpConnection::write_some(std::string_view first, std::string_view second, ErrorCode& error) {
  if (fails_at(shared_.failpoints, Failpoint::write)) {
    error = asio::error::broken_pipe;
    return 0;
  }
  if (second.empty()) return socket_.write_some(asio::buffer(first.data(), first.size()), error);
  const std::array<asio::const_buffer, 2> both = {asio::buffer(first.data(), first.size()),
                                                  asio::buffer(second.data(), second.size())};
  return socket_.write_some(both, error);
}

void HttpConnection::write(std::string&& first, std::string&& second) {
  const bool was_empty = output_.empty();
  size_t taken = 0;
  if (was_empty) {
    ErrorCode error;
    taken = write_some(first, second, error);
    if (error && error != asio::error::would_block) return close(true);
    if (taken == first.size() + second.size()) return;
    if (phase_ == Phase::answering) set_deadline(after(shared_.limits.idle_timeout_s));
  }
  output_bytes_ += int64_t(first.size() + second.size() - taken);
  output_.push_back(std::move(first));
  if (!second.empty()) output_.push_back(std::move(second));
  if (was_empty) {
    output_begin_ = taken;
    drop_taken();
    wait_writable();
  }
}

void HttpConnection::drop_taken() {
  while (!output_.empty() && output_begin_ >= output_.front().size()) {
    output_begin_ -= output_.front().size();
    output_.pop_front();
  }
}

void HttpConnection::wait_writable() {
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const ErrorCode& error) {
    if (self->phase_ == Phase::closed) return;
    if (error) return self->close(true);
    self->on_writable();
  });
}

void HttpConnection::on_writable() {
  while (!output_.empty()) {
    const std::string_view first = std::string_view(output_.front()).substr(output_begin_);
    ErrorCode error;
    const size_t taken =
        write_some(first, output_.size() > 1 ? std::string_view(output_[1]) : std::string_view(), error);
    if (error == asio::error::would_block) return wait_writable();
    if (error) return close(true);
    output_bytes_ -= int64_t(taken);
    output_begin_ += taken;
    drop_taken();
    if (phase_ == Phase::answering || phase_ == Phase::flushing) set_deadline(after(shared_.limits.idle_timeout_s));
  }
  if (phase_ == Phase::answering) {
    set_deadline(kNever);
    const auto answer = answer_;
    answer->written();
  } else if (phase_ == Phase::flushing) {
    after_answer();
  }
}

// --- HttpConnection: its end -----------------------------------------------------------------------------------------

void HttpConnection::drain() {
  if (phase_ == Phase::reading && reader_.state() == HttpRequestReader::State::idle && ahead_.empty()) close(false);
}

void HttpConnection::close(bool left) {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  ErrorCode error;
  socket_.close(error);
  timer_.cancel();
  hold(0);
  if (surplus_) --shared_.num_surplus;
  const auto answer = std::exchange(answer_, nullptr);
  if (answer) answer->detach(left);
  // Callers still run in this connection and in the answer, and the handler may not expect to be called now.
  auto self = shared_from_this();
  shared_.connections.erase(self);
  asio::post(shared_.io, [self = std::move(self), answer] {
    if (answer) answer->call_closed();
  });
}

void HttpConnection::forget() {
  if (answer_) answer_->detach(false);
}

void HttpConnection::set_deadline(Clock::time_point when) {
  deadline_ = when;
  if (when < armed_) arm(when);
}

void HttpConnection::arm(Clock::time_point when) {
  armed_ = when;
  timer_.expires_at(when);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (error || self->phase_ == Phase::closed || Clock::now() < self->armed_) return;  // it was set anew
    self->armed_ = kNever;
    if (self->deadline_ == kNever) return;
    if (Clock::now() < self->deadline_) return self->arm(self->deadline_);
    self->on_deadline();
  });
}

void HttpConnection::on_deadline() {
  deadline_ = kNever;
  using State = HttpRequestReader::State;
  if (phase_ == Phase::reading && reader_.state() == State::header)
    return refuse(408, fmt::format("the header did not come within {} s", shared_.limits.header_timeout_s));
  if (phase_ == Phase::reading && reader_.state() == State::body)
    return refuse(408, fmt::format("the body did not come within {} s", shared_.limits.body_timeout_s));
  close(true);
}

}  // namespace paceline
