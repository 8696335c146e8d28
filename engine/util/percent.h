#pragma once
// Bytes as URLs and their fragments write them.

#include <string>
#include <string_view>

namespace paceline {

/// "%20" is a blank; a '%' without two digits behind it stays.
std::string percent_decoded(std::string_view text);

}  // namespace paceline
