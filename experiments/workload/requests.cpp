#include "experiments/workload/requests.h"

#include <algorithm>
#include <optional>

#include <spdlog/spdlog.h>

#include "engine/tokenizer/chat_template.h"
#include "engine/util/counted.h"
#include "kernels/error.h"

namespace paceline {

WorkloadPrompts read_workload(const WorkloadConfig& workload) {
  Dataset set = read_dataset(workload.file, {.format = workload.format,
                                             .bad_records = workload.skip_bad ? BadRecords::skip : BadRecords::refuse});
  WorkloadPrompts out;
  const auto num_read = int64_t(set.prompts.size());
  const std::vector<Prompt> prompts =
      filter_prompts(std::move(set.prompts), workload.categories, workload.max_prompt_chars);
  out.facts = {.format = std::string(name_of(set.format)),
               .prompts = int64_t(prompts.size()),
               .filtered = num_read - int64_t(prompts.size()),
               .bad_records = set.num_bad,
               .first_bad = set.first_bad};
  out.requests = select_prompts(prompts, workload.requests, uint64_t(workload.order_seed));
  return out;
}

ChatFormat chat_format(const WorkloadConfig& workload) {
  return workload.chat_template ? ChatFormat::template_of_model : ChatFormat::raw_text;
}

PromptEncoding prompt_encoding(const ExperimentConfig& cell) {
  return {cell.engine.target.directory, cell.engine.target.pre, chat_format(cell.workload)};
}

namespace {

/// The template that chat prompts go through; nullopt, and a warning, where the model has none.
std::optional<ChatTemplate> find_template(const std::vector<Prompt>& prompts, const std::filesystem::path& model_dir,
                                          ChatFormat format) {
  const bool has_chats = std::any_of(prompts.begin(), prompts.end(), [](const Prompt& one) { return one.is_chat(); });
  if (!has_chats || format == ChatFormat::raw_text) return std::nullopt;
  if (ChatTemplate::exists(model_dir)) return ChatTemplate::load(model_dir);
  spdlog::warn("{}: no chat template: messages are plain text", model_dir.string());
  return std::nullopt;
}

}  // namespace

std::vector<EncodedPrompt> encode_prompts(const std::vector<Prompt>& prompts, const Tokenizer& tokenizer,
                                          const std::filesystem::path& model_dir, ChatFormat format) {
  const std::optional<ChatTemplate> chat = find_template(prompts, model_dir, format);
  std::vector<EncodedPrompt> encoded;
  for (const Prompt& prompt : prompts) {
    EncodedPrompt out{.id = prompt.id,
                      .category = prompt.category,
                      .dataset_index = prompt.index,
                      .tokens = {},
                      .max_tokens = prompt.max_tokens};
    if (prompt.is_chat() && chat) {
      nlohmann::ordered_json messages = nlohmann::ordered_json::array();
      for (const PromptMessage& message : prompt.messages)
        messages.push_back({{"role", message.role}, {"content", message.content}});
      out.tokens = tokenizer.encode(chat->render(messages, {.add_generation_prompt = true}), {.parse_special = true});
    } else {
      out.tokens = tokenizer.encode(prompt.plain_text(), {.parse_special = true, .add_special = true});
    }
    encoded.push_back(std::move(out));
  }
  return encoded;
}

void check_prompts_fit(std::span<const EncodedPrompt> prompts, const LengthLimit& limit) {
  for (const EncodedPrompt& prompt : prompts) {
    if (int(prompt.tokens.size()) < limit.max_model_len) continue;
    fail(ExitCode::usage,
         "workload: prompt \"{}\" has {} tokens, max_model_len {} leaves room for {}; shorten it{}{}{}", prompt.id,
         prompt.tokens.size(), limit.max_model_len, limit.max_model_len - 1,
         prompts.size() > 1 ? ", leave out long ones (workload.max_prompt_chars)" : "", limit.fix.empty() ? "" : " or ",
         limit.fix);
  }
}

int wanted_output(std::optional<int> of_prompt, int max_tokens) {
  return std::min(max_tokens, of_prompt.value_or(max_tokens));
}

int longest_output(const EncodedPrompt& prompt, int max_tokens, const LengthLimit& limit) {
  return std::min(wanted_output(prompt.max_tokens, max_tokens), limit.max_model_len - int(prompt.tokens.size()));
}

std::string cut_outputs_text(std::span<const EncodedPrompt> prompts, int max_tokens, const LengthLimit& limit) {
  int num_cut = 0, shortest = max_tokens;
  for (const EncodedPrompt& prompt : prompts) {
    const int longest = longest_output(prompt, max_tokens, limit);
    if (longest == wanted_output(prompt.max_tokens, max_tokens)) continue;
    ++num_cut;
    shortest = std::min(shortest, longest);
  }
  if (num_cut == 0) return "";
  return fmt::format(
      "outputs end at max_model_len {}: it leaves {} of {} less than sampling.max_tokens {}, one of them {}; set "
      "sampling.max_tokens to at most {}{}{}",
      limit.max_model_len, num_cut, counted(int64_t(prompts.size()), "request"), max_tokens, shortest, shortest,
      limit.fix.empty() ? "" : ", or ", limit.fix);
}

bool surely_fit(const std::vector<Prompt>& prompts, int max_tokens, int max_model_len) {
  return std::all_of(prompts.begin(), prompts.end(), [&](const Prompt& prompt) {
    size_t bytes = prompt.text.size() + kMostTokensAround + (prompt.is_chat() ? kMostTemplateTokens : 0);
    for (const PromptMessage& message : prompt.messages) bytes += message.content.size() + kMostTokensAMessage;
    return bytes + size_t(wanted_output(prompt.max_tokens, max_tokens)) <= size_t(max_model_len);
  });
}

}  // namespace paceline
