#pragma once
// Does a checkpoint compute what Hugging Face computed? Compares it with the golden.json beside it (beside a .gguf
// file, keyed by its name without ".gguf").

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

struct VerifyModelOptions {
  std::filesystem::path model_dir;  // or a .gguf file
  std::filesystem::path golden;     // empty: golden.json in the folder, else in its parent (keyed by the folder's name)
  int tp = 1;
  int pp = 1;
  int threads_per_rank = 1;
  std::string dtype = "float32";          // as engine.target.dtype; goldens were computed in float32
  std::optional<double> max_logit_error;  // else 1e-4 in float32, and 2^-6 of the largest logit in 16-bit types
};

struct VerifiedCase {
  int num_prompt = 0;
  double max_logit_difference = 0;  // over all logits, or over the top 5 where only these are recorded
  int num_tokens = 0;               // greedy tokens compared
  int first_difference = -1;        // index of the first greedy token that differs; -1: none
  double gap_there = 0;             // our top-2 gap at that token
};

struct VerifyModelReport {
  std::string golden;
  std::vector<VerifiedCase> cases;
  bool passed = false;
  std::string summary;  // a line per case and the verdict
};

/// A greedy difference is an error unless the top-2 gap there lies within the largest logit difference seen.
/// Throws Error(model_file) when there is no golden, or it does not belong to this checkpoint.
VerifyModelReport verify_model(const VerifyModelOptions& options);

}  // namespace paceline
