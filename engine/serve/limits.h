#pragma once
// Every limit of the server. `runexp serve --print-limits` prints this table, and each row is tested at the limit, one
// below it and one above.

#include <array>
#include <cstdint>

namespace paceline {

struct ServeLimits {
  // A request as bytes.
  int64_t max_body_bytes = int64_t{8} << 20;  // after de-chunking
  int64_t max_uri_bytes = int64_t{8} << 10;
  int64_t max_header_bytes = int64_t{16} << 10;  // request line, fields and the line that ends them; a chunk's line
  int64_t max_header_fields = 100;
  int64_t max_held_bytes = int64_t{64} << 20;  // bodies of all requests that have not been answered
  // Connections.
  int64_t max_connections = 256;
  int64_t header_timeout_s = 10;  // from a request's first byte to the end of its header
  int64_t body_timeout_s = 30;
  int64_t idle_timeout_s = 60;                    // between requests; of a client that reads nothing of its answer
  int64_t max_unread_bytes = int64_t{256} << 10;  // of an answer in pieces, sent and not read by the client
  int64_t drain_timeout_s = 30;                   // from SIGTERM until open requests are ended
  // What a request asks for.
  int64_t max_json_depth = 64;
  int64_t max_choices = 16;       // n
  int64_t max_stop_strings = 16;  // stop
  int64_t max_stop_bytes = 256;   // of one of them
  int64_t max_logprobs = 20;      // logprobs, top_logprobs
  int64_t max_logit_bias = 1024;  // entries
  int64_t max_bad_words = 128;    // each of at most max_stop_bytes
  // The form of an answer: response_format, structured_outputs.
  int64_t max_grammar_source_bytes = int64_t{256} << 10;  // as the request has it
  int64_t max_grammar_bytes = int64_t{16} << 20;          // of one, compiled
  int64_t max_grammar_ms = 100;                           // of compiling one
  int64_t max_grammars = 32;                              // that are kept for requests to come
  int64_t max_kept_grammar_bytes = int64_t{256} << 20;    // of those, with the masks that they have made
  int64_t max_live_grammar_bytes = int64_t{1} << 30;      // of those and of all that open requests have
  // Sequences (prompts x n) of all requests that have not ended.
  int64_t max_queue = 1024;
};

struct LimitRow {
  const char* name;
  int64_t ServeLimits::*value;
  const char* unit;
  const char* beyond;  // what the client sees
};

inline constexpr std::array kLimitRows = {
    LimitRow{"max_body_bytes", &ServeLimits::max_body_bytes, "bytes", "413, connection closed"},
    LimitRow{"max_uri_bytes", &ServeLimits::max_uri_bytes, "bytes", "414, connection closed"},
    LimitRow{"max_header_bytes", &ServeLimits::max_header_bytes, "bytes", "431, connection closed"},
    LimitRow{"max_header_fields", &ServeLimits::max_header_fields, "", "431, connection closed"},
    LimitRow{"max_held_bytes", &ServeLimits::max_held_bytes, "bytes", "503, Retry-After, connection closed"},
    LimitRow{"max_connections", &ServeLimits::max_connections, "", "503, Retry-After, connection closed"},
    LimitRow{"header_timeout_s", &ServeLimits::header_timeout_s, "s", "408, connection closed"},
    LimitRow{"body_timeout_s", &ServeLimits::body_timeout_s, "s", "408, connection closed"},
    LimitRow{"idle_timeout_s", &ServeLimits::idle_timeout_s, "s", "connection closed"},
    LimitRow{"max_unread_bytes", &ServeLimits::max_unread_bytes, "bytes", "request cancelled, connection closed"},
    LimitRow{"drain_timeout_s", &ServeLimits::drain_timeout_s, "s", "an error event, connection closed"},
    LimitRow{"max_json_depth", &ServeLimits::max_json_depth, "", "400"},
    LimitRow{"max_choices", &ServeLimits::max_choices, "", "400, param n"},
    LimitRow{"max_stop_strings", &ServeLimits::max_stop_strings, "", "400, param stop"},
    LimitRow{"max_stop_bytes", &ServeLimits::max_stop_bytes, "bytes", "400, param stop"},
    LimitRow{"max_logprobs", &ServeLimits::max_logprobs, "", "400, param logprobs"},
    LimitRow{"max_logit_bias", &ServeLimits::max_logit_bias, "", "400, param logit_bias"},
    LimitRow{"max_bad_words", &ServeLimits::max_bad_words, "", "400, param bad_words"},
    LimitRow{"max_grammar_source_bytes", &ServeLimits::max_grammar_source_bytes, "bytes",
             "400, param the field that has it"},
    LimitRow{"max_grammar_bytes", &ServeLimits::max_grammar_bytes, "bytes", "400, param the field that has it"},
    LimitRow{"max_grammar_ms", &ServeLimits::max_grammar_ms, "ms", "400, param the field that has it"},
    LimitRow{"max_grammars", &ServeLimits::max_grammars, "", "the one used longest ago is compiled again"},
    LimitRow{"max_kept_grammar_bytes", &ServeLimits::max_kept_grammar_bytes, "bytes",
             "those used longest ago are compiled again"},
    LimitRow{"max_live_grammar_bytes", &ServeLimits::max_live_grammar_bytes, "bytes",
             "503, Retry-After, when a new one is compiled"},
    LimitRow{"max_queue", &ServeLimits::max_queue, "sequences",
             "503, Retry-After; 400 where one request asks for more"},
};

}  // namespace paceline
