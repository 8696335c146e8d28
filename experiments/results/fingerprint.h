#pragma once
// Fingerprints of the files that decide a run's numbers: whether a run goes on with what it began with.

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline {

/// Of a file: its length and 64 bits of FNV-1a over its bytes, as "<length>-<16 hex digits>"; of files beyond 8 MiB
/// over the first and last MiB and 96 pieces of 64 KiB at equal distances between, so that big checkpoints take
/// milliseconds. It tells versions of a file apart; it is no safeguard against forgery. Throws Error(model_file).
std::string file_fingerprint(const std::filesystem::path& file);

/// path -> fingerprint of `paths`; of a folder, of the files directly in it. What is not there is left out: those who
/// read it say so better.
nlohmann::json fingerprints(const std::vector<std::filesystem::path>& paths);

/// What differs between two of these, one line each: "configs/models/a/config.json: changed". Empty: nothing.
std::vector<std::string> fingerprint_differences(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace paceline
