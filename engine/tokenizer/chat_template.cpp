#include "engine/tokenizer/chat_template.h"

#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/jinja/eval.h"
#include "engine/text/utf8.h"
#include "engine/tokenizer/gguf_tokenizer.h"
#include "engine/util/json_io.h"
#include "engine/util/user_file.h"
#include "kernels/error.h"

namespace paceline {

namespace {

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

/// Names in tokenizer_config.json that templates know as variables.
constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

nlohmann::json read_config(const std::filesystem::path& path) {
  nlohmann::json config = read_json_file(path, ExitCode::model_file);
  if (!config.is_object())
    fail(ExitCode::model_file, "{}: expected an object, found {}", path.string(), short_dump(config));
  return config;
}

/// A token is a string, or an object with "content".
nlohmann::ordered_json special_tokens_of(const nlohmann::json& config) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
  for (const char* name : kSpecialTokens) {
    const auto found = config.find(name);
    if (found == config.end()) continue;
    const nlohmann::json* text = &*found;
    if (found->is_object() && found->contains("content")) text = &found->at("content");
    if (text->is_string()) tokens[name] = text->get<std::string>();
  }
  return tokens;
}

std::string template_of(const nlohmann::json& config, const std::string& file, std::string_view name) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null())
    fail(ExitCode::model_file, "{}: no \"chat_template\", and no chat_template.jinja beside it", file);
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {
    for (const auto& entry : *found) {
      if (!entry.is_object() || !entry.contains("name") || !entry.contains("template")) continue;
      if (entry["name"].is_string() && entry["template"].is_string() && entry["name"].get<std::string>() == name)
        return entry["template"].get<std::string>();
    }
    fail(ExitCode::model_file, "{}: \"chat_template\" has no entry named {}", file, json_literal(name));
  }
  fail(ExitCode::model_file, "{}: \"chat_template\": expected a string or a list of named templates, found {}", file,
       short_dump(*found));
}

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Template body;
  std::vector<std::pair<std::string, jinja::Value>> special_tokens;
  bool reads_parts = false;
};

namespace {

using OrderedJson = nlohmann::ordered_json;

/// A message whose content is a list of texts: with one text.
OrderedJson joined(OrderedJson message) {
  if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) return message;
  std::vector<std::string> texts;
  for (const OrderedJson& part : message["content"]) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) return message;
    texts.push_back(part["text"]);
  }
  message["content"] = fmt::format("{}", fmt::join(texts, "\n"));
  return message;
}

/// Whether a list of one text is the text to the template.
bool reads_parts(const ChatTemplate& chat) {
  constexpr const char* kText = "What is read?";
  const auto rendered = [&](const OrderedJson& content) -> std::optional<std::string> {
    try {
      return chat.render(OrderedJson::array({{{"role", "user"}, {"content", content}}}), {.now = std::time_t{0}});
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  const auto of_parts = rendered(OrderedJson::array({{{"type", "text"}, {"text", kText}}}));
  return of_parts && of_parts == rendered(kText);
}

}  // namespace

ChatTemplate ChatTemplate::load(const std::filesystem::path& model_dir, std::string_view name) {
  if (is_gguf_path(model_dir)) {
    const GgufFile file(model_dir);
    auto text = gguf_chat_template(file);
    if (!text) fail(ExitCode::model_file, "{}: no tokenizer.chat_template in its metadata", model_dir.string());
    return parse(std::move(*text), model_dir.string(), gguf_special_tokens(file));
  }
  std::error_code error;
  const auto config_path = model_dir / "tokenizer_config.json", jinja_path = model_dir / "chat_template.jinja";
  const bool has_jinja = std::filesystem::exists(jinja_path, error);
  nlohmann::json config = nlohmann::json::object();
  if (!has_jinja || std::filesystem::exists(config_path, error)) config = read_config(config_path);
  if (has_jinja)
    return parse(read_user_file(jinja_path, {.max_bytes = kMaxTemplateBytes}), jinja_path.string(),
                 special_tokens_of(config));
  return parse(template_of(config, config_path.string(), name), config_path.string(), special_tokens_of(config));
}

bool ChatTemplate::exists(const std::filesystem::path& model_dir) {
  if (is_gguf_path(model_dir)) return gguf_chat_template(GgufFile(model_dir)).has_value();
  std::error_code error;
  if (std::filesystem::exists(model_dir / "chat_template.jinja", error)) return true;
  const auto path = model_dir / "tokenizer_config.json";
  if (!std::filesystem::exists(path, error)) return false;
  const nlohmann::json config = read_config(path);
  const auto found = config.find("chat_template");
  return found != config.end() && !found->is_null();
}

ChatTemplate ChatTemplate::parse(std::string text, std::string source_name,
                                 const nlohmann::ordered_json& special_tokens) {
  if (text.size() > kMaxTemplateBytes)
    fail(ExitCode::model_file, "{}: chat template of more than {} bytes", source_name, kMaxTemplateBytes);
  if (!utf8_valid(text)) fail(ExitCode::model_file, "{}: chat template is not UTF-8", source_name);
  auto parsed = std::make_shared<Parsed>();
  parsed->body = jinja::parse({.name = std::move(source_name), .text = std::move(text)});
  if (special_tokens.is_object()) {
    for (const auto& [name, token] : special_tokens.items())
      parsed->special_tokens.emplace_back(name, jinja::from_json(token));
  }
  parsed->reads_parts = true;  // while it is asked
  ChatTemplate result;
  result.parsed_ = parsed;
  parsed->reads_parts = reads_parts(result);
  return result;
}

std::string ChatTemplate::render(const nlohmann::ordered_json& messages, const RenderOptions& options) const {
  const auto value_of = [&](const char* name, const nlohmann::ordered_json& json) {
    if (jinja::json_depth(json, jinja::kMaxDepth) >= jinja::kMaxDepth)
      fail(ExitCode::usage, "{} of a chat nested deeper than {}", name, jinja::kMaxDepth);
    return jinja::from_json(json);
  };
  if (!messages.is_array()) fail(ExitCode::usage, "messages of a chat: expected an array");
  auto variables = parsed_->special_tokens;
  if (parsed_->reads_parts) {
    variables.emplace_back("messages", value_of("messages", messages));
  } else {
    OrderedJson of_texts = OrderedJson::array();
    for (const OrderedJson& message : messages) of_texts.push_back(joined(message));
    variables.emplace_back("messages", value_of("messages", of_texts));
  }
  variables.emplace_back("tools", value_of("tools", options.tools));
  variables.emplace_back("documents", jinja::None{});
  variables.emplace_back("add_generation_prompt", options.add_generation_prompt);
  if (options.variables.is_object()) {
    for (const auto& [name, value] : options.variables.items())
      variables.emplace_back(name, value_of("variables", value));
  }
  return jinja::evaluate(parsed_->body, variables, options.now);
}

}  // namespace paceline
