#pragma once
// One small request to a server, waited for: its health, its models, its counters.

#include <optional>
#include <string>
#include <string_view>

#include "experiments/client/openai_client.h"
#include "experiments/config/server_url.h"

namespace paceline {

struct HttpCallResult {
  std::optional<RequestFailure> failure;  // no answer: the rest is empty
  int status = 0;
  std::string body, server;  // server: the field of that name

  bool is_ok() const { return !failure && status >= 200 && status < 300; }
};

/// Blocks up to timeout_s. `path` is "/health", behind url.base; a POST brings an empty object; api_key: empty for
/// none. Never throws for a server that does not answer.
HttpCallResult http_call(const ServerUrl& url, std::string_view method, std::string_view path, double timeout_s,
                         std::string_view api_key = {});

/// "answered 404 Not Found", or the failure.
std::string result_text(const HttpCallResult& result);

}  // namespace paceline
