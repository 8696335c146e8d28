#pragma once
// Checkpoints of any family as GGUF files.

#include <filesystem>

#include <nlohmann/json.hpp>

#include "tests/support/gguf_writer.h"

namespace paceline::test {

/// A checkpoint's folder as llama.cpp's converter writes it: metadata without tokenizer, from the ModelSpec alone;
/// values in float32, laid out by the family's table. REQUIRES a family with GGUF files.
GgufWriter family_gguf(const std::filesystem::path& folder);

}  // namespace paceline::test
