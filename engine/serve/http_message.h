#pragma once
// An HTTP/1.1 request and its answer, as values.

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct HttpField {
  std::string name, value;  // value without blanks around it
};

/// A request that was read whole.
struct HttpRequest {
  std::string method;             // "POST", as sent
  std::string target;             // "/v1/models?verbose=1", as sent
  std::vector<HttpField> fields;  // in their order, but for those of one name, which are together
  std::string body;               // de-chunked
  int version_minor = 1;          // HTTP/1.0 or HTTP/1.1
  bool keep_alive = true;         // what version and Connection say

  /// Of the first field of that name, whatever its case; null: there is none.
  const std::string* field(std::string_view name) const;
  /// The target up to '?'.
  std::string_view path() const;
  /// Behind the '?', without it; empty where there is none.
  std::string_view query() const;
};

/// An answer that is sent whole.
struct HttpReply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<HttpField> fields = {};  // besides Content-Type, Content-Length, Connection and Date
  bool close = false;                  // end the connection behind it
};

/// "Not Found" for 404; "Unknown" for a status that is not in the table.
std::string_view http_reason(int status);

/// Names of fields, and some values, have no case.
bool same_http_name(std::string_view a, std::string_view b);

/// The value of the first field of that name, whatever its case; null: there is none.
const std::string* find_http_field(const std::vector<HttpField>& fields, std::string_view name);

/// A letter of a method or of a field's name; one or more of them.
bool is_http_token_char(char c);
bool is_http_token(std::string_view text);

/// Without spaces and tabs at both ends.
std::string_view without_blanks(std::string_view text);

/// Whether the host, an address or a name as the user wrote it, is this machine alone: localhost, 127.0.0.0/8, ::1.
bool is_loopback(const std::string& host);

/// "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale.
std::string http_date(std::time_t time);

/// How a client finds the end of an answer.
enum class HttpFraming { length, chunked, until_close };
/// What the answer says of the connection; nothing: it stays as HTTP/1.1 has it.
enum class HttpPersistence { unsaid, keep_alive, close };

/// Status line and fields of `reply` with the empty line behind them. Fields cannot be smuggled in: control characters
/// of values are dropped, and so is a field whose name is no token.
std::string http_head(const HttpReply& reply, HttpFraming framing, HttpPersistence persistence, std::string_view date);

}  // namespace paceline
