#include "experiments/config/server_url.h"

#include <algorithm>
#include <charconv>

#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {
namespace {

constexpr std::string_view kHttp = "http://", kHttps = "https://", kApi = "/v1";

template <class... Args>
[[noreturn]] void refuse_url(std::string_view text, fmt::format_string<Args...> why, Args&&... args) {
  fail(ExitCode::usage, "found {}: {}; expected \"http://host:port\"", json_literal(text),
       fmt::format(why, std::forward<Args>(args)...));
}

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}
bool is_address_character(char c) { return is_host_character(c) || c == ':' || c == '%'; }

}  // namespace

std::string ServerUrl::authority() const {
  return host.find(':') != std::string::npos ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string ServerUrl::text() const { return fmt::format("{}{}{}", kHttp, authority(), base); }

ServerUrl parse_server_url(std::string_view text) {
  if (text.starts_with(kHttps))
    refuse_url(text, "https is not spoken here: measure from the server's host, or behind a proxy that ends TLS");
  if (!text.starts_with(kHttp)) refuse_url(text, "no http:// in front");
  std::string_view rest = text.substr(kHttp.size());
  const bool is_plain = std::all_of(rest.begin(), rest.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (!is_plain) refuse_url(text, "a blank, a control character or one beyond ASCII");
  if (rest.find_first_of("?#") != std::string_view::npos) refuse_url(text, "a query or a fragment");
  if (rest.find('@') != std::string_view::npos)
    refuse_url(text, "user and password: name a variable with the key in server.api_key_env");

  ServerUrl url;
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view place = rest.substr(0, slash);
  std::string_view base = rest.substr(slash);
  while (base.ends_with('/')) base.remove_suffix(1);
  if (base.ends_with(kApi)) base.remove_suffix(kApi.size());
  while (base.ends_with('/')) base.remove_suffix(1);
  url.base = base;

  std::string_view port;
  bool has_port = false;
  if (place.starts_with('[')) {
    const size_t close = place.find(']');
    if (close == std::string_view::npos) refuse_url(text, "a '[' without its ']'");
    url.host = place.substr(1, close - 1);
    port = place.substr(close + 1);
    has_port = port.starts_with(':');
    if (!port.empty() && !has_port) refuse_url(text, "something between the address and its port");
    if (!std::all_of(url.host.begin(), url.host.end(), is_address_character)) refuse_url(text, "no IPv6 address");
  } else {
    const size_t colon = std::min(place.find(':'), place.size());
    url.host = place.substr(0, colon);
    port = place.substr(colon);
    has_port = !port.empty();
    if (!std::all_of(url.host.begin(), url.host.end(), is_host_character))
      refuse_url(text, "the host has a character that no host has");
  }
  if (url.host.empty()) refuse_url(text, "no host");
  if (!has_port) return url;
  port.remove_prefix(1);
  const auto read = std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (read.ec != std::errc() || read.ptr != port.data() + port.size() || url.port < 1 || url.port > 65535)
    refuse_url(text, "the port is {}, not 1 to 65535", json_literal(port));
  return url;
}

}  // namespace paceline
