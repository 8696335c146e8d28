#pragma once
// The whole server over a fake engine, and what its requests must say.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/serve/openai_server.h"
#include "http_client.h"
#include "small_tokenizer.h"
#include "tests/engine/core/fake_rig.h"

namespace paceline::test {

using Json = nlohmann::ordered_json;

inline FakeRigOptions with_drafts(int draft_len = 3) {
  FakeRigOptions options;
  options.model.num_blocks = 64;
  options.draft_len = draft_len;
  options.rule = VerifyRule::coupled;  // requests sample as they like
  options.proposer = FakeProposer::Options{};
  return options;
}

struct ServedRig {
  explicit ServedRig(const FakeRigOptions& options, OpenAiServerOptions served = {}) : alone(options) {
    served.http.port = 0;
    served.version = "1.2.3";
    ServedModel model{.names = {"fake"}, .tokenizer = small_tokenizer(), .chat_template = std::nullopt};
    server = std::make_unique<OpenAiServer>(served, model, [options] {
      auto rig = std::make_shared<FakeRig>(options);
      return std::shared_ptr<Engine>(rig, rig->engine.get());
    });
    port = std::stoi(server->address().substr(server->address().rfind(':') + 1));
  }

  TestClient client() const { return TestClient(port); }

  static std::string request(const std::string& method, const std::string& path, const std::string& body = "",
                             const std::string& fields = "") {
    return fmt::format(
        "{} {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n{}", method,
        path, fields, body.size(), body);
  }
  TestClient::Reply ask(const std::string& method, const std::string& path, const std::string& body = "",
                        const std::string& fields = "") const {
    return client().ask(request(method, path, body, fields));
  }
  static std::string completion(const std::vector<int32_t>& prompt, int max_tokens, const std::string& more = "") {
    return request("POST", "/v1/completions",
                   fmt::format(R"({{"prompt": [{}], "max_tokens": {}, "temperature": 0, "ignore_eos": true,
                               "return_token_ids": true{}}})",
                               fmt::join(prompt, ","), max_tokens, more));
  }
  std::vector<int32_t> expected(const std::vector<int32_t>& prompt, int max_tokens) const {
    return alone.expected_text(prompt, greedy_params(max_tokens));
  }
  std::string metric(const std::string& name) const {
    const std::string text = ask("GET", "/metrics").body;
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? ""
                                   : text.substr(at + name.size() + 2, text.find('\n', at + 1) - at - name.size() - 2);
  }

  FakeRig alone;
  std::unique_ptr<OpenAiServer> server;
  int port = 0;
};

/// All token ids of a streamed answer; its last data.
struct Streamed {
  std::vector<int32_t> ids;
  std::vector<Json> events;
  std::string last;
};
inline Streamed streamed(const std::string& body) {
  Streamed read;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    read.last = body.substr(at + 6, end - at - 6);
    at = end + 2;
    if (read.last == "[DONE]") continue;
    read.events.push_back(Json::parse(read.last));
    for (const Json& choice : read.events.back().value("choices", Json::array()))
      for (const int32_t id : choice["token_ids"]) read.ids.push_back(id);
  }
  return read;
}

}  // namespace paceline::test
