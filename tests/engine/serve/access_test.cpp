// Who may ask the server: keys, pages of other sites, names that lead to this machine.

#include "engine/serve/access.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

HttpRequest request(std::string method, std::string target, std::vector<HttpField> fields = {}) {
  HttpRequest made{.method = std::move(method), .target = std::move(target), .fields = std::move(fields), .body = ""};
  if (made.method == "POST") made.body = "{}";
  return made;
}

int status(const HttpRequest& request, const AccessRules& rules) {
  const auto refused = check_access(request, rules);
  return refused ? refused->status : 200;
}

TEST(Access, TheKeyGuardsAllButHealth) {
  const AccessRules rules{.api_key = "secret-1", .loopback = false};
  for (const char* path : {"/v1/models", "/metrics", "/version", "/nothing", "/"}) {
    EXPECT_EQ(status(request("GET", path), rules), 401) << path;
    EXPECT_EQ(status(request("GET", path, {{"Authorization", "Bearer secret-1"}}), rules), 200) << path;
  }
  EXPECT_EQ(status(request("GET", "/health"), rules), 200);
  for (const char* given : {"Bearer ", "Bearer secret-", "Bearer secret-2", "Bearer secret-12",
                            "Bearer secret-1secret-1", "secret-1", "Basic secret-1", "bearer  secret-1"})
    EXPECT_EQ(status(request("GET", "/metrics", {{"Authorization", given}}), rules), 401) << given;
  EXPECT_EQ(status(request("GET", "/metrics", {{"authorization", "bearer secret-1"}}), rules), 200);
}

TEST(Access, OnLoopbackTheHostIsThisMachine) {
  for (const char* host : {"localhost", "localhost:8000", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000", "LOCALHOST:1"})
    EXPECT_EQ(status(request("GET", "/v1/models", {{"Host", host}}), {}), 200) << host;
  for (const char* host :
       {"evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::2]:8000"})
    EXPECT_EQ(status(request("GET", "/v1/models", {{"Host", host}}), {}), 421) << host;
  EXPECT_EQ(status(request("GET", "/v1/models", {{"Host", "gpu7.example"}}), {.api_key = "", .loopback = false}), 200);
}

TEST(Access, APageOfAnotherSiteIsRefused) {
  const auto from = [](std::vector<HttpField> fields) {
    fields.push_back({"Host", "localhost:8000"});
    fields.push_back({"Content-Type", "application/json"});
    return status(request("POST", "/reset_prefix_cache", std::move(fields)), {});
  };
  EXPECT_EQ(from({}), 200);
  EXPECT_EQ(from({{"Origin", "http://localhost:8000"}, {"Sec-Fetch-Site", "same-origin"}}), 200);
  for (const char* origin : {"http://evil.example", "null", "https://localhost:8000", "http://localhost:8001", ""})
    EXPECT_EQ(from({{"Origin", origin}}), 403) << origin;
  EXPECT_EQ(from({{"Sec-Fetch-Site", "cross-site"}}), 403);
}

TEST(Access, ABodyIsJson) {
  for (const char* type : {"application/json", "application/json; charset=utf-8", "Application/JSON ;x"})
    EXPECT_EQ(status(request("POST", "/tokenize", {{"Content-Type", type}}), {}), 200) << type;
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"})
    EXPECT_EQ(status(request("POST", "/tokenize", {{"Content-Type", type}}), {}), 415) << type;
  EXPECT_EQ(status(request("POST", "/tokenize"), {}), 415);
  const auto packed = [](const char* coding) {
    return status(request("POST", "/tokenize", {{"Content-Type", "application/json"}, {"Content-Encoding", coding}}),
                  {});
  };
  EXPECT_EQ(packed("gzip"), 415);
  EXPECT_EQ(packed("Identity"), 200);
}

TEST(Access, LoopbackAddresses) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1", "Localhost"}) EXPECT_TRUE(is_loopback(host));
  for (const char* host : {"0.0.0.0", "::", "192.168.0.1", "127.example", "10.0.0.1", "", "1127.0.0.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace paceline
