#pragma once
// What a client is told where a request cannot be answered: OpenAI's error object.

#include <string>

namespace paceline {

/// Thrown while a request is read and checked. `message` is one line: what was found, what was expected; no paths, no
/// pointers.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};  // the field at fault, "messages[0].role"; empty: none
  std::string code = {};   // "context_length_exceeded"; empty: none
};

/// {"error": {message, type, param, code}}; type: "invalid_request_error" below 500, else "server_error".
std::string error_json(const ApiError& error);

}  // namespace paceline
