#include "engine/serve/http_message.h"

#include <algorithm>
#include <array>
#include <utility>

namespace paceline {
namespace {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

constexpr std::array<std::pair<int, std::string_view>, 20> kReasons = {{{100, "Continue"},
                                                                        {200, "OK"},
                                                                        {400, "Bad Request"},
                                                                        {401, "Unauthorized"},
                                                                        {403, "Forbidden"},
                                                                        {404, "Not Found"},
                                                                        {405, "Method Not Allowed"},
                                                                        {408, "Request Timeout"},
                                                                        {411, "Length Required"},
                                                                        {413, "Content Too Large"},
                                                                        {414, "URI Too Long"},
                                                                        {415, "Unsupported Media Type"},
                                                                        {417, "Expectation Failed"},
                                                                        {421, "Misdirected Request"},
                                                                        {429, "Too Many Requests"},
                                                                        {431, "Request Header Fields Too Large"},
                                                                        {500, "Internal Server Error"},
                                                                        {501, "Not Implemented"},
                                                                        {503, "Service Unavailable"},
                                                                        {505, "HTTP Version Not Supported"}}};

}  // namespace

const std::string* HttpRequest::field(std::string_view name) const {
  for (const HttpField& field : fields)
    if (same_name(field.name, name)) return &field.value;
  return nullptr;
}

std::string_view HttpRequest::path() const { return std::string_view(target).substr(0, target.find('?')); }

std::string_view HttpRequest::query() const {
  const size_t mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

std::string_view http_reason(int status) {
  for (const auto& [code, reason] : kReasons)
    if (code == status) return reason;
  return "Unknown";
}

}  // namespace paceline
