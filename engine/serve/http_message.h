#pragma once
// An HTTP/1.1 request and its answer, as values.

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
  std::vector<HttpField> fields;  // in their order
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
  std::vector<HttpField> fields = {};  // besides Content-Type, Content-Length and Connection
  bool close = false;                  // end the connection behind it
};

/// "Not Found" for 404; "Unknown" for a status that is not in the table.
std::string_view http_reason(int status);

}  // namespace paceline
