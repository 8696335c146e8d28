// What clients do to a server, and what it makes of it.

#include <chrono>
#include <ctime>
#include <pthread.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/serve/http_server.h"
#include "tests/engine/serve/http_client.h"

namespace paceline {
namespace {

using test::comes_true;
using test::get_request;
using test::post_request;
using test::ServerOnThread;
using test::TestClient;

constexpr size_t kMiB = size_t{1} << 20;

struct Refused {
  const char* name;
  int status;
  std::string bytes;
  std::string (*body)() = nullptr;  // of many bytes: made where it is sent, not for each test of the program
};

std::string endless_chunks() {
  std::string chunks;
  for (int i = 0; i < 9; ++i) chunks += "100000\r\n" + std::string(kMiB, 'b') + "\r\n";
  return chunks;
}

std::vector<Refused> refused_requests() {
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string fields;
  for (int i = 0; i < 101; ++i) fields += fmt::format("F{}: x\r\n", i);
  return {
      {"H1_length", 413, "", [] { return post_request("/", std::string(8 * kMiB + 1, 'b')); }},
      {"H1_chunked", 413, chunked + "800001\r\n", [] { return std::string(8 * kMiB + 1, 'b') + "\r\n0\r\n\r\n"; }},
      {"H1_chunked_without_end", 413, chunked, endless_chunks},
      {"H1_lying_length", 413, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775807\r\n\r\nshort"},
      {"H2_negative_chunk", 400, chunked + "-2\r\nab\r\n0\r\n\r\n"},
      {"H2_chunk_of_2_to_64", 400, chunked + "FFFFFFFFFFFFFFFF\r\nab\r\n0\r\n\r\n"},
      {"H2_chunk_extension", 400, chunked + "1;" + std::string(size_t{64} << 10, 'e') + "\r\na\r\n0\r\n\r\n"},
      {"H3_length_and_chunked", 400,
       get_request("/", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n"},
      {"H3_two_lengths", 400, get_request("/", "Content-Length: 5\r\nContent-Length: 6\r\n") + "123456"},
      {"H3_bare_lf", 400, "GET / HTTP/1.1\nHost: h\n\n"},
      {"H3_folded", 400, get_request("/", "X: a\r\n b\r\n")},
      {"H4_fields", 431, get_request("/", fields)},
      {"H4_header", 431, get_request("/", fmt::format("X: {}\r\n", std::string(size_t{16} << 10, 'x')))},
      {"H4_uri", 414, get_request(fmt::format("/{}", std::string(size_t{8} << 10, 'u')))},
      {"H13_http_0_9", 400, "GET /\r\n"},
      {"H13_http_2", 400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {"H13_tls", 400, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)},
      {"other_version", 505, "GET / HTTP/3.0\r\n"},
  };
}

class HttpRefusals : public testing::TestWithParam<Refused> {};

/// The client sends all it has before it reads, as most do, and must get the answer, not a reset.
TEST_P(HttpRefusals, AreAnsweredAndTheConnectionEnds) {
  ServerOnThread server;
  TestClient client(server.port());
  EXPECT_EQ(client.ask(get_request("/")).status, 200);  // a connection that is no longer fresh
  client.send(GetParam().bytes).send(GetParam().body ? GetParam().body() : "");
  const auto reply = client.send(get_request("/smuggled")).read_reply();
  EXPECT_EQ(reply.status, GetParam().status) << reply.head << reply.body;
  EXPECT_TRUE(reply.has("Connection: close"));
  EXPECT_FALSE(reply.body.empty());
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(client.has_ended());
  EXPECT_EQ(server.num_requests, 1);
}

INSTANTIATE_TEST_SUITE_P(, HttpRefusals, testing::ValuesIn(refused_requests()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HttpFaults, SlowAndIdleClientsAreEnded) {  // H5
  ServeLimits limits;
  limits.body_timeout_s = limits.idle_timeout_s = 1;
  limits.header_timeout_s = 2;  // the connection's first deadline, of idle ones, is before that
  ServerOnThread server(limits);
  TestClient header(server.port()), body(server.port()), idle(server.port()), fresh(server.port()),
      waits(server.port());
  idle.ask(get_request("/"));
  waits.send(get_request("/hold"));
  const auto held = server.hold();
  const auto start = std::chrono::steady_clock::now();
  header.send("GET / HT");
  body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
  // A byte now and then is no progress: the answers come while bytes still do.
  bool header_is_late = false, body_is_late = false;
  for (int i = 0; i < 800 && !(header_is_late && body_is_late); ++i) {
    header_is_late = header_is_late || header.send("x").read_some(10);
    body_is_late = body_is_late || body.send("x").read_some(10);
  }
  EXPECT_TRUE(header_is_late && body_is_late);
  const auto late_header = header.read_reply(), late_body = body.read_reply();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(late_header.status, 408);
  EXPECT_EQ(late_header.body, "the header did not come within 2 s");
  EXPECT_EQ(late_body.status, 408);
  EXPECT_EQ(late_body.body, "the body did not come within 1 s");
  EXPECT_TRUE(late_header.has("Connection: close") && late_body.has("Connection: close"));
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_EQ(fresh.read_to_end(), "");
  EXPECT_TRUE(idle.has_ended() && fresh.has_ended());
  // Who waits for an answer is not idle.
  server.on_server([&] { held->reply({.body = "late"}); });
  EXPECT_EQ(waits.read_reply().body, "late");
}

TEST(HttpFaults, AReaderThatNeverReadsIsDroppedAndOthersAreServed) {  // H5
  ServerOnThread server;
  TestClient stuck, other(server.port());
  stuck.set_receive_buffer(4096);
  stuck.connect(server.port());
  stuck.send(get_request("/hold"));
  const auto held = server.hold();
  server.on_server([&] { held->begin({}); });
  const std::string piece(4096, 'p');
  const auto is_writing = [&] {
    bool writing = false;
    server.on_server([&] { writing = held->is_writing(); });
    return writing;
  };
  // The kernel takes some of it first: all that it will, where a piece still waits after a while.
  int64_t waiting = 0;
  for (int pieces = 0; waiting == 0 && pieces < 20'000; ++pieces) {
    server.on_server([&] { held->send(piece); });
    if (!is_writing()) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    waiting = is_writing() ? int64_t(piece.size()) : 0;
  }
  while (server.num_closed == 0 && waiting < 80'000'000) {
    server.on_server([&] {
      held->send(piece);
      waiting += held->is_writing() ? int64_t(piece.size()) : 0;
    });
    if (waiting / int64_t(piece.size()) % 50 != 0) continue;
    EXPECT_EQ(other.ask(get_request("/")).status, 200);
  }
  EXPECT_EQ(server.num_closed, 1);
  EXPECT_GT(waiting, ServeLimits{}.max_unread_bytes - 2 * 4096);
  EXPECT_LT(waiting, ServeLimits{}.max_unread_bytes + 2 * 4096);
  EXPECT_EQ(other.ask(get_request("/")).status, 200);
}

TEST(HttpFaults, AWholeAnswerThatNobodyReadsIsDroppedInTime) {  // H5
  ServeLimits limits;
  limits.idle_timeout_s = 1;
  ServerOnThread server(limits);
  TestClient stuck;
  stuck.set_receive_buffer(4096);  // full at once: the first write is the only one
  stuck.connect(server.port());
  stuck.send(get_request("/hold"));
  const auto held = server.hold();
  const auto connections = [&] { return server.on_server([&] { return server.server.num_connections(); }); };
  server.on_server([&] { held->reply({.body = std::string(16 * kMiB, 'x')}); });
  EXPECT_EQ(connections(), 1);
  EXPECT_TRUE(comes_true([&] { return connections() == 0; }));
}

TEST(HttpFaults, AClientThatStaysBehindARefusalIsLetGo) {
  ServerOnThread server;
  TestClient stays(server.port());
  EXPECT_EQ(stays.ask("GET /\r\n").status, 400);
  const auto connections = [&] { return server.on_server([&] { return server.server.num_connections(); }); };
  EXPECT_EQ(connections(), 1);
  EXPECT_TRUE(comes_true([&] { return connections() == 0; }));
}

TEST(HttpFaults, RequestsAheadAreReadUpToALimit) {
  ServerOnThread server;
  TestClient client(server.port());
  client.send(get_request("/hold"));
  const auto held = server.hold();
  const std::string next = get_request("/next", "X: " + std::string(8000, 'x') + "\r\n");
  size_t sent = 0, of_next = 0;
  int tries = 0;
  while (sent < 64 * kMiB && tries < 100) {  // until the kernel's buffers are full, too
    const ssize_t count =
        ::send(client.fd(), next.data() + of_next, next.size() - of_next, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++tries;
      continue;
    }
    sent += size_t(count);
    of_next = (of_next + size_t(count)) % next.size();
  }
  EXPECT_LT(sent, 64 * kMiB);
  server.on_server([&] { held->reply({.body = "held"}); });
  EXPECT_EQ(client.read_reply().body, "held");
  const int whole = int(sent / next.size());
  int answered = 0;
  while (answered < whole && client.read_reply().body == "GET /next ") ++answered;
  EXPECT_EQ(answered, whole);
}

TEST(HttpFaults, ConnectionsOverTheLimitAreToldSo) {  // H6
  ServerOnThread server;
  const int64_t most = ServeLimits{}.max_connections;
  std::vector<TestClient> clients;
  for (int i = 0; i < most; ++i) ASSERT_EQ(clients.emplace_back(server.port()).ask(get_request("/")).status, 200);
  for (int i = 0; i < 3; ++i) {
    TestClient over(server.port());
    const auto reply = over.ask(get_request("/"));
    EXPECT_EQ(reply.status, 503);
    EXPECT_TRUE(reply.has("Retry-After: 1"));
    EXPECT_EQ(over.read_to_end(), "");
    EXPECT_TRUE(over.has_ended());
  }
  EXPECT_EQ(server.on_server([&] { return server.server.num_connections(); }), most);
  EXPECT_EQ(server.num_requests, most);
  clients.pop_back();
  EXPECT_TRUE(comes_true([&] { return TestClient(server.port()).ask(get_request("/")).status == 200; }));
  EXPECT_EQ(clients[0].ask(get_request("/")).status, 200);
}

/// The soft limit of file handles, until the end of a test.
class HandleLimit {
 public:
  explicit HandleLimit(rlim_t limit) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = std::min(limit, before_.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &now);
    value_ = now.rlim_cur;
  }
  ~HandleLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  rlim_t value() const { return value_; }

 private:
  rlimit before_ = {};
  rlim_t value_ = 0;
};

TEST(HttpFaults, AThousandConnectionsAtOnce) {  // H6
  const HandleLimit handles(4096);
  if (handles.value() < 2200) GTEST_SKIP() << "only " << handles.value() << " file handles are allowed";
  ServerOnThread server;
  std::vector<TestClient> clients(1000);
  for (TestClient& client : clients) ASSERT_TRUE(client.connect(server.port()));
  for (TestClient& client : clients) client.send(get_request("/"));
  int served = 0, refused = 0;
  for (TestClient& client : clients) {
    const int status = client.read_reply().status;
    served += status == 200;
    refused += status == 503;
    if (status == 503) client.close();
  }
  EXPECT_EQ(served, ServeLimits{}.max_connections);
  EXPECT_EQ(served + refused, 1000);
  clients.clear();
  EXPECT_TRUE(comes_true([&] { return TestClient(server.port()).ask(get_request("/")).status == 200; }));
}

TEST(HttpFaults, UsedUpFileHandlesMakeConnectionsWait) {  // H6
  ServerOnThread server;
  EXPECT_EQ(TestClient(server.port()).ask(get_request("/")).status, 200);  // whatever opens files has done so
  std::vector<TestClient> clients(100);  // their handles are there before the limit is
  const HandleLimit handles(rlim_t(clients.back().fd()) + 20);
  for (TestClient& client : clients) ASSERT_TRUE(client.connect(server.port()));
  for (TestClient& client : clients) client.send(get_request("/"));
  // Some are served, others wait. The server's thread meanwhile sleeps most of the time.
  EXPECT_EQ(clients[0].read_reply().status, 200);
  const auto cpu_s = [&] {
    return server.on_server([] {
      timespec used = {};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
      return double(used.tv_sec) + double(used.tv_nsec) * 1e-9;
    });
  };
  const double before_s = cpu_s();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_s() - before_s, 0.05);  // a loop that spins takes all that other programs leave it
  EXPECT_LT(server.num_requests, 101);
  // Each that ends makes room for another.
  clients[0].close();
  for (size_t i = 1; i < clients.size(); ++i) {
    ASSERT_EQ(clients[i].read_reply().status, 200) << i;
    clients[i].close();
  }
  EXPECT_EQ(server.num_requests, 101);
}

TEST(HttpFaults, BodiesOfAllRequestsTogetherAreLimited) {
  ServeLimits limits;
  limits.max_held_bytes = 1000;
  ServerOnThread server(limits);
  TestClient first(server.port()), second(server.port()), third(server.port()), half(server.port());
  first.send(post_request("/hold", std::string(600, 'a')));
  const auto held = server.hold();
  EXPECT_EQ(second.ask(post_request("/", std::string(400, 'b'))).status, 200);  // at the limit
  const auto refused = second.ask(post_request("/", std::string(401, 'b')));
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.has("Retry-After: 1"));
  EXPECT_TRUE(refused.has("Connection: close"));
  // A body counts as it comes, and its share is given back when the client leaves.
  half.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 500\r\n\r\n" + std::string(300, 'c'));
  half.send("");
  EXPECT_TRUE(comes_true([&] {
    TestClient client(server.port());
    return client.ask(post_request("/", std::string(101, 'd'))).status == 503;
  }));
  half.close();
  EXPECT_TRUE(comes_true([&] {
    TestClient client(server.port());
    return client.ask(post_request("/", std::string(400, 'd'))).status == 200;
  }));
  server.on_server([&] { held->reply({}); });
  EXPECT_EQ(first.read_reply().status, 200);
  EXPECT_EQ(third.ask(post_request("/", std::string(1000, 'e'))).status, 200);
}

TEST(HttpFaults, AClientsTextDoesNotBecomeAField) {  // H16
  ServerOnThread server({}, [](HttpRequest request, ServerOnThread::Exchange exchange) {
    exchange->reply({.fields = {{"X-Request-Id", std::string(request.query()) + "\r\nSet-Cookie: a=b\r\n\r\n<html>"},
                                {"X\r\nSet-Cookie", "c"}}});
  });
  TestClient client(server.port());
  const auto reply = client.ask(get_request("/?id=7"));
  EXPECT_TRUE(reply.has("X-Request-Id: id=7Set-Cookie: a=b<html>")) << reply.head;
  EXPECT_EQ(reply.head.find("\nSet-Cookie"), std::string::npos);
  EXPECT_EQ(client.ask(get_request("/")).status, 200);
}

}  // namespace
}  // namespace paceline
