#include "experiments/client/http_response_reader.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "engine/serve/http_message.h"
#include "engine/util/json_io.h"

namespace paceline {
namespace {

constexpr std::string_view kEndOfHeader = "\r\n\r\n", kEndOfLine = "\r\n";
constexpr size_t kMostFields = 200, kMostChunkLine = 4096;

/// All of `text` as a number without a sign.
bool read_number(std::string_view text, int base, uint64_t& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return !text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size();
}

}  // namespace

void HttpResponseReader::refuse(std::string why) {
  state_ = State::refused;
  refusal_ = std::move(why);
}

const std::string* HttpResponseReader::field(std::string_view name) const { return find_http_field(fields_, name); }

bool HttpResponseReader::keeps_alive() const {
  if (ended_by_close_) return false;
  const std::string* const connection = field("connection");
  if (connection && same_http_name(*connection, "close")) return false;
  return version_minor_ == 1 || (connection && same_http_name(*connection, "keep-alive"));
}

void HttpResponseReader::end_header() {
  const std::string header = std::move(line_);
  line_.clear();
  std::string_view block = header;
  const size_t end = block.find(kEndOfLine);
  const std::string_view status_line = block.substr(0, end);
  uint64_t status = 0;
  const bool is_http = status_line.starts_with("HTTP/1.") && status_line.size() >= 12 &&
                       (status_line[7] == '0' || status_line[7] == '1') && status_line[8] == ' ' &&
                       read_number(status_line.substr(9, 3), 10, status) && status >= 100 && status <= 599 &&
                       (status_line.size() == 12 || status_line[12] == ' ');
  if (!is_http) return refuse(fmt::format("the answer begins with {}, not with HTTP/1.1", json_literal(status_line)));
  status_ = int(status);
  version_minor_ = status_line[7] - '0';
  fields_.clear();
  block.remove_prefix(end + kEndOfLine.size());
  read_fields(block.substr(0, block.size() - kEndOfLine.size()));
  if (state_ == State::refused) return;
  if (status_ == 101) return refuse("101 Switching Protocols, which nobody asked for");
  if (status_ < 200) return;  // the answer follows
  choose_body();
}

void HttpResponseReader::read_fields(std::string_view block) {
  while (!block.empty()) {
    const size_t end = block.find(kEndOfLine);
    const std::string_view line = block.substr(0, end);
    block.remove_prefix(end + kEndOfLine.size());
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_http_token(line.substr(0, colon)))
      return refuse(fmt::format("{} is no field of a header", json_literal(line)));
    const std::string_view value = without_blanks(line.substr(colon + 1));
    const bool is_printable = std::none_of(value.begin(), value.end(),
                                           [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == '\x7f'; });
    if (!is_printable) return refuse(fmt::format("a control character in {}", json_literal(line)));
    if (fields_.size() == kMostFields) return refuse(fmt::format("more than {} fields", kMostFields));
    fields_.push_back({std::string(line.substr(0, colon)), std::string(value)});
  }
}

void HttpResponseReader::choose_body() {
  state_ = State::body;
  const std::string* const coding = field("transfer-encoding");
  const std::string* const length = field("content-length");
  if (coding && length) return refuse("Content-Length and Transfer-Encoding together");
  if (coding && !same_http_name(*coding, "chunked"))
    return refuse(fmt::format("Transfer-Encoding is {}, only chunked is known", json_literal(*coding)));
  for (const HttpField& one : fields_) {
    if (length && same_http_name(one.name, "content-length") && one.value != *length)
      return refuse("two Content-Lengths");
  }
  if (status_ == 204 || status_ == 304) {
    state_ = State::complete;
  } else if (coding) {
    body_ = Body::chunk_size;
  } else if (length) {
    if (!read_number(*length, 10, left_)) return refuse(fmt::format("Content-Length is {}", json_literal(*length)));
    if (left_ > limits_.max_body_bytes) return refuse(fmt::format("a body of {} bytes", left_));
    body_ = Body::sized;
    if (left_ == 0) state_ = State::complete;
  } else {
    body_ = Body::until_close;
  }
}

/// Moves bytes into line_; true once it is a whole line, which stands there without its end.
bool HttpResponseReader::take_line(std::string_view& bytes) {
  const size_t end = bytes.find('\n');
  const std::string_view piece = bytes.substr(0, end);
  if (line_.size() + piece.size() > kMostChunkLine) {
    refuse("a line between chunks is too long");
    return false;
  }
  line_ += piece;
  bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  if (end == std::string_view::npos) return false;
  if (!line_.ends_with('\r')) {
    refuse("a bare LF between chunks");
    return false;
  }
  line_.pop_back();
  return true;
}

void HttpResponseReader::begin_chunk() {
  const std::string_view size = without_blanks(std::string_view(line_).substr(0, line_.find(';')));
  if (!read_number(size, 16, left_)) return refuse(fmt::format("{} is no size of a chunk", json_literal(line_)));
  if (left_ > limits_.max_body_bytes - taken_)
    return refuse(fmt::format("a body of more than {} bytes", limits_.max_body_bytes));
  line_.clear();
  body_ = left_ > 0 ? Body::chunk : Body::trailer;
}

/// A piece of the body, as much as there is and as is left.
void HttpResponseReader::give(std::string_view& bytes, const OnBody& on_body) {
  const uint64_t most = body_ == Body::until_close ? limits_.max_body_bytes - taken_ : left_;
  if (most == 0) return refuse(fmt::format("a body of more than {} bytes", limits_.max_body_bytes));
  const std::string_view piece = bytes.substr(0, size_t(std::min<uint64_t>(most, bytes.size())));
  bytes.remove_prefix(piece.size());
  taken_ += piece.size();
  if (body_ != Body::until_close) left_ -= piece.size();
  on_body(piece);
  if (body_ == Body::sized && left_ == 0) state_ = State::complete;
  if (body_ == Body::chunk && left_ == 0) body_ = Body::chunk_end;
}

size_t HttpResponseReader::feed(std::string_view bytes, const OnBody& on_body) {
  const size_t given = bytes.size();
  while (!bytes.empty() && state_ == State::header) {
    const size_t from = line_.size() >= 3 ? line_.size() - 3 : 0;
    const size_t before = line_.size();
    const size_t room = limits_.max_header_bytes - std::min(before, limits_.max_header_bytes);
    line_ += bytes.substr(0, room);
    const size_t end = line_.find(kEndOfHeader, from);
    if (end == std::string::npos) {
      if (bytes.size() >= room) refuse(fmt::format("a header of more than {} bytes", limits_.max_header_bytes));
      bytes.remove_prefix(std::min(room, bytes.size()));
      break;
    }
    line_.resize(end + kEndOfHeader.size());
    bytes.remove_prefix(line_.size() - before);
    end_header();
  }
  while (!bytes.empty() && state_ == State::body) {
    switch (body_) {
      case Body::sized:
      case Body::chunk:
      case Body::until_close: give(bytes, on_body); break;
      case Body::chunk_size:
        if (take_line(bytes)) begin_chunk();
        break;
      case Body::chunk_end:
        if (!take_line(bytes)) break;
        if (!line_.empty()) refuse("a chunk is longer than its size");
        body_ = Body::chunk_size;
        break;
      case Body::trailer: {
        if (!take_line(bytes)) break;
        trailer_bytes_ += line_.size() + kEndOfLine.size();
        if (trailer_bytes_ > limits_.max_header_bytes) refuse("trailers are too long");
        if (line_.empty() && state_ == State::body) state_ = State::complete;
        line_.clear();
        break;
      }
      case Body::none: refuse("an answer without a body has one"); break;
    }
  }
  return given - bytes.size();
}

void HttpResponseReader::end() {
  if (state_ == State::complete || state_ == State::refused) return;
  ended_by_close_ = true;
  if (state_ == State::body && body_ == Body::until_close)
    state_ = State::complete;
  else
    refuse(state_ == State::header ? "the connection ended within the header" : "the connection ended within the body");
}

}  // namespace paceline
