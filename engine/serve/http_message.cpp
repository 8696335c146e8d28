#include "engine/serve/http_message.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace paceline {
namespace {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

constexpr std::array<std::pair<int, std::string_view>, 21> kReasons = {{{100, "Continue"},
                                                                        {200, "OK"},
                                                                        {204, "No Content"},
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

void add_field(std::string& head, std::string_view name, std::string_view value) {
  if (!is_http_token(name)) return;
  head.append(name).append(": ");
  for (const char c : value)
    if (static_cast<unsigned char>(c) >= ' ' && c != '\x7f') head += c;
  head.append("\r\n");
}

}  // namespace

const std::string* HttpRequest::field(std::string_view name) const { return find_http_field(fields, name); }

const std::string* find_http_field(const std::vector<HttpField>& fields, std::string_view name) {
  for (const HttpField& field : fields)
    if (same_http_name(field.name, name)) return &field.value;
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

bool same_http_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

bool is_http_token_char(char c) {
  if ((c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z')) return true;
  return c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_http_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_http_token_char); }

std::string_view without_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_loopback(const std::string& host) {
  const bool is_number = !host.empty() && host.find_first_not_of("0123456789.") == std::string::npos;
  return same_http_name(host, "localhost") || host == "::1" || host == "[::1]" ||
         (is_number && host.starts_with("127."));
}

std::string http_date(std::time_t time) {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm at = {};
  gmtime_r(&time, &at);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[size_t(at.tm_wday)], at.tm_mday,
                     kMonths[size_t(at.tm_mon)], at.tm_year + 1900, at.tm_hour, at.tm_min, at.tm_sec);
}

std::string http_head(const HttpReply& reply, HttpFraming framing, HttpPersistence persistence, std::string_view date) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", reply.status, http_reason(reply.status));
  if (reply.status != 204) {  // which has no content, so neither its type nor its length
    add_field(head, "Content-Type", reply.content_type);
    if (framing == HttpFraming::length) add_field(head, "Content-Length", fmt::to_string(reply.body.size()));
  }
  if (framing == HttpFraming::chunked) add_field(head, "Transfer-Encoding", "chunked");
  add_field(head, "Date", date);
  for (const HttpField& field : reply.fields) add_field(head, field.name, field.value);
  if (persistence == HttpPersistence::keep_alive) add_field(head, "Connection", "keep-alive");
  if (persistence == HttpPersistence::close) add_field(head, "Connection", "close");
  return head.append("\r\n");
}

}  // namespace paceline
