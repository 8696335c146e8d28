#include "engine/serve/http_reader.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>

#include "kernels/error.h"

namespace paceline {
namespace {

namespace beast = boost::beast;

/// The end of every chunked body takes more bytes. With fewer, Boost 1.74 asserts while it looks for that end.
constexpr size_t kLeastChunked = 5;

std::string text_of(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

struct HttpRequestReader::Parser {
  using Beast = beast::http::request_parser<beast::http::string_body>;

  explicit Parser(const ServeLimits& of) : limits(of), header(of) {}

  void refuse(HttpRefusal why);
  size_t feed_header(std::string_view bytes);
  size_t feed_body(std::string_view bytes);
  void start_body();
  void check_chunk(uint64_t size, beast::string_view extension, beast::error_code& error);
  void end_request();

  ServeLimits limits;
  State state = State::idle;
  HttpHeaderCheck header;
  std::optional<Beast> parsed;
  HttpRequest request;
  HttpRefusal refusal;
  // A chunked body.
  std::function<void(uint64_t, beast::string_view, beast::error_code&)> on_chunk;  // the parser keeps a reference
  std::string held;            // a chunk's line so far; of the last one, with the trailer
  uint64_t chunked_bytes = 0;  // as announced
  size_t extension_bytes = 0;
  bool body_has_begun = false;
};

void HttpRequestReader::Parser::refuse(HttpRefusal why) {
  if (state == State::refused) return;
  state = State::refused;
  refusal = std::move(why);
  parsed.reset();
  held = {};
}

size_t HttpRequestReader::Parser::feed_header(std::string_view bytes) {
  const size_t taken = header.feed(bytes);
  state = State::header;
  if (header.is_refused()) {
    refuse(header.refusal());
  } else if (header.is_complete()) {
    start_body();
  }
  return taken;
}

void HttpRequestReader::Parser::start_body() {
  const std::string& block = header.block();
  parsed.emplace();
  parsed->header_limit(uint32_t(std::min<size_t>(block.size() + 1, std::numeric_limits<uint32_t>::max())));
  parsed->body_limit(std::numeric_limits<uint64_t>::max());  // counted here
  on_chunk = [this](uint64_t size, beast::string_view extension, beast::error_code& error) {
    check_chunk(size, extension, error);
  };
  parsed->on_chunk_header(on_chunk);
  beast::error_code error;
  const size_t used = parsed->put(boost::asio::buffer(block), error);
  if (error || used != block.size() || !parsed->is_header_done())
    return refuse({400, fmt::format("the header is malformed: {}", error.message())});
  const auto& message = parsed->get();
  request.method = text_of(message.method_string());
  request.target = text_of(message.target());
  request.version_minor = header.framing().version_minor;
  request.keep_alive = parsed->keep_alive();
  for (const auto& field : message) request.fields.push_back({text_of(field.name_string()), text_of(field.value())});
  state = State::body;
  if (parsed->is_done()) end_request();
}

void HttpRequestReader::Parser::check_chunk(uint64_t size, beast::string_view extension, beast::error_code& error) {
  // Within quotes the parser takes any byte.
  const bool has_controls = std::any_of(extension.begin(), extension.end(), [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f';
  });
  extension_bytes += extension.size();
  const uint64_t most = uint64_t(limits.max_body_bytes);
  if (size > uint64_t(std::numeric_limits<int64_t>::max()) || has_controls) {
    refusal = {400, "the chunked body is malformed"};
  } else if (extension_bytes > size_t(limits.max_header_bytes)) {
    refusal = {400, fmt::format("extensions of chunks are longer than {} bytes", limits.max_header_bytes)};
  } else if (size > most - std::min(most, chunked_bytes)) {
    refusal = {413, fmt::format("the body is longer than {} bytes", limits.max_body_bytes)};
  } else {
    chunked_bytes += size;
    return;
  }
  error = beast::http::error::bad_chunk;
}

size_t HttpRequestReader::Parser::feed_body(std::string_view bytes) {
  const size_t before = bytes.size(), window = std::max(kLeastChunked, size_t(limits.max_header_bytes));
  const bool chunked = header.framing().chunked;
  body_has_begun = true;
  while (!bytes.empty() && state == State::body) {
    // The parser takes a chunk's line once it is whole, so its beginning waits here.
    const size_t had = held.size(), added = std::min(window - had, bytes.size());
    std::string_view now = bytes.substr(0, added);
    if (had > 0 || (chunked && added < kLeastChunked)) now = held.append(now);
    if (chunked && now.size() < kLeastChunked) {
      bytes.remove_prefix(added);
      break;
    }
    beast::error_code error;
    const size_t used = parsed->put(boost::asio::buffer(now.data(), now.size()), error);
    if (error && error != beast::http::error::need_more) {
      refuse(refusal.message.empty() ? HttpRefusal{400, "the chunked body is malformed"} : refusal);
      break;
    }
    if (error && used == 0 && now.size() >= window) {
      refuse({400, fmt::format("a chunk's line, or the trailer, is longer than {} bytes", limits.max_header_bytes)});
      break;
    }
    if (used == 0) {
      if (had == 0) held = now;
      bytes.remove_prefix(added);
    } else if (used >= had) {
      held.clear();
      bytes.remove_prefix(used - had);
    } else {  // what was added may belong to the next request
      held.resize(had);
      held.erase(0, used);
    }
    if (parsed->is_done()) end_request();
  }
  return before - bytes.size();
}

void HttpRequestReader::Parser::end_request() {
  request.body = std::move(parsed->get().body());
  state = State::complete;
}

HttpRequestReader::HttpRequestReader(const ServeLimits& limits) : parser_(std::make_unique<Parser>(limits)) {}
HttpRequestReader::~HttpRequestReader() = default;
HttpRequestReader::HttpRequestReader(HttpRequestReader&&) noexcept = default;
HttpRequestReader& HttpRequestReader::operator=(HttpRequestReader&&) noexcept = default;

size_t HttpRequestReader::feed(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && (state() != State::complete && state() != State::refused)) {
    const std::string_view rest = bytes.substr(taken);
    taken += state() == State::body ? parser_->feed_body(rest) : parser_->feed_header(rest);
  }
  return taken;
}

HttpRequestReader::State HttpRequestReader::state() const { return parser_->state; }

bool HttpRequestReader::wants_continue() const {
  return state() == State::body && parser_->header.framing().expects_continue && !parser_->body_has_begun;
}

size_t HttpRequestReader::held_bytes() const {
  if (state() == State::complete) return parser_->request.body.size();
  return state() == State::body ? parser_->parsed->get().body().size() : 0;
}

HttpRequest HttpRequestReader::take() {
  PACELINE_CHECK(state() == State::complete, "state {}", int(state()));
  HttpRequest request = std::move(parser_->request);
  *this = HttpRequestReader(parser_->limits);
  return request;
}

const HttpRefusal& HttpRequestReader::refusal() const {
  PACELINE_CHECK(state() == State::refused, "state {}", int(state()));
  return parser_->refusal;
}

}  // namespace paceline
