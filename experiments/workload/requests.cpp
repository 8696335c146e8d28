#include "experiments/workload/requests.h"

#include <optional>

#include "engine/text/chat_template.h"
#include "kernels/error.h"

namespace paceline {

std::vector<EncodedPrompt> encode_prompts(const std::vector<Prompt>& prompts, const Tokenizer& tokenizer,
                                          const std::filesystem::path& model_dir, ChatFormat format,
                                          int max_model_len) {
  std::optional<ChatTemplate> chat;
  std::vector<EncodedPrompt> encoded;
  for (const Prompt& prompt : prompts) {
    EncodedPrompt out{.id = prompt.id,
                      .category = prompt.category,
                      .dataset_index = prompt.index,
                      .tokens = {},
                      .max_tokens = prompt.max_tokens};
    if (prompt.is_chat() && format == ChatFormat::template_of_model) {
      if (!chat) chat = ChatTemplate::load(model_dir);
      nlohmann::ordered_json messages = nlohmann::ordered_json::array();
      for (const PromptMessage& message : prompt.messages)
        messages.push_back({{"role", message.role}, {"content", message.content}});
      out.tokens = tokenizer.encode(chat->render(messages, {.add_generation_prompt = true}), {.parse_special = true});
    } else {
      std::string text = prompt.text;
      for (const PromptMessage& message : prompt.messages) text += (text.empty() ? "" : "\n") + message.content;
      out.tokens = tokenizer.encode(text);
    }
    if (int(out.tokens.size()) >= max_model_len) {
      fail(
          ExitCode::usage,
          "workload: prompt \"{}\" has {} tokens, max_model_len {} leaves room for {}; shorten it, leave out long ones "
          "(workload.max_prompt_chars) or raise "
          "engine.scheduler.max_model_len",
          prompt.id, out.tokens.size(), max_model_len, max_model_len - 1);
    }
    encoded.push_back(std::move(out));
  }
  return encoded;
}

}  // namespace paceline
