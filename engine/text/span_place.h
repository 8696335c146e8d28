#pragma once
// Where a span of text stands, for blanks that are put before some spans and not before others.

#include <cstdint>
#include <string_view>

namespace paceline {

/// What stands before a span: nothing, a special token, another added token. A rule holds up to one of them.
enum class SpanPlace : uint8_t { text_start, after_special, after_added };

/// U+2581, a blank as SentencePiece spells it.
inline constexpr std::string_view kMetaspace = "\u2581";

}  // namespace paceline
