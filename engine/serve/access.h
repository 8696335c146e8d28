#pragma once
// Who may ask the server. The threats: anybody on the network where it does not listen on loopback alone, and a web
// page in a browser on this machine, which can send requests to loopback addresses.

#include <optional>
#include <string>

#include "engine/serve/api_error.h"
#include "engine/serve/http_message.h"

namespace paceline {

struct AccessRules {
  std::string api_key;   // empty: none is asked for
  bool loopback = true;  // it listens on loopback alone: Host must name this machine (DNS rebinding)
};

/// Nothing: the request may pass. Refused:
/// - 401: all but /health without the key (Authorization: Bearer KEY), which is compared in a time that depends on
///   nothing that the client can learn;
/// - 403: a request of another site's page (Origin is not this server's, or Sec-Fetch-Site says so);
/// - 421: a Host that is not this machine, on loopback;
/// - 415: a POST whose body is not application/json: what a page may send without asking first; or is compressed.
std::optional<ApiError> check_access(const HttpRequest& request, const AccessRules& rules);

}  // namespace paceline
