#pragma once
// Prompts as the engine takes them: rendered through the chat template and encoded, once per run.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"
#include "experiments/workload/dataset.h"

namespace paceline {

struct EncodedPrompt {
  std::string id;
  std::string category;
  int64_t dataset_index = 0;
  std::vector<int32_t> tokens;
  std::optional<int> max_tokens;  // Prompt::max_tokens
};

enum class ChatFormat : uint8_t { template_of_model, raw_text };

/// Chat prompts go through the chat template of `model_dir` (raw_text: their contents joined by newlines); their
/// special tokens are parsed, those of plain text prompts are not. Throws Error(model_file) where the model has no
/// chat template, and Error(usage) naming the prompt when one is longer than max_model_len - 1 tokens.
std::vector<EncodedPrompt> encode_prompts(const std::vector<Prompt>& prompts, const Tokenizer& tokenizer,
                                          const std::filesystem::path& model_dir, ChatFormat format, int max_model_len);

}  // namespace paceline
