#pragma once
// Chat templates: messages -> prompt text, by the Jinja template that comes with a model.

#include <array>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace paceline {

/// Roles of messages.
inline constexpr std::array<std::string_view, 5> kChatRoles = {"system", "developer", "user", "assistant", "tool"};

struct RenderOptions {
  /// Ask for the start of the assistant's turn at the end.
  bool add_generation_prompt = true;
  /// Seen by the template as `tools` (null: absent, as with Hugging Face).
  nlohmann::ordered_json tools = nullptr;
  /// More variables, an object (or null).
  nlohmann::ordered_json variables = nullptr;
  /// What strftime_now tells instead of the clock; local time zone.
  std::optional<std::time_t> now;
};

/// A parsed template and the special tokens that it may name. Immutable, any thread may render.
/// The language is a subset of Jinja2 as Hugging Face sets it up (but `safe` marks nothing, and `+` escapes nothing),
/// without access to anything but the given variables: calls, filters and tests come from an allow-list, and a
/// rendering takes at most 1,000,000 steps, 1 MiB of output and depth 64.
class ChatTemplate {
 public:
  /// Looks into a .gguf file's metadata (tokenizer.chat_template), or a model's folder: chat_template.jinja, else
  /// "chat_template" of tokenizer_config.json (a string, or a list of {name, template}, of which `name` is taken).
  /// Special tokens (bos_token, eos_token, …) come from tokenizer_config.json. Throws Error(model_file) for a file that
  /// is broken, a template outside the subset (with line and column) or no template at all.
  static ChatTemplate load(const std::filesystem::path& model_dir, std::string_view name = "default");

  /// From text; `source_name` is named in messages. `special_tokens`: an object from variable to text.
  static ChatTemplate parse(std::string text, std::string source_name,
                            const nlohmann::ordered_json& special_tokens = nullptr);

  /// True when load() would find a template.
  static bool exists(const std::filesystem::path& model_dir);

  /// `messages`: an array of objects with role and content: a text, or a list of {"type": "text", "text": …}, which a
  /// template that reads lists of that role gets as it is and another one as the texts, a line each. Arguments of
  /// tool_calls that are the text of an object become the object, unless the template takes texts alone. Throws
  /// Error(model_file) for whatever the template does wrong, limits included, and Error(usage) when it refuses the
  /// messages (raise_exception).
  std::string render(const nlohmann::ordered_json& messages, const RenderOptions& options = {}) const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace paceline
