#include "engine/tokenizer/chat_template.h"

#include <algorithm>
#include <ctime>
#include <mutex>
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

/// What a template makes of messages that can be written in two ways. Found by rendering a few.
struct MessageForms {
  bool system_parts = false, user_parts = false, assistant_parts = false;  // reads content that is a list of texts
  bool argument_texts = false;  // takes arguments of tool calls as text alone

  bool reads_parts(std::string_view role) const {
    return role == "user" ? user_parts : role == "assistant" ? assistant_parts : role == "system" && system_parts;
  }
};

struct ChatTemplate::Parsed {
  jinja::Template body;
  std::vector<std::pair<std::string, jinja::Value>> special_tokens;
  // asked when messages that have two forms come first
  mutable std::once_flag is_asked;
  mutable MessageForms forms = {};

  std::string evaluate(const nlohmann::ordered_json& messages, const RenderOptions& options) const {
    const auto value_of = [&](const char* name, const nlohmann::ordered_json& json) {
      if (jinja::json_depth(json, jinja::kMaxDepth) >= jinja::kMaxDepth)
        fail(ExitCode::usage, "{} of a chat nested deeper than {}", name, jinja::kMaxDepth);
      return jinja::from_json(json);
    };
    auto variables = special_tokens;
    variables.emplace_back("messages", value_of("messages", messages));
    variables.emplace_back("tools", value_of("tools", options.tools));
    variables.emplace_back("documents", jinja::None{});
    variables.emplace_back("add_generation_prompt", options.add_generation_prompt);
    if (options.variables.is_object()) {
      for (const auto& [name, value] : options.variables.items())
        variables.emplace_back(name, value_of("variables", value));
    }
    return jinja::evaluate(body, variables, options.now);
  }
};

namespace {

using Json = nlohmann::ordered_json;

/// Of a list of texts; any other content stays.
void join_parts(Json& content) {
  std::vector<std::string> texts;
  for (const Json& part : content) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) return;
    texts.push_back(part["text"]);
  }
  content = fmt::format("{}", fmt::join(texts, "\n"));
}

/// Arguments that a client sent as text become the object that it holds; what a model once wrote may hold none.
void read_arguments(Json& calls) {
  for (Json& call : calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    const std::string text = function["arguments"];
    try {
      Json arguments = parse_ordered_json(text, "arguments", ExitCode::usage,
                                          {.max_bytes = text.size(), .max_depth = jinja::kMaxDepth / 2});
      if (arguments.is_object()) function["arguments"] = std::move(arguments);
    } catch (const Error&) {
    }
  }
}

bool has_two_forms(const Json& message) {
  if (!message.is_object()) return false;
  const auto content = message.find("content");
  return message.contains("tool_calls") || (content != message.end() && content->is_array());
}

Json written_for(const MessageForms& forms, const Json& messages) {
  Json written = messages;
  for (Json& message : written) {
    if (!has_two_forms(message)) continue;
    const std::string role = message.contains("role") && message["role"].is_string() ? message["role"] : Json("");
    if (const auto content = message.find("content");
        content != message.end() && content->is_array() && !forms.reads_parts(role))
      join_parts(*content);
    if (const auto calls = message.find("tool_calls");
        calls != message.end() && calls->is_array() && !forms.argument_texts)
      read_arguments(*calls);
  }
  return written;
}

/// rendered(messages): as they are; nothing where the template does not take them.
template <class Rendered>
MessageForms forms_of(const Rendered& rendered) {
  const Json user = {{"role", "user"}, {"content", "Hello"}};
  const auto reads_parts = [&](Json before, const char* role) {
    const Json parts = Json::array({{{"type", "text"}, {"text", "First?"}}, {{"type", "text"}, {"text", "Second!"}}});
    before.push_back({{"role", role}, {"content", parts}});
    if (std::string_view(role) == "system") before.push_back(user);
    const std::optional<std::string> text = rendered(before);
    const auto holds = [&](const char* words) { return text->find(words) != std::string::npos; };
    return text && holds("First?") && holds("Second!") && !holds("'type'") && !holds("\"type\"");
  };
  const auto takes = [&](const Json& content, const Json& arguments) {
    const Json function = {{"name", "look"}, {"arguments", arguments}};
    const Json call = {{"id", "abcdefghi"}, {"type", "function"}, {"function", function}};
    return rendered(
               Json::array({user, {{"role", "assistant"}, {"content", content}, {"tool_calls", Json::array({call})}}}))
        .has_value();
  };
  MessageForms forms{.system_parts = reads_parts(Json::array(), "system"),
                     .user_parts = reads_parts(Json::array(), "user"),
                     .assistant_parts = reads_parts(Json::array({user}), "assistant")};
  for (const Json& content : {Json(nullptr), Json("")})
    forms.argument_texts |= !takes(content, {{"city", "Rome"}}) && takes(content, R"({"city": "Rome"})");
  return forms;
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
  ChatTemplate result;
  result.parsed_ = std::move(parsed);
  return result;
}

std::string ChatTemplate::render(const nlohmann::ordered_json& messages, const RenderOptions& options) const {
  if (!messages.is_array()) fail(ExitCode::usage, "messages of a chat: expected an array");
  if (std::none_of(messages.begin(), messages.end(), has_two_forms)) return parsed_->evaluate(messages, options);
  std::call_once(parsed_->is_asked, [&] {
    parsed_->forms = forms_of([&](const Json& few) -> std::optional<std::string> {
      try {
        return parsed_->evaluate(few, {.now = std::time_t{0}});
      } catch (const Error&) {
        return std::nullopt;
      }
    });
  });
  return parsed_->evaluate(written_for(parsed_->forms, messages), options);
}

}  // namespace paceline
