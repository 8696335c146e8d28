#include "engine/serve/http_server.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/serve/http_client.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::comes_true;
using test::get_request;
using test::post_request;
using test::ServerOnThread;
using test::TestClient;

TEST(HttpServer, KeepsAConnectionForManyRequests) {
  ServerOnThread server;
  TestClient client(server.port());
  for (int i = 0; i < 50; ++i) {
    const auto reply = client.ask(post_request(fmt::format("/{}", i), std::string(size_t(i * 1000), 'b')));
    ASSERT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, fmt::format("POST /{} {}", i, std::string(size_t(i * 1000), 'b')));
    EXPECT_FALSE(reply.has("Connection: close"));
    EXPECT_TRUE(reply.has("Content-Type: application/json"));
    EXPECT_NE(reply.head.find("\r\nDate: "), std::string::npos);
  }
  EXPECT_EQ(server.on_server([&] { return server.server.num_connections(); }), 1);
  client.close();
  EXPECT_TRUE(comes_true([&] { return server.on_server([&] { return server.server.num_connections(); }) == 0; }));
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInTheirOrder) {
  ServerOnThread server;
  TestClient client(server.port());
  std::string bytes = get_request("/hold");
  for (int i = 0; i < 400; ++i) bytes += post_request(fmt::format("/{}", i), "b");
  client.send(bytes);
  const auto held = server.hold();
  EXPECT_EQ(server.num_requests, 1);
  server.on_server([&] { held->reply({.body = "held"}); });
  EXPECT_EQ(client.read_reply().body, "held");
  for (int i = 0; i < 400; ++i) ASSERT_EQ(client.read_reply().body, fmt::format("POST /{} b", i));
  EXPECT_EQ(server.num_requests, 401);
}

TEST(HttpServer, ARequestMayComeByteByByte) {
  ServerOnThread server;
  TestClient client(server.port());
  for (const char c : post_request("/slow", "body")) client.send(std::string(1, c));
  EXPECT_EQ(client.read_reply().body, "POST /slow body");
}

TEST(HttpServer, AnAnswerInPiecesIsChunked) {
  ServerOnThread server;
  TestClient client(server.port());
  client.send(get_request("/hold") + get_request("/next"));
  const auto held = server.hold();
  server.on_server([&] {
    EXPECT_FALSE(held->is_closed());
    held->begin({.body = "first", .content_type = "text/event-stream"});
    held->send("");  // would be the end
    held->send("data: 0123456789\n\n");
    held->end();
    EXPECT_TRUE(held->is_closed());
    held->send("behind the end");
    held->end();
    held->reply({});
    held->abort();
  });
  const std::string head = client.read_up_to("\r\n\r\n");
  EXPECT_NE(head.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_EQ(head.find("Content-Length"), std::string::npos);
  const std::string pieces = "5\r\nfirst\r\n12\r\ndata: 0123456789\n\n\r\n0\r\n\r\n";
  EXPECT_EQ(client.read_bytes(pieces.size()), pieces);
  EXPECT_EQ(client.read_reply().body, "GET /next ");
  EXPECT_EQ(server.num_closed, 0);
}

TEST(HttpServer, ToHttp10PiecesEndWithTheConnection) {
  ServerOnThread server;
  TestClient client(server.port());
  client.send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto held = server.hold();
  server.on_server([&] {
    held->begin({.body = "a"});
    held->send("b");
    held->end();
  });
  const std::string text = client.read_to_end();
  EXPECT_TRUE(client.has_ended());
  EXPECT_EQ(text.substr(text.find("\r\n\r\n")), "\r\n\r\nab");
  EXPECT_NE(text.find("Connection: close"), std::string::npos);
  EXPECT_EQ(text.find("chunked"), std::string::npos);
}

TEST(HttpServer, Http10IsClosedUnlessItAsks) {
  ServerOnThread server;
  TestClient keeps(server.port());
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(keeps.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").has("Connection: keep-alive"));
  EXPECT_TRUE(keeps.ask("GET / HTTP/1.0\r\n\r\n").has("Connection: close"));
  EXPECT_EQ(keeps.read_to_end(), "");
  EXPECT_TRUE(keeps.has_ended());
}

TEST(HttpServer, ClosesWhereEitherSideWantsIt) {
  ServerOnThread server({}, [](HttpRequest request, ServerOnThread::Exchange exchange) {
    exchange->reply({.body = "x", .close = request.target == "/close"});
  });
  for (const auto& bytes : {get_request("/", "Connection: close\r\n"), get_request("/close")}) {
    TestClient client(server.port());
    const auto reply = client.ask(bytes + get_request("/never"));
    EXPECT_EQ(reply.body, "x");
    EXPECT_TRUE(reply.has("Connection: close"));
    EXPECT_EQ(client.read_to_end(), "");
    EXPECT_TRUE(client.has_ended());
  }
  EXPECT_EQ(server.num_requests, 2);
}

TEST(HttpServer, AnAnswerToHeadHasNoBody) {
  ServerOnThread server;
  TestClient client(server.port());
  client.send("HEAD /x HTTP/1.1\r\nHost: h\r\n\r\nHEAD /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(client.read_up_to("\r\n\r\n").find("Content-Length: 8"), std::string::npos);
  const auto held = server.hold();
  server.on_server([&] {
    held->begin({.body = "a"});
    held->send("b");
    held->end();
  });
  const std::string second = client.read_up_to("\r\n\r\n");
  EXPECT_EQ(second.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_NE(second.find("chunked"), std::string::npos);
  const auto next = client.ask(get_request("/next"));
  EXPECT_EQ(next.head.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_EQ(next.body, "GET /next ");
}

TEST(HttpServer, TellsAClientThatWaitsToGoOn) {
  ServerOnThread server;
  TestClient client(server.port());
  client.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_up_to("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("he");
  EXPECT_EQ(client.ask("llo").body, "POST /x hello");
  const auto refused =
      client.ask("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 8388609\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(refused.status, 413);
}

TEST(HttpServer, AClientThatLeavesIsSeenWhileItsRequestIsAnswered) {
  ServerOnThread server;
  using Leaves = void (TestClient::*)();
  int left = 0;
  for (const Leaves leave : {&TestClient::close, &TestClient::reset, &TestClient::end_sending}) {
    for (const bool has_begun : {false, true}) {
      TestClient client(server.port());
      client.send(get_request("/hold"));
      const auto held = server.hold(size_t(left));
      if (has_begun) server.on_server([&] { held->begin({.body = "a"}); });
      EXPECT_EQ(server.num_closed, left);
      (client.*leave)();
      ++left;
      EXPECT_TRUE(comes_true([&] { return server.num_closed == left; }));
      EXPECT_TRUE(server.on_server([&] {
        held->send("nobody is there");
        held->end();
        return held->is_closed();
      }));
    }
  }
  EXPECT_EQ(server.num_closed, left);
  EXPECT_EQ(server.on_server([&] { return server.server.num_connections(); }), 0);
}

TEST(HttpServer, AClientThatEndsItsSideGetsAnAnswerThatHasEnded) {
  const std::string large(size_t{4} << 20, 'x');
  ServerOnThread server({}, [&](HttpRequest, ServerOnThread::Exchange exchange) { exchange->reply({.body = large}); });
  TestClient client(server.port());
  client.send(get_request("/"));
  client.end_sending();
  EXPECT_TRUE(client.read_reply().body == large);
}

TEST(HttpServer, APieceWaitsBehindTheOnesBeforeIt) {
  ServeLimits limits;
  limits.max_unread_bytes = int64_t{64} << 20;
  ServerOnThread server(limits);
  TestClient client;
  client.set_receive_buffer(4096);
  client.connect(server.port());
  client.send(get_request("/hold"));
  const auto held = server.hold();
  std::string sent;
  const bool is_writing = server.on_server([&] {
    held->begin({});
    EXPECT_FALSE(held->is_writing());
    for (int i = 0; i < 20'000; ++i) {
      const std::string piece = fmt::format("{}:{};", i, std::string(size_t(i % 100), 'p'));
      sent += piece;
      held->send(piece);
    }
    return held->is_writing();
  });
  ASSERT_TRUE(is_writing);
  EXPECT_EQ(server.num_written, 0);
  std::thread reader([&] { EXPECT_TRUE(client.read_reply().body == sent + "last"); });
  EXPECT_TRUE(comes_true([&] { return server.num_written == 1; }));
  server.on_server([&] {
    EXPECT_FALSE(held->is_writing());
    held->send("last");
    held->end();
  });
  reader.join();
  EXPECT_EQ(server.num_written, 1);
}

TEST(HttpServer, AWrittenCallMaySendAndEnd) {
  const std::string piece(100'000, 'p');
  ServerOnThread server({}, [&](HttpRequest, ServerOnThread::Exchange exchange) {
    const auto left = std::make_shared<int>(100);
    exchange->on_written = [&piece, exchange, left] {
      while (!exchange->is_writing() && *left > 0) {
        exchange->send(piece);
        if (--*left == 0) return exchange->end();
      }
    };
    exchange->begin({});
    exchange->on_written();
  });
  for (int i = 0; i < 2; ++i) {
    TestClient client(server.port());
    EXPECT_EQ(client.ask(get_request("/")).body.size(), 100 * piece.size());
  }
}

TEST(HttpServer, AbortLeavesAnAnswerWithoutItsEnd) {
  ServerOnThread server;
  TestClient client(server.port());
  client.send(get_request("/hold"));
  const auto held = server.hold();
  server.on_server([&] {
    held->begin({.body = "a"});
    held->abort();
    EXPECT_TRUE(held->is_closed());
  });
  const std::string text = client.read_to_end();
  EXPECT_EQ(text.substr(text.find("\r\n\r\n")), "\r\n\r\n1\r\na\r\n");
  EXPECT_EQ(server.num_closed, 0);
}

TEST(HttpServer, DrainEndsIdleConnectionsNowAndOthersBehindTheirAnswers) {
  ServerOnThread server;
  TestClient fresh(server.port()), idle(server.port()), busy(server.port()), streams(server.port()),
      asks(server.port());
  EXPECT_EQ(idle.ask(get_request("/")).status, 200);
  busy.send(get_request("/hold") + get_request("/never"));
  const auto held = server.hold(0);
  streams.send(get_request("/hold"));
  const auto stream = server.hold(1);
  server.on_server([&] { stream->begin({.body = "a"}); });
  asks.ask(get_request("/"));
  asks.send("GET /half");  // is read before the server drains: it was sent before the next is asked
  EXPECT_EQ(idle.ask(get_request("/")).status, 200);
  server.server.drain();
  EXPECT_EQ(fresh.read_to_end(), "");
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(fresh.has_ended() && idle.has_ended());
  EXPECT_FALSE(TestClient().connect(server.port()));
  server.on_server([&] {
    held->reply({.body = "late"});
    stream->send("b");
    stream->end();
  });
  const auto last = busy.read_reply();
  EXPECT_EQ(last.body, "late");
  EXPECT_TRUE(last.has("Connection: close"));
  EXPECT_EQ(busy.read_to_end(), "");
  EXPECT_TRUE(busy.has_ended());
  EXPECT_EQ(streams.read_reply().body, "ab");
  EXPECT_EQ(streams.read_to_end(), "");
  const auto half = asks.ask(" HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(half.body, "GET /half ");
  EXPECT_TRUE(half.has("Connection: close"));
  EXPECT_FALSE(server.has_ended);
}

TEST(HttpServer, StopEndsEverythingAtOnce) {
  ServerOnThread server;
  TestClient idle(server.port()), busy(server.port());
  EXPECT_EQ(idle.ask(get_request("/")).status, 200);
  busy.send(get_request("/hold"));
  const auto held = server.hold();
  server.stop();
  EXPECT_TRUE(server.has_ended);
  EXPECT_EQ(server.num_closed, 1);
  EXPECT_TRUE(held->is_closed());
  EXPECT_EQ(idle.read_to_end() + busy.read_to_end(), "");
}

TEST(HttpServer, StopBeforeRunMakesItReturn) {
  HttpServer server({.port = 0}, nullptr, nullptr);
  server.stop();
  server.run();
}

TEST(HttpServer, AnExchangeMayOutliveItsServer) {
  std::shared_ptr<HttpExchange> held;
  {
    ServerOnThread server;
    TestClient client(server.port());
    client.send(get_request("/hold"));
    held = server.hold();
  }
  EXPECT_TRUE(held->is_closed());
  held->reply({.body = "nobody"});
  EXPECT_FALSE(held->is_writing());
}

TEST(HttpServer, AnExchangeOutlivesAServerWhoseWorkHasThrown) {
  std::shared_ptr<HttpExchange> held;
  std::atomic<bool> is_held{false};
  auto server = std::make_unique<HttpServer>(
      HttpServerOptions{.port = 0},
      [&](HttpRequest, std::shared_ptr<HttpExchange> exchange) {
        held = std::move(exchange);
        is_held = true;
      },
      nullptr);
  std::thread thread([&] { EXPECT_THROW(server->run(), std::runtime_error); });
  TestClient client(server->port());
  client.send(get_request("/"));
  EXPECT_TRUE(comes_true([&] { return is_held.load(); }));
  server->post([] { throw std::runtime_error("a bug"); });
  thread.join();
  server.reset();
  EXPECT_TRUE(held->is_closed());
  held->reply({.body = "nobody"});
}

TEST(HttpServer, AnExchangeForgetsItsFunctionsAtItsEnd) {
  ServerOnThread server;
  const auto token = std::make_shared<int>(0);
  TestClient client(server.port());
  for (const bool in_pieces : {false, true}) {
    client.send(get_request("/hold"));
    std::weak_ptr<HttpExchange> seen;
    {
      const auto held = server.hold(in_pieces);
      seen = held;
      server.on_server([&] {
        held->on_written = [held, token] {};
        held->on_closed = [held, token] {};
        if (!in_pieces) return held->reply({});
        held->begin({});
        held->end();
      });
    }
    EXPECT_EQ(client.read_reply().status, 200);
    server.on_server([&] { server.held.at(in_pieces) = nullptr; });
    EXPECT_TRUE(seen.expired());
    EXPECT_EQ(token.use_count(), 1);
  }
}

TEST(HttpServer, WorkOfOtherThreadsRunsInItsOrder) {
  ServerOnThread server;
  std::vector<int> seen[4];
  std::vector<std::thread> threads;
  for (std::vector<int>& mine : seen)
    threads.emplace_back([&server, &mine] {
      for (int i = 0; i < 1000; ++i) server.server.post([&mine, i] { mine.push_back(i); });
    });
  for (std::thread& thread : threads) thread.join();
  server.on_server([] {});
  for (const std::vector<int>& mine : seen) {
    ASSERT_EQ(mine.size(), 1000u);
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
  }
}

TEST(HttpServer, APortInUseIsNamedWithTheWayOut) {  // H17
  const ServerOnThread server;
  test::expect_error(ExitCode::usage, {fmt::format("127.0.0.1:{}: Address already in use; ", server.port()), "port"},
                     [&] { HttpServer({.port = server.port()}, nullptr, nullptr); });
}

TEST(HttpServer, AnAddressThatIsNotThisMachinesIsNamed) {  // H17
  test::expect_error(ExitCode::usage, {"192.0.2.1:0: Cannot assign requested address; "},
                     [] { HttpServer({.host = "192.0.2.1", .port = 0}, nullptr, nullptr); });
  test::expect_error(ExitCode::usage, {"no-such-host.invalid:0: "},
                     [] { HttpServer({.host = "no-such-host.invalid", .port = 0}, nullptr, nullptr); });
  test::expect_error(ExitCode::usage, {":0: "}, [] { HttpServer({.host = "", .port = 0}, nullptr, nullptr); });
  test::expect_error(ExitCode::internal, {"port 65536"}, [] { HttpServer({.port = 65536}, nullptr, nullptr); });
}

TEST(HttpServer, ListensAtNamesAndAtIPv6) {  // H17
  const auto answer = [](HttpRequest, std::shared_ptr<HttpExchange> exchange) { exchange->reply({.body = "six"}); };
  HttpServer named({.host = "localhost", .port = 0}, answer, nullptr);
  EXPECT_GT(named.port(), 0);
  std::unique_ptr<HttpServer> server;
  try {
    server = std::make_unique<HttpServer>(HttpServerOptions{.host = "[::1]", .port = 0}, answer, nullptr);
  } catch (const Error& error) {
    GTEST_SKIP() << "no IPv6 here: " << error.what();
  }
  EXPECT_EQ(server->address(), fmt::format("[::1]:{}", server->port()));
  std::thread thread([&] { server->run(); });
  TestClient client = TestClient::over_ipv6(server->port());
  EXPECT_EQ(client.ask(get_request("/")).body, "six");
  server->stop();
  thread.join();
}

}  // namespace
}  // namespace paceline
