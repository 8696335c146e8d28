#include "experiments/run/measure/sample_texts.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "engine/util/utf8_chars.h"

namespace paceline {
namespace {

std::string prompt_text(const Prompt& prompt) {
  std::string text = prompt.text;
  for (const PromptMessage& message : prompt.messages)
    text += fmt::format("{}[{}] {}", text.empty() ? "" : "\n", message.role, message.content);
  if (text.size() <= kMaxSamplePromptBytes) return text;
  return text.substr(0, utf8_begin(text, kMaxSamplePromptBytes)) + " …";
}

SampleTexts with_prompts(const std::string& model, std::span<const Prompt> prompts) {
  std::vector<const Prompt*> order;
  for (const Prompt& prompt : prompts) order.push_back(&prompt);
  std::sort(order.begin(), order.end(),
            [](const Prompt* a, const Prompt* b) { return std::tie(a->index, a->id) < std::tie(b->index, b->id); });
  order.resize(std::min(order.size(), kMaxSamplePrompts));
  SampleTexts texts{.model = model};
  for (const Prompt* prompt : order)
    texts.prompts.push_back({.dataset_index = prompt->index, .id = prompt->id, .text = prompt_text(*prompt)});
  return texts;
}

}  // namespace

void keep_sample_texts(const CellResult& cell, std::span<const Prompt> prompts, const Tokenizer& tokenizer,
                       std::vector<SampleTexts>& all) {
  if (cell.repetitions.empty()) return;
  auto texts = std::find_if(all.begin(), all.end(), [&](const SampleTexts& t) { return t.model == cell.model; });
  if (texts == all.end()) texts = all.insert(all.end(), with_prompts(cell.model, prompts));
  for (const RequestRecord& request : cell.repetitions.front().requests) {
    if (std::none_of(texts->prompts.begin(), texts->prompts.end(),
                     [&](const SampleTexts::Prompt& p) { return p.id == request.id; }))
      continue;
    for (int32_t token : request.output) {
      const auto at = std::lower_bound(texts->tokens.begin(), texts->tokens.end(), token,
                                       [](const SampleTexts::Token& t, int32_t id) { return t.id < id; });
      if (at != texts->tokens.end() && at->id == token) continue;
      texts->tokens.insert(at, {.id = token, .bytes = std::string(tokenizer.token_bytes(token))});
    }
  }
}

}  // namespace paceline
