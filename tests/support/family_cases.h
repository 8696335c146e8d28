#pragma once
// Small models of each family, as config.json's, and checkpoints for them.

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline::test {

struct FamilyCase {
  std::string name;
  nlohmann::json config;
};

void PrintTo(const FamilyCase& each, std::ostream* out);

/// At least one of each architecture that GGUF files can have, with 2 KV heads or one.
std::vector<FamilyCase> family_cases();
/// One of each architecture, in the order of families().
std::vector<FamilyCase> one_case_a_family();

/// A small config.json with Llama's keys; `changes` over them.
nlohmann::json llama_keys(const char* architecture, const nlohmann::json& changes);

/// config.json and a model.safetensors that it asks for, in float32. Element i of the t-th tensor is t + i / 4096.
void write_numbered_model(const std::filesystem::path& folder, const nlohmann::json& config);
/// The same with normal random values, norms about 1.
void write_random_model(const std::filesystem::path& folder, const nlohmann::json& config);

}  // namespace paceline::test
