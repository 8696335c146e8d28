#pragma once
// Checkpoints of any family as GGUF files.

#include <filesystem>

#include <nlohmann/json.hpp>

#include "tests/support/gguf_writer.h"

namespace paceline::test {

/// config.json and a model.safetensors that it asks for, in float32. Element i of the t-th tensor is t + i / 4096.
void write_numbered_model(const std::filesystem::path& folder, const nlohmann::json& config);

/// A checkpoint's folder as llama.cpp's converter writes it: metadata without tokenizer, from the ModelSpec alone;
/// values in float32, laid out by the family's table. REQUIRES a family with GGUF files.
GgufWriter family_gguf(const std::filesystem::path& folder);

}  // namespace paceline::test
