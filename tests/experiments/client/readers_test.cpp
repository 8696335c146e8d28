// The readers of bytes: addresses, answers of HTTP, server-sent events. However the bytes are cut, what comes out is
// the same.

#include <random>

#include <gtest/gtest.h>

#include "experiments/client/http_response_reader.h"
#include "experiments/client/sse_reader.h"
#include "experiments/config/server_url.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_seed.h"

namespace paceline {
namespace {

using test::expect_error;

TEST(ServerUrl, IsReadStrictly) {
  const ServerUrl url = parse_server_url("http://127.0.0.1:8000/some/base/v1/");
  EXPECT_EQ(url.host, "127.0.0.1");
  EXPECT_EQ(url.port, 8000);
  EXPECT_EQ(url.base, "/some/base");
  EXPECT_EQ(url.text(), "http://127.0.0.1:8000/some/base");
  EXPECT_EQ(parse_server_url("http://box").port, 80);
  EXPECT_EQ(parse_server_url("http://box/v1").base, "");
  EXPECT_EQ(parse_server_url("http://[::1]:9").host, "::1");
  EXPECT_EQ(parse_server_url("http://[::1]:9").authority(), "[::1]:9");
}

TEST(ServerUrl, RefusesInOneLineThatSaysWhy) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"https://api.openai.com/v1", "https is not spoken here"},
      {"127.0.0.1:8000", "no http://"},
      {"ftp://x", "no http://"},
      {"http://", "no host"},
      {"http://:80", "no host"},
      {"http://h:0", "not 1 to 65535"},
      {"http://h:65536", "not 1 to 65535"},
      {"http://h:", "not 1 to 65535"},
      {"http://h:8a", "not 1 to 65535"},
      {"http://me:secret@h", "server.api_key_env"},
      {"http://h/?a=1", "a query"},
      {"http://h/a b", "a blank"},
      {"http://h\r\nX: y", "a blank"},
      {"http://[::1", "without its ']'"},
      {"http://[::1]8", "between the address and its port"},
      {"http://a,b", "no host has"}};
  for (const auto& one : cases) expect_error(ExitCode::usage, {one.second}, [&] { parse_server_url(one.first); });
}

/// Cuts `bytes` at random places and feeds the pieces.
template <class Feed>
void feed_in_pieces(std::string_view bytes, std::mt19937_64& random, const Feed& feed) {
  while (!bytes.empty()) {
    const size_t size = std::min<size_t>(bytes.size(), 1 + random() % 7);
    feed(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
}

std::vector<std::string> events_of(std::string_view bytes, std::mt19937_64* random, bool* has_half = nullptr) {
  SseReader reader;
  std::vector<std::string> events;
  const auto feed = [&](std::string_view piece) {
    EXPECT_TRUE(reader.feed(piece, [&](std::string_view data) { events.emplace_back(data); }));
  };
  random ? feed_in_pieces(bytes, *random, feed) : feed(bytes);
  if (has_half) *has_half = reader.has_half_event();
  return events;
}

TEST(SseReader, ReadsEventsOfAllLineEnds) {
  const std::vector<std::string> wanted = {"{\"a\":1}", "two\nlines", "", "[DONE]"};
  EXPECT_EQ(events_of("\xEF\xBB\xBF: hello\ndata: {\"a\":1}\n\nevent: x\ndata: two\ndata:lines\n\ndata\n\n\n\n"
                      "data: [DONE]\n\n",
                      nullptr),
            wanted);
  EXPECT_EQ(
      events_of("data: {\"a\":1}\r\n\r\nid: 7\r\ndata: two\r\ndata:lines\r\n\r\ndata:\r\n\r\ndata: [DONE]\r\n\r\n",
                nullptr),
      wanted);
  EXPECT_EQ(events_of("data: {\"a\":1}\r\rdata: two\rdata:lines\r\rdata:\r\rdata: [DONE]\r\r", nullptr), wanted);
}

TEST(SseReader, GivesTheSameEventsHoweverTheBytesAreCut) {
  std::mt19937_64 random(test::random_seed());
  const std::string_view kPieces[] = {"data: ", "data:", "x",        "é",   "\n",   "\r\n",
                                      "\r",     "\n\n",  "\r\n\r\n", ": c", "id: 3"};
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i) bytes += kPieces[random() % std::size(kPieces)];
    bool half = false, half_in_pieces = false;
    const std::vector<std::string> whole = events_of(bytes, nullptr, &half);
    ASSERT_EQ(events_of(bytes, &random, &half_in_pieces), whole) << bytes;
    ASSERT_EQ(half, half_in_pieces) << bytes;
  }
}

TEST(SseReader, KnowsAHalfEvent) {
  for (const char* const text : {"data: x", "data: x\n", "data: a\n\ndata: b\r\n", ": com", "d"}) {
    bool half = false;
    events_of(text, nullptr, &half);
    EXPECT_TRUE(half) << text;
  }
  for (const char* const text : {"", "data: x\n\n", ": comment\n", "data: x\r\n\r\n", "id: 1\n"}) {
    bool half = true;
    events_of(text, nullptr, &half);
    EXPECT_FALSE(half) << text;
  }
}

TEST(SseReader, IsBounded) {
  SseReader reader(16);
  const auto ignore = [](std::string_view) {};
  EXPECT_TRUE(reader.feed("data: 0123456789", ignore));
  EXPECT_FALSE(reader.feed("0", ignore));
  EXPECT_FALSE(reader.feed("\n\n", ignore));
  SseReader many(16);  // over several lines
  EXPECT_TRUE(many.feed("data: 01234\n", ignore));
  EXPECT_TRUE(many.feed("data: 01234", ignore));
  EXPECT_FALSE(many.feed("5", ignore));
}

struct ReadAnswer {
  HttpResponseReader::State state;
  int status;
  std::string body, refusal;
  bool keeps_alive = false;
  size_t taken = 0;
  bool operator==(const ReadAnswer&) const = default;
};

ReadAnswer read_answer(std::string_view bytes, std::mt19937_64* random, bool ends = false,
                       const HttpResponseLimits& limits = {}) {
  HttpResponseReader reader(limits);
  ReadAnswer out{};
  const auto feed = [&](std::string_view piece) {
    out.taken += reader.feed(piece, [&](std::string_view body) { out.body += body; });
  };
  random ? feed_in_pieces(bytes, *random, feed) : feed(bytes);
  if (ends) reader.end();
  out.state = reader.state();
  out.status = reader.status();
  out.refusal = reader.refusal();
  if (out.state == HttpResponseReader::State::complete) out.keeps_alive = reader.keeps_alive();
  return out;
}

TEST(HttpResponseReader, ReadsBodiesOfAllKinds) {
  using State = HttpResponseReader::State;
  struct Case {
    const char* bytes;
    bool ends;
    State state;
    int status;
    const char* body;
    bool keeps_alive;
    size_t behind = 0;  // bytes that are not the answer's
  };
  const Case cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, State::complete, 200, "hello", true},
      {"HTTP/1.1 200\r\ncontent-length:0\r\n\r\nHTTP", false, State::complete, 200, "", true, 4},
      {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", false, State::complete, 200, "hi", false},
      {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", false, State::complete, 200, "hi", false},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1 \r\n!\r\n0\r\nT: 1\r\n\r\n", false,
       State::complete, 200, "hello!", true},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false, State::complete, 204, "", true},
      {"HTTP/1.1 200 OK\r\nX: y\r\n\r\nall of it", true, State::complete, 200, "all of it", false},
      {"HTTP/1.1 200 OK\r\nX: y\r\n\r\nall of it", false, State::body, 200, "all of it", false},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", true, State::refused, 200, "hel", false},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true, State::refused, 200, "hello",
       false},
      {"HTTP/1.1 200 OK\r\nConte", true, State::refused, 0, "", false},
  };
  std::mt19937_64 random(test::random_seed());
  for (const Case& one : cases) {
    const ReadAnswer whole = read_answer(one.bytes, nullptr, one.ends);
    EXPECT_EQ(whole.state, one.state) << one.bytes << whole.refusal;
    EXPECT_EQ(whole.status, one.status) << one.bytes;
    EXPECT_EQ(whole.body, one.body) << one.bytes;
    EXPECT_EQ(whole.keeps_alive, one.keeps_alive) << one.bytes;
    EXPECT_EQ(whole.taken + one.behind, std::string_view(one.bytes).size()) << one.bytes;
    for (int round = 0; round < 20; ++round) EXPECT_EQ(read_answer(one.bytes, &random, one.ends), whole) << one.bytes;
  }
}

TEST(HttpResponseReader, RefusesWhatTwoReadersCouldUnderstandDifferently) {
  const std::pair<const char*, const char*> cases[] = {
      {"SSH-2.0-x\r\n\r\n", "not with HTTP/1.1"},
      {"HTTP/2.0 200 OK\r\n\r\n", "not with HTTP/1.1"},
      {"HTTP/1.1 2000 OK\r\n\r\n", "not with HTTP/1.1"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "together"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "two Content-Lengths"},
      {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length is"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "Content-Length is"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "only chunked"},
      {"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", "no field"},
      {"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "no field"},
      {"HTTP/1.1 200 OK\r\nA: b\nB: c\r\n\r\n", "control character"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n", "bare LF"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", "no size of a chunk"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n", "longer than its size"},
      {"HTTP/1.1 101 Switching\r\n\r\n", "101"},
  };
  std::mt19937_64 random(test::random_seed());
  for (const auto& [bytes, why] : cases) {
    const ReadAnswer whole = read_answer(bytes, nullptr);
    EXPECT_EQ(whole.state, HttpResponseReader::State::refused) << bytes;
    EXPECT_NE(whole.refusal.find(why), std::string::npos) << bytes << ": " << whole.refusal;
    EXPECT_EQ(read_answer(bytes, &random).refusal, whole.refusal) << bytes;
  }
}

TEST(HttpResponseReader, IsBounded) {
  const HttpResponseLimits limits{.max_header_bytes = 64, .max_body_bytes = 8};
  const auto state_of = [&](const std::string& bytes) { return read_answer(bytes, nullptr, false, limits).state; };
  using State = HttpResponseReader::State;
  const std::string head = "HTTP/1.1 200 OK\r\n";
  EXPECT_EQ(state_of(head + "A: " + std::string(64 - head.size() - 7, 'x') + "\r\n\r\n"), State::body);
  EXPECT_EQ(state_of(head + "A: " + std::string(64 - head.size() - 6, 'x') + "\r\n\r\n"), State::refused);
  EXPECT_EQ(state_of(head + "Content-Length: 8\r\n\r\n12345678"), State::complete);
  EXPECT_EQ(state_of(head + "Content-Length: 9\r\n\r\n"), State::refused);
  EXPECT_EQ(state_of(head + "\r\n123456789"), State::refused);
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(state_of(chunked + "8\r\n12345678\r\n0\r\n\r\n"), State::complete);
  EXPECT_EQ(state_of(chunked + "4\r\n1234\r\n5\r\n"), State::refused);
  EXPECT_EQ(state_of(chunked + "0\r\nT: " + std::string(64, 'x') + "\r\n"), State::refused);
}

}  // namespace
}  // namespace paceline
