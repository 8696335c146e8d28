#pragma once
// The JSON header of a safetensors file: parsing and its rules, apart from the file itself.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/weights/safetensors.h"

namespace paceline {

/// Parses `header` and checks every tensor on its own and all together: they must cover [0, data_bytes) in order,
/// without holes or overlaps. Offsets come back relative to the data. Streams: memory is that of the result.
/// `first_byte` is the header's offset in the file, for messages. Throws Error(model_file).
std::vector<TensorInfo> parse_safetensors_header(std::string_view header, const std::string& source,
                                                 uint64_t data_bytes, uint64_t first_byte);

}  // namespace paceline
