#pragma once
// The requests of a run, from the workload section of its configuration, and as the engine takes them: rendered through
// the chat template and encoded, once per run.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "experiments/config/config.h"
#include "experiments/workload/dataset.h"
#include "experiments/workload/workload_facts.h"

namespace paceline {

struct WorkloadPrompts {
  std::vector<Prompt> requests;  // workload.requests of them, in the order in which they are sent
  WorkloadFacts facts;
};

/// Reads, filters, orders and repeats the data set. Throws Error(model_file).
WorkloadPrompts read_workload(const WorkloadConfig& workload);

struct EncodedPrompt {
  std::string id;
  std::string category;
  int64_t dataset_index = 0;
  std::vector<int32_t> tokens;
  std::optional<int> max_tokens;  // Prompt::max_tokens
};

enum class ChatFormat : uint8_t { template_of_model, raw_text };

/// As workload.chat_template asks.
ChatFormat chat_format(const WorkloadConfig& workload);

/// What the ids of a cell's prompts depend on.
struct PromptEncoding {
  std::filesystem::path model;
  std::optional<std::string> pre;  // engine.target.pre
  ChatFormat format = ChatFormat::template_of_model;
  auto operator<=>(const PromptEncoding&) const = default;
};
PromptEncoding prompt_encoding(const ExperimentConfig& cell);

/// Chat prompts go through the chat template of `model_dir`; their special tokens are parsed. Without a template, which
/// a warning says, and with raw_text they are plain text, their contents joined by newlines. Special tokens in plain
/// text are not parsed, and it gets what the tokenizer puts around a text (bos).
std::vector<EncodedPrompt> encode_prompts(const std::vector<Prompt>& prompts, const Tokenizer& tokenizer,
                                          const std::filesystem::path& model_dir, ChatFormat format);

/// How long a sequence, prompt and output together, may be.
struct LengthLimit {
  int max_model_len = 0;
  std::string fix;  // what raises it: "raise engine.scheduler.max_model_len"; empty: nothing does
};

/// Throws Error(usage) that names the first prompt which leaves no room for a token of output.
void check_prompts_fit(std::span<const EncodedPrompt> prompts, const LengthLimit& limit);

/// Tokens of output that a request asks for: its own limit (Prompt::max_tokens) counts where it is below max_tokens
/// (sampling.max_tokens).
int wanted_output(std::optional<int> of_prompt, int max_tokens);

/// Tokens of output that the request can have: what it asks for, or what its prompt leaves of max_model_len. REQUIRES a
/// prompt that fits.
int longest_output(const EncodedPrompt& prompt, int max_tokens, const LengthLimit& limit);

/// "outputs end at max_model_len 1024: …" with the fix, where longest_output() of a request is less than it asks for;
/// else empty.
std::string cut_outputs_text(std::span<const EncodedPrompt> prompts, int max_tokens, const LengthLimit& limit);

/// Whether every request surely has room for its prompt and all of its output: a token is a byte at least, a tokenizer
/// puts kMostTokensAround at most around a text, and a chat template adds kMostTemplateTokens at most, and
/// kMostTokensAMessage to each. False leaves it open: encode them.
bool surely_fit(const std::vector<Prompt>& prompts, int max_tokens, int max_model_len);
inline constexpr int kMostTokensAround = 4, kMostTemplateTokens = 256, kMostTokensAMessage = 16;

}  // namespace paceline
