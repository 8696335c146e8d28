#include "engine/serve/http_header.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "engine/serve/http_message.h"

namespace paceline {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_visible(char c) { return c > ' ' && c < '\x7f'; }

/// Characters of a name, an address and a port; a list or a path of some kind has others.
bool is_host(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_http_token_char(c) || c == ':' || c == '[' || c == ']'; });
}

}  // namespace

size_t HttpHeaderCheck::feed(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && !complete_ && !refused_) take(bytes[taken++]);
  return taken;
}

void HttpHeaderCheck::take(char c) {
  const char before = block_.size() > line_start_ ? block_.back() : '\0';
  block_ += c;
  if (c == '\n') {
    if (before != '\r') return refuse(400, "a line of the header ends in LF without CR");
    end_line();
  } else if (before == '\r') {
    return refuse(400, "a CR in the header that ends no line");
  } else if (c != '\r' && c != '\t' && !is_visible(c) && c != ' ' && static_cast<unsigned char>(c) < 0x80) {
    return refuse(400, block_.size() == 1 && c == '\x16'
                           ? "this port speaks HTTP, not TLS: http:// in place of https://"
                           : "a control character in the header");
  } else if (num_lines_ == 0) {
    if (block_.size() == 1 && !is_http_token_char(c)) return refuse(400, "no method of HTTP begins like this");
    if (c == ' ') {
      ++num_blanks_;
    } else if (num_blanks_ == 1 && ++uri_bytes_ > limits_.max_uri_bytes) {
      return refuse(414, fmt::format("the request's target is longer than {} bytes", limits_.max_uri_bytes));
    }
  }
  if (!complete_ && !refused_ && int64_t(block_.size()) >= limits_.max_header_bytes)
    refuse(431, fmt::format("the header is longer than {} bytes", limits_.max_header_bytes));
}

void HttpHeaderCheck::end_line() {
  const std::string_view line = std::string_view(block_).substr(line_start_, block_.size() - line_start_ - 2);
  line_start_ = block_.size();
  if (++num_lines_ == 1) return check_request_line(line);
  if (line.empty()) return finish();
  if (num_lines_ - 1 > limits_.max_header_fields)
    return refuse(431, fmt::format("the header has more than {} fields", limits_.max_header_fields));
  check_field(line);
}

void HttpHeaderCheck::check_request_line(std::string_view line) {
  if (line.starts_with("PRI * HTTP/2")) return refuse(400, "HTTP/2 is not spoken here; HTTP/1.1 and HTTP/1.0 are");
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return refuse(400, "the first line is not: method, target, version; HTTP/1.1 and HTTP/1.0 are spoken here");
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                         version = line.substr(last + 1);
  if (!is_http_token(method)) return refuse(400, "the method is no token");
  if (!target.starts_with('/')) return refuse(400, "the request's target does not begin with /");
  if (!std::all_of(target.begin(), target.end(), is_visible))
    return refuse(400, "the request's target has characters that must be written as %XX");
  if (version.size() != 8 || !version.starts_with("HTTP/") || !is_digit(version[5]) || version[6] != '.' ||
      !is_digit(version[7]))
    return refuse(400, "the first line does not end in a version of HTTP");
  if (version[5] != '1' || version[7] > '1')
    return refuse(version[5] == '0' ? 400 : 505, "HTTP/1.1 and HTTP/1.0 are spoken here");
  framing_.version_minor = version[7] - '0';
}

void HttpHeaderCheck::check_field(std::string_view line) {
  if (line.front() == ' ' || line.front() == '\t') return refuse(400, "a field of the header goes on in a second line");
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_http_token(line.substr(0, colon)))
    return refuse(400, "a line of the header is not: name, colon, value");
  const std::string_view name = line.substr(0, colon), value = without_blanks(line.substr(colon + 1));
  if (same_http_name(name, "Host")) {
    if (++num_hosts_ > 1) return refuse(400, "Host is there twice");
    if (!is_host(value)) return refuse(400, "Host is no name and no address");
  } else if (same_http_name(name, "Content-Length")) {
    check_content_length(value);
  } else if (same_http_name(name, "Transfer-Encoding")) {
    check_transfer_encoding(value);
  } else if (same_http_name(name, "Expect")) {
    if (!expect_.empty()) return refuse(400, "Expect is there twice");
    expect_ = value;
  }
}

void HttpHeaderCheck::check_content_length(std::string_view value) {
  if (framing_.content_length >= 0) return refuse(400, "Content-Length is there twice");
  int64_t length = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
  if (!std::all_of(value.begin(), value.end(), is_digit) || error != std::errc())
    return refuse(400, "Content-Length is no number of bytes");
  framing_.content_length = length;
}

void HttpHeaderCheck::check_transfer_encoding(std::string_view value) {
  if (++num_transfer_encodings_ > 1) return refuse(400, "Transfer-Encoding is there twice");
  if (!same_http_name(value, "chunked")) return refuse(501, "of Transfer-Encoding only chunked is supported");
  framing_.chunked = true;
}

void HttpHeaderCheck::finish() {
  if (framing_.version_minor == 1 && num_hosts_ == 0) return refuse(400, "Host is missing");
  if (framing_.chunked && framing_.content_length >= 0)
    return refuse(400, "Content-Length and Transfer-Encoding together");
  if (framing_.chunked && framing_.version_minor == 0) return refuse(400, "Transfer-Encoding in a request of HTTP/1.0");
  if (framing_.version_minor == 1 && !expect_.empty()) {
    if (!same_http_name(expect_, "100-continue")) return refuse(417, "of Expect only 100-continue is supported");
    framing_.expects_continue = true;
  }
  if (framing_.content_length > limits_.max_body_bytes)
    return refuse(
        413, fmt::format("the body is {} bytes long, more than {}", framing_.content_length, limits_.max_body_bytes));
  complete_ = true;
}

void HttpHeaderCheck::refuse(int status, std::string message) {
  refused_ = true;
  refusal_ = {status, std::move(message)};
}

}  // namespace paceline
