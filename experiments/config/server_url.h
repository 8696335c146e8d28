#pragma once
// The address of a server that speaks OpenAI's HTTP API: "http://host:port/base", read strictly.

#include <string>
#include <string_view>

namespace paceline {

struct ServerUrl {
  std::string host;  // a name or an address; an IPv6 address without its brackets
  int port = 80;
  std::string base;  // before "/v1/…": "" or "/path", without a slash at the end

  /// "127.0.0.1:8000", "[::1]:8000": for the Host field and for messages.
  std::string authority() const;
  /// "http://127.0.0.1:8000/base"
  std::string text() const;
};

/// A "/v1" at the end, which many programs want there, is dropped. Throws Error(usage), one line: https (there is no
/// TLS here), another scheme or none, user and password, a query or a fragment, no host, a port out of 1 to 65535,
/// blanks and control characters.
ServerUrl parse_server_url(std::string_view text);

}  // namespace paceline
