#pragma once
// Compression for what a page carries within itself.

#include <string>
#include <string_view>

namespace paceline {

/// `bytes` as a gzip file (RFC 1952); the same for the same bytes, as it holds no time.
std::string gzip(std::string_view bytes);

}  // namespace paceline
