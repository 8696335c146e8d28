// Requests of HTTP: whatever arrives, its requests and refusals do not depend on how it was parted, and what is held
// stays within the limits. The input's first byte chooses the parts, the others arrive.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "engine/serve/http_reader.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace paceline;
using State = HttpRequestReader::State;

/// Small, so that inputs reach them.
ServeLimits small_limits() {
  ServeLimits limits;
  limits.max_body_bytes = 600;
  limits.max_uri_bytes = 40;
  limits.max_header_bytes = 300;
  limits.max_header_fields = 6;
  return limits;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const HttpRequest& request, const ServeLimits& limits) {
  require(int64_t(request.body.size()) <= limits.max_body_bytes);
  require(int64_t(request.target.size()) <= limits.max_uri_bytes && request.target.front() == '/');
  require(int64_t(request.fields.size()) <= limits.max_header_fields);
  require(request.version_minor == 0 || request.field("Host") != nullptr);
  require(request.field("Content-Length") == nullptr || request.field("Transfer-Encoding") == nullptr);
  for (const HttpField& field : request.fields)
    require((field.name + field.value).find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
}

/// All that is read, as text. Parts are of 1 to `longest` bytes.
std::string read(std::string_view bytes, size_t longest, uint32_t seed) {
  const ServeLimits limits = small_limits();
  HttpRequestReader reader(limits);
  std::string says;
  while (!bytes.empty() && reader.state() != State::refused) {
    seed = seed * 1664525 + 1013904223;
    const std::string part(bytes.substr(0, 1 + (seed >> 8) % longest));  // its own memory: reading beyond it shows
    const size_t used = reader.feed(part);
    require(used <= part.size() && (used == part.size() || reader.state() >= State::complete));
    require(int64_t(reader.held_bytes()) <= limits.max_body_bytes);
    bytes.remove_prefix(used);
    if (reader.state() != State::complete) continue;
    const HttpRequest request = reader.take();
    check(request, limits);
    says += fmt::format("{} {} {} {}", request.method, request.target, request.version_minor, request.keep_alive);
    for (const HttpField& field : request.fields) says += fmt::format("[{}|{}]", field.name, field.value);
    says += fmt::format("{}:{};", request.body.size(), request.body);
  }
  if (reader.state() == State::refused)
    return says + fmt::format("{} {}", reader.refusal().status, reader.refusal().message);
  return says + fmt::format("{} {}", int(reader.state()), reader.wants_continue());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = fuzz::text_of(data + 1, std::min<size_t>(size - 1, 4096));
  const std::string at_once = read(bytes, 1 << 20, 0);
  require(read(bytes, 1, 0) == at_once);
  require(read(bytes, 3, data[0]) == at_once);
  require(read(bytes, 60, data[0]) == at_once);
  return 0;
}
