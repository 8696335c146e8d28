#pragma once
// A source of tensors as a Hugging Face folder that other engines read.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/weights/tensor_source.h"

namespace paceline {

struct SaveOptions {
  nlohmann::json config;                          // config.json
  std::string card;                               // README.md
  std::vector<std::filesystem::path> copies;      // files to take along, by their own names
  std::map<std::string, std::string> texts = {};  // files to write: name, content
  uint64_t max_shard_bytes = uint64_t{5} << 30;   // of tensors in one file; a larger tensor has a file of its own
  uint64_t max_part_bytes = uint64_t{64} << 20;   // of a tensor in memory
  std::function<void()> before_part = {};         // called before each of these; what it throws ends the writing
};

/// Throws Error(usage) where save_checkpoint() could not make `out`: it exists, or its parent does not.
void check_new_folder(const std::filesystem::path& out);

/// Writes config.json, README.md, the copies and texts and model.safetensors, or shards and their index where one file
/// would be too large. Everything goes to a temporary folder beside `out`, is synced and then renamed: `out` is whole
/// or absent. Throws Error(usage) when `out` exists; Error(store) when the file system has too little room (said before
/// anything is written, with both numbers) or refuses a write; what `source` and before_part throw. The temporary
/// folder is then gone; a killed process leaves one behind, with "partial" at the end of its name.
void save_checkpoint(const TensorSource& source, const std::filesystem::path& out, const SaveOptions& options);

}  // namespace paceline
