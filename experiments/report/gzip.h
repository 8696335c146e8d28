#pragma once
// Compression for what a page carries within itself. No library: one block of fixed codes makes a quarter of a JSON
// file, and a better coder would gain a few kilobytes.

#include <string>
#include <string_view>

namespace paceline {

/// `bytes` as a gzip file (RFC 1952) that every program reads; the same for the same bytes, as it holds no time.
std::string gzip(std::string_view bytes);

}  // namespace paceline
