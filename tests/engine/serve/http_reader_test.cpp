#include "engine/serve/http_reader.h"

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/serve/limits.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using State = HttpRequestReader::State;

/// What a connection's bytes come to, as text: each request, then how the reader stands.
class Reading {
 public:
  explicit Reading(const ServeLimits& limits = {}) : reader_(limits) {}

  void feed(std::string_view bytes) {
    while (!bytes.empty() && reader_.state() != State::refused) {
      const size_t used = reader_.feed(bytes);
      bytes.remove_prefix(used);
      if (reader_.state() != State::complete) continue;
      const size_t held = reader_.held_bytes();
      const HttpRequest request = reader_.take();
      EXPECT_EQ(held, request.body.size());
      EXPECT_EQ(reader_.state(), State::idle);
      text_ += fmt::format("{} {} 1.{} {}", request.method, request.target, request.version_minor,
                           request.keep_alive ? "keeps" : "closes");
      for (const HttpField& field : request.fields) text_ += fmt::format(" [{}|{}]", field.name, field.value);
      text_ += fmt::format(" {}:{}\n", request.body.size(), request.body.substr(0, 64));
    }
  }

  std::string text() const {
    if (reader_.state() == State::refused)
      return text_ + fmt::format("refused {}: {}", reader_.refusal().status, reader_.refusal().message);
    return text_ + (reader_.state() == State::idle ? "idle" : reader_.state() == State::body ? "body" : "header");
  }

  HttpRequestReader& reader() { return reader_; }

 private:
  HttpRequestReader reader_;
  std::string text_;
};

std::string read_at_once(std::string_view bytes, const ServeLimits& limits = {}) {
  Reading reading(limits);
  reading.feed(bytes);
  return reading.text();
}

/// In parts, the sizes of which `next` says.
template <class Next>
std::string read_in_parts(std::string_view bytes, const ServeLimits& limits, const Next& next) {
  Reading reading(limits);
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), std::max<size_t>(1, next()));
    const std::string part(bytes.substr(0, size));  // its own memory: reading beyond it shows
    reading.feed(part);
    bytes.remove_prefix(size);
  }
  return reading.text();
}

std::string chunked(std::string_view body_bytes) {
  return fmt::format("POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{}", body_bytes);
}

std::string get(std::string_view fields) { return fmt::format("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", fields); }

std::string repeated(int64_t count, char c) { return count > 0 ? std::string(size_t(count), c) : std::string(); }

struct Case {
  const char* name;
  std::string bytes;
  std::string outcome;  // "400": refused so
};

const std::string kGood = "GET / HTTP/1.1\r\nHost: h\r\n\r\n", kGoodSays = "GET / 1.1 keeps [Host|h] 0:\n";

std::vector<Case> cases() {
  const std::string chunked_says = "POST /c 1.1 keeps [Host|h] [Transfer-Encoding|chunked] ";
  return {
      // Requests.
      {"nothing", "", "idle"},
      {"get", kGood, kGoodSays + "idle"},
      {"body", "POST /v1/x?a=b HTTP/1.1\r\nHost: h:80\r\nContent-Length: 5\r\n\r\nhello",
       "POST /v1/x?a=b 1.1 keeps [Host|h:80] [Content-Length|5] 5:hello\nidle"},
      {"empty_body", get("Content-Length: 0\r\n"), "GET / 1.1 keeps [Host|h] [Content-Length|0] 0:\nidle"},
      {"half_a_header", "GET / HTTP/1.1\r\nHost", "header"},
      {"half_a_body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhell", "body"},
      {"chunks", chunked("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"), chunked_says + "11:hello world\nidle"},
      {"no_chunks", chunked("0\r\n\r\n"), chunked_says + "0:\nidle"},
      {"chunk_of_one", chunked("1\r\na\r\n0\r\n\r\n") + kGood, chunked_says + "1:a\n" + kGoodSays + "idle"},
      {"chunk_of_two", chunked("2\r\nab\r\n0\r\n\r\n") + kGood, chunked_says + "2:ab\n" + kGoodSays + "idle"},
      {"chunk_letters", chunked("A\r\n0123456789\r\n0b\r\n01234567890\r\n0\r\n\r\n"),
       chunked_says + "21:012345678901234567890\nidle"},
      {"chunk_extension", chunked("5;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\n"), chunked_says + "5:hello\nidle"},
      {"trailer", chunked("1\r\na\r\n0\r\nX-Sum: 5\r\nHost: other\r\n\r\n") + kGood,
       chunked_says + "1:a\n" + kGoodSays + "idle"},
      {"trailer_that_closes", chunked("0\r\nConnection: close\r\n\r\n"), chunked_says + "0:\nidle"},
      {"chunked_has_no_case", "POST / HTTP/1.1\r\nHost: h\r\ntransfer-encoding:  CHUNKED \t\r\n\r\n0\r\n\r\n",
       "POST / 1.1 keeps [Host|h] [transfer-encoding|CHUNKED] 0:\nidle"},
      {"no_end_of_chunks", chunked("5\r\nhello\r\n"), "body"},
      {"pipelined", kGood + chunked("3\r\nabc\r\n0\r\n\r\n") + kGood,
       kGoodSays + chunked_says + "3:abc\n" + kGoodSays + "idle"},
      {"http_1_0", "GET / HTTP/1.0\r\n\r\n", "GET / 1.0 closes 0:\nidle"},
      {"http_1_0_keep_alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
       "GET / 1.0 keeps [Connection|Keep-Alive] 0:\nidle"},
      {"close", get("Connection: close\r\n"), "GET / 1.1 closes [Host|h] [Connection|close] 0:\nidle"},
      {"blanks_around_a_value", get("X:\t a b \t\r\n"), "GET / 1.1 keeps [Host|h] [X|a b] 0:\nidle"},
      {"empty_value", get("X:\r\n"), "GET / 1.1 keeps [Host|h] [X|] 0:\nidle"},
      {"utf8_in_a_value", get("X: \xc3\xa9\r\n"), "GET / 1.1 keeps [Host|h] [X|\xc3\xa9] 0:\nidle"},
      {"ipv6_host", "GET / HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n", "GET / 1.1 keeps [Host|[::1]:8000] 0:\nidle"},
      {"empty_host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / 1.1 keeps [Host|] 0:\nidle"},
      {"other_method", "BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n", "BREW /pot 1.1 keeps [Host|h] 0:\nidle"},
      {"expect_of_http_1_0", "POST / HTTP/1.0\r\nExpect: x\r\n\r\n", "POST / 1.0 closes [Expect|x] 0:\nidle"},
      // H3: what two readers could take for different requests.
      {"length_and_chunked", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
       "400"},
      {"chunked_and_length", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
       "400"},
      {"two_lengths", get("Content-Length: 5\r\nContent-Length: 6\r\n"), "400"},
      {"a_length_twice", get("Content-Length: 5\r\nContent-Length: 5\r\n"), "400"},
      {"list_of_lengths", get("Content-Length: 5, 5\r\n"), "400"},
      {"signed_length", get("Content-Length: +5\r\n"), "400"},
      {"negative_length", get("Content-Length: -1\r\n"), "400"},
      {"no_length", get("Content-Length:\r\n"), "400"},
      {"hex_length", get("Content-Length: 0x5\r\n"), "400"},
      {"length_beyond_64_bits", get("Content-Length: 99999999999999999999\r\n"), "400"},
      {"length_beyond_63_bits", get("Content-Length: 9223372036854775808\r\n"), "400"},
      {"chunked_twice", get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), "400"},
      {"other_coding", get("Transfer-Encoding: gzip, chunked\r\n"), "501"},
      {"identity", get("Transfer-Encoding: identity\r\n"), "501"},
      {"hidden_coding", get("Transfer-Encoding: xchunked\r\n"), "501"},
      {"chunked_http_1_0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
      {"bare_lf", "GET / HTTP/1.1\nHost: h\n\n", "400"},
      {"bare_lf_in_a_field", "GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", "400"},
      {"bare_lf_at_the_end", "GET / HTTP/1.1\r\nHost: h\r\n\n", "400"},
      {"bare_cr", get("X: a\rb\r\n"), "400"},
      {"cr_cr_lf", get("X: a\r\r\n"), "400"},
      {"folded", get("X: a\r\n b\r\n"), "400"},
      {"folded_by_a_tab", get("X: a\r\n\tb\r\n"), "400"},
      {"folded_at_once", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", "400"},
      {"blank_before_the_colon", get("X : a\r\n"), "400"},
      {"no_colon", get("X\r\n"), "400"},
      {"no_name", get(": a\r\n"), "400"},
      {"name_with_a_slash", get("X/Y: a\r\n"), "400"},
      {"nul", get(std::string("X: a\0b\r\n", 8)), "400"},
      {"escape_character", get("X: \x1b[0m\r\n"), "400"},
      {"delete_character", get("X: \x7f\r\n"), "400"},
      {"no_host", "GET / HTTP/1.1\r\n\r\n", "400"},
      {"two_hosts", get("host: i\r\n"), "400"},
      {"two_hosts_of_http_1_0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
      {"host_list", "GET / HTTP/1.1\r\nHost: a, b/c\r\n\r\n", "400"},
      {"empty_line_first", "\r\n" + kGood, "400"},
      {"connection_of_two_words", get("Connection: a b\r\n"), "400"},
      // The first line.
      {"absolute_target", "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"star", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"blank_in_the_target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"two_blanks", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"tab_for_a_blank", "GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"utf8_in_the_target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"no_token", "G(T / HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"blank_first", " GET / HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
      {"blank_behind_the_version", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", "400"},
      {"small_letters", "GET / http/1.1\r\nHost: h\r\n\r\n", "400"},
      {"long_version", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", "400"},
      // H13: other protocols.
      {"http_0_9", "GET /\r\n", "400"},
      {"http_0_9_with_a_version", "GET / HTTP/0.9\r\n", "400"},
      {"http_1_2", "GET / HTTP/1.2\r\n", "505"},
      {"http_2_in_words", "GET / HTTP/2.0\r\n", "505"},
      {"http_3", "GET / HTTP/3.0\r\n", "505"},
      {"http_2_preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
      {"tls_hello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), "400"},
      {"noise", "\xff\xfe\xfd", "400"},
      // Expect.
      {"other_expectation", get("Expect: tea\r\n"), "417"},
      {"two_expectations", get("Expect: 100-continue\r\nExpect: 100-continue\r\n"), "400"},
      // H2: chunks.
      {"negative_chunk", chunked("-2\r\nab\r\n0\r\n\r\n"), "400"},
      {"chunk_of_2_to_64", chunked("FFFFFFFFFFFFFFFF\r\nab"), "400"},
      {"chunk_of_2_to_63", chunked("8000000000000000\r\nab"), "400"},
      {"chunk_beyond_64_bits", chunked("10000000000000001\r\na\r\n0\r\n\r\n"), "400"},
      {"chunk_in_0x", chunked("0x1\r\na\r\n0\r\n\r\n"), "400"},
      {"chunk_behind_a_blank", chunked(" 1\r\na\r\n0\r\n\r\n"), "400"},
      {"chunk_without_a_size", chunked("\r\n\r\n0\r\n\r\n"), "400"},
      {"chunk_longer_than_it_says", chunked("1\r\nab\r\n0\r\n\r\n"), "400"},
      {"chunk_ends_in_lf", chunked("1\na\n0\n\n"), "body"},
      {"chunk_line_with_a_bare_cr", chunked("1\r1\r\na\r\n0\r\n\r\n"), "400"},
      {"chunk_extension_of_64_KiB", chunked("1;" + std::string(size_t{64} << 10, 'e') + "\r\na\r\n0\r\n\r\n"), "400"},
      {"controls_in_an_extension", chunked("1;a=\"\n\x01\"\r\na\r\n0\r\n\r\n"), "400"},
      {"endless_chunk_line", chunked(std::string(size_t{64} << 10, '0')), "400"},
      {"endless_trailer", chunked("0\r\nX: " + std::string(size_t{64} << 10, 't')), "400"},
      {"length_in_the_trailer", chunked("0\r\nContent-Length: 5\r\n\r\n"), "400"},
      {"trailer_with_a_bare_lf", chunked("0\r\nX: a\nY: b\r\n\r\n"), "400"},
  };
}

class HttpReaderCases : public testing::TestWithParam<Case> {};

TEST_P(HttpReaderCases, AreTheSameHoweverTheirBytesArrive) {
  const Case& is = GetParam();
  const std::string at_once = read_at_once(is.bytes);
  if (is.outcome.size() == 3) {
    EXPECT_EQ(at_once.substr(0, 13), "refused " + is.outcome + ": ") << at_once;
    EXPECT_EQ(at_once.find_first_of("\r\n"), std::string::npos) << at_once;
    // Boost refuses some of it, too; ours must have come first.
    if (is.name != std::string_view("connection_of_two_words")) {
      EXPECT_EQ(at_once.find("the header is malformed"), std::string::npos) << at_once;
    }
  } else {
    EXPECT_EQ(at_once, is.outcome);
  }
  EXPECT_EQ(read_in_parts(is.bytes, {}, [] { return 1; }), at_once);
  EXPECT_EQ(read_in_parts(is.bytes, {}, [] { return 2; }), at_once);
  std::mt19937_64 random(is.bytes.size());
  for (const size_t longest : {4, 40, 400, 40'000})
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(read_in_parts(is.bytes, {}, [&] { return random() % longest; }), at_once) << longest << " " << i;
}

INSTANTIATE_TEST_SUITE_P(, HttpReaderCases, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HttpReader, OtherProtocolsAreNamed) {  // H13
  EXPECT_NE(read_at_once("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").find("HTTP/2 is not spoken here"), std::string::npos);
  EXPECT_NE(read_at_once("\x16\x03\x01").find("http:// in place of https://"), std::string::npos);
}

TEST(HttpReader, BehindARefusalNothingIsTaken) {
  HttpRequestReader reader{ServeLimits{}};
  EXPECT_EQ(reader.feed("GET / HTTP/9.9\r\nHost: h\r\n\r\n"), 16u);
  ASSERT_EQ(reader.state(), State::refused);
  EXPECT_EQ(reader.feed(kGood), 0u);
  test::expect_error(ExitCode::internal, {"state"}, [&] { reader.take(); });
}

// At each limit, one below it and one above.

int64_t limit_of(std::string_view name) {
  for (const LimitRow& row : kLimitRows)
    if (row.name == name) return ServeLimits{}.*row.value;
  ADD_FAILURE() << name;
  return 0;
}

struct Limit {
  const char* name;
  const char* status;
  std::string (*bytes)(int64_t value);
};

const Limit kReaderLimits[] = {
    {"max_body_bytes", "413",
     [](int64_t size) {
       return fmt::format("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", size) + repeated(size, 'b');
     }},
    {"max_body_bytes", "413",
     [](int64_t size) { return chunked(fmt::format("{:x}\r\n", size) + repeated(size, 'b') + "\r\n0\r\n\r\n"); }},
    {"max_body_bytes", "413",
     [](int64_t size) {
       std::string chunks;
       for (int64_t left = size; left > 0; left -= 100'000) {
         const size_t part = size_t(std::min<int64_t>(left, 100'000));
         chunks += fmt::format("{:x}\r\n", part) + std::string(part, 'b') + "\r\n";
       }
       return chunked(chunks + "0\r\n\r\n");
     }},
    {"max_uri_bytes", "414",
     [](int64_t size) { return fmt::format("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", repeated(size - 1, 'u')); }},
    {"max_header_bytes", "431",
     [](int64_t size) { return get("X: " + repeated(size - int64_t(get("X: \r\n").size()), 'x') + "\r\n"); }},
    {"max_header_fields", "431",
     [](int64_t size) {
       std::string fields;
       for (int64_t i = 1; i < size; ++i) fields += fmt::format("F{}: x\r\n", i);
       return get(fields);
     }},
};

TEST(HttpReader, EachLimitIsReachedAndNotPassed) {  // H1, H4
  for (const Limit& limit : kReaderLimits) {
    const int64_t most = limit_of(limit.name);
    for (const int64_t value : {most - 1, most}) {
      const std::string says = read_at_once(limit.bytes(value));
      EXPECT_EQ(says.substr(says.find('\n') + 1), "idle") << limit.name << " " << value;
    }
    const std::string bytes = limit.bytes(most + 1), at_once = read_at_once(bytes);
    EXPECT_EQ(at_once.substr(0, 11), fmt::format("refused {}", limit.status)) << limit.name << ": " << at_once;
    std::mt19937_64 random(7);
    EXPECT_EQ(read_in_parts(bytes, {}, [&] { return random() % 5000; }), at_once);
  }
}

/// Refused at the first byte that shows it, not when the rest has come.
TEST(HttpReader, WhatIsTooLongIsRefusedBeforeItIsWhole) {
  const ServeLimits limits;
  EXPECT_EQ(read_at_once("GET /" + std::string(size_t(limits.max_uri_bytes), 'u')).substr(0, 11), "refused 414");
  EXPECT_EQ(read_at_once("GET / HTTP/1.1\r\nX: " + std::string(size_t(limits.max_header_bytes), 'x')).substr(0, 11),
            "refused 431");
  EXPECT_EQ(read_at_once("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8388609\r\n\r\n").substr(0, 11), "refused 413");
  EXPECT_EQ(read_at_once(chunked("800001\r\nab")).substr(0, 11), "refused 413");
}

TEST(HttpReader, ABodyInChunksWithoutEndIsRefused) {  // H1
  ServeLimits limits;
  limits.max_body_bytes = 1000;
  Reading reading(limits);
  reading.feed(chunked(""));
  int chunks = 0;
  while (reading.reader().state() == State::body && chunks < 1000) {
    reading.feed("a\r\n0123456789\r\n");
    ++chunks;
    EXPECT_LE(reading.reader().held_bytes(), 1000u);
  }
  EXPECT_EQ(chunks, 101);
  EXPECT_EQ(reading.text(), "refused 413: the body is longer than 1000 bytes");
}

TEST(HttpReader, ExtensionsOfAllChunksTogetherAreLimited) {
  std::string bytes = chunked("");
  for (int i = 0; i < 17; ++i) bytes += "1;" + std::string(1023, 'e') + "\r\na\r\n";
  EXPECT_EQ(read_at_once(bytes), "refused 400: extensions of chunks are longer than 16384 bytes");
}

TEST(HttpReader, ABodySoFarIsCounted) {
  HttpRequestReader reader{ServeLimits{}};
  reader.feed("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n");
  EXPECT_EQ(reader.held_bytes(), 0u);
  reader.feed("abc");
  EXPECT_EQ(reader.held_bytes(), 3u);
  reader.feed("defghij");
  EXPECT_EQ(reader.held_bytes(), 10u);
  EXPECT_EQ(reader.take().body, "abcdefghij");
  EXPECT_EQ(reader.held_bytes(), 0u);
}

TEST(HttpReader, AClientIsToldToGoOnOnlyBeforeItsBody) {
  const auto after = [](std::string_view bytes) {
    Reading reading;
    reading.feed(bytes);
    return reading.reader().wants_continue();
  };
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-Continue\r\n\r\n";
  EXPECT_TRUE(after(head));
  EXPECT_FALSE(after(head.substr(0, head.size() - 1)));
  EXPECT_FALSE(after(head + "h"));
  EXPECT_FALSE(after(head + "hello"));
  EXPECT_FALSE(after("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"));
  EXPECT_FALSE(after("POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_FALSE(after(get("Expect: 100-continue\r\n")));
}

TEST(HttpMessage, FieldsAreFoundWhateverTheirCase) {
  const HttpRequest request{.target = "/a?b?c", .fields = {{"Content-Type", "x"}, {"content-type", "y"}}};
  ASSERT_NE(request.field("CONTENT-TYPE"), nullptr);
  EXPECT_EQ(*request.field("CONTENT-TYPE"), "x");
  EXPECT_EQ(request.field("Content"), nullptr);
  EXPECT_EQ(request.path(), "/a");
  EXPECT_EQ(request.query(), "b?c");
}

TEST(HttpMessage, AHeadIsWrittenAsClientsReadIt) {
  const HttpReply reply{.status = 404, .body = "{}", .fields = {{"X-Request-Id", "7"}}};
  EXPECT_EQ(http_head(reply, HttpFraming::length, HttpPersistence::unsaid, http_date(784111777)),
            "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Request-Id: 7\r\n\r\n");
  EXPECT_EQ(http_head({.content_type = "text/event-stream"}, HttpFraming::chunked, HttpPersistence::close, "d"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nDate: d\r\n"
            "Connection: close\r\n\r\n");
  EXPECT_EQ(http_head({.status = 204}, HttpFraming::length, HttpPersistence::keep_alive, "d"),
            "HTTP/1.1 204 No Content\r\nDate: d\r\nConnection: keep-alive\r\n\r\n");
}

TEST(HttpMessage, NoFieldIsSmuggledIntoAnAnswer) {  // H16
  const HttpReply reply{
      .content_type = "text/plain\r\nX-A: 1",
      .fields = {{"X-Id", std::string("a\r\n\r\nb\0c\td\x7f", 10)}, {"X-B: 1\r\nX-C", "v"}, {"", "v"}}};
  EXPECT_EQ(http_head(reply, HttpFraming::until_close, HttpPersistence::unsaid, "d"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plainX-A: 1\r\nDate: d\r\nX-Id: abcd\r\n\r\n");
}

}  // namespace
}  // namespace paceline
