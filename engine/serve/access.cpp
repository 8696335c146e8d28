#include "engine/serve/access.h"

#include <string_view>

namespace paceline {
namespace {

/// "localhost:8000" and "[::1]:8000" without the port.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

/// Looks at each byte of the key, whatever `given` is.
bool same_key(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < key.size(); ++i)
    difference |= unsigned(static_cast<unsigned char>(key[i])) ^
                  unsigned(static_cast<unsigned char>(given.empty() ? '\0' : given[i % given.size()]));
  return difference == 0;
}

bool has_key(const HttpRequest& request, const std::string& key) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string* const given = request.field("Authorization");
  if (!given || !same_http_name(std::string_view(*given).substr(0, kScheme.size()), kScheme)) return false;
  return same_key(std::string_view(*given).substr(kScheme.size()), key);
}

bool comes_from_another_site(const HttpRequest& request) {
  if (const std::string* const site = request.field("Sec-Fetch-Site"))
    if (*site == "cross-site" || *site == "same-site") return true;
  const std::string* const origin = request.field("Origin");
  if (!origin) return false;
  const std::string* const host = request.field("Host");
  return !host || !same_http_name(*origin, "http://" + *host);
}

bool is_json(const HttpRequest& request) {
  const std::string* const type = request.field("Content-Type");
  if (!type) return false;
  std::string_view media = std::string_view(*type).substr(0, type->find(';'));
  while (media.ends_with(' ') || media.ends_with('\t')) media.remove_suffix(1);
  return same_http_name(media, "application/json");
}

}  // namespace

std::optional<ApiError> check_access(const HttpRequest& request, const AccessRules& rules) {
  if (rules.loopback) {
    const std::string* const host = request.field("Host");
    if (host && !is_loopback(std::string(without_port(*host))))
      return ApiError{.status = 421, .message = "Host: expected localhost or a loopback address"};
  }
  if (comes_from_another_site(request))
    return ApiError{.status = 403, .message = "Origin: pages of other sites may not use this server"};
  if (!rules.api_key.empty() && request.path() != "/health" && !has_key(request, rules.api_key))
    return ApiError{.status = 401,
                    .message = "Authorization: expected \"Bearer KEY\" with this server's key",
                    .code = "invalid_api_key"};
  if (request.method == "POST" && !request.body.empty() && !is_json(request))
    return ApiError{.status = 415, .message = "Content-Type: expected application/json"};
  if (const std::string* const coding = request.field("Content-Encoding");
      coding && !same_http_name(*coding, "identity"))
    return ApiError{.status = 415, .message = "Content-Encoding: this server unpacks nothing; send the text as it is"};
  return std::nullopt;
}

}  // namespace paceline
