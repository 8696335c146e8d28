// What surrounds the text of prompts: a model's chat template, or what its tokenizer puts around plain text.

#include <sstream>

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "experiments/run/engine_load.h"
#include "experiments/workload/requests.h"
#include "kernels/error.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::TempDir;
using test::write_file;
using Ids = std::vector<int32_t>;

/// Letters and a line end, with <s> before a text.
constexpr const char* kTokenizer = R"({
  "added_tokens": [{"id": 4, "content": "<s>", "special": true, "normalized": false}],
  "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": null,
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "Ċ": 3}, "merges": []}})";

/// What is logged while it lives.
class LoggedText {
 public:
  LoggedText() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(out_)));
  }
  ~LoggedText() { spdlog::set_default_logger(before_); }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
  std::shared_ptr<spdlog::logger> before_;
};

std::vector<Prompt> chats_and_plain() {
  return {{.id = "chat", .category = {}, .messages = {{"system", "a"}, {"user", "b"}}, .text = {}, .max_tokens = {}},
          {.id = "plain", .category = {}, .messages = {}, .text = "c", .max_tokens = {}},
          {.id = "chat2", .category = {}, .messages = {{"user", "c"}}, .text = {}, .max_tokens = {}}};
}

TEST(PromptEncoding, WithoutAChatTemplateMessagesArePlainTextAndAWarningSaysSoOnce) {
  const TempDir dir;
  write_file(dir / "tokenizer.json", kTokenizer);
  const auto tokenizer = Tokenizer::load(dir.path());
  const LoggedText log;
  const auto encoded = encode_prompts(chats_and_plain(), *tokenizer, dir.path(), ChatFormat::template_of_model);
  EXPECT_EQ(encoded[0].tokens, (Ids{4, 0, 3, 1})) << "the contents, joined by a line end";
  EXPECT_EQ(encoded[1].tokens, (Ids{4, 2})) << "plain prompts get the tokenizer's own beginning, too";
  EXPECT_EQ(encoded[2].tokens, (Ids{4, 2}));
  const std::string text = log.text();
  const size_t said = text.find("no chat template: messages are plain text");
  EXPECT_NE(said, std::string::npos) << text;
  EXPECT_EQ(text.find("no chat template", said + 1), std::string::npos) << text;
}

TEST(PromptEncoding, ATemplateSaysItsOwnBeginning) {
  const TempDir dir;
  write_file(dir / "tokenizer.json", kTokenizer);
  write_file(dir / "chat_template.jinja", "<s>{{ messages[-1].content }}");
  const auto tokenizer = Tokenizer::load(dir.path());
  const LoggedText log;
  const auto encoded = encode_prompts(chats_and_plain(), *tokenizer, dir.path(), ChatFormat::template_of_model);
  EXPECT_EQ(encoded[0].tokens, (Ids{4, 1}));
  EXPECT_EQ(encoded[1].tokens, (Ids{4, 2}));
  EXPECT_EQ(encode_prompts(chats_and_plain(), *tokenizer, dir.path(), ChatFormat::raw_text)[0].tokens,
            (Ids{4, 0, 3, 1}));
  EXPECT_EQ(log.text(), "");
}

TEST(PromptEncoding, EngineTargetPreNamesHowTextIsCut) {
  const TempDir dir;
  write_file(dir / "tokenizer.model", "MQ== 0\nMTE= 1\n");  // "1", "11"
  TargetConfig target;
  target.directory = dir.path();
  test::expect_error(ExitCode::model_file, {"nothing says how text is cut"}, [&] { load_tokenizer(target); });
  target.pre = "gpt-2";
  EXPECT_EQ(load_tokenizer(target)->encode("11"), Ids{1});
  target.pre = "qwen2";
  EXPECT_EQ(load_tokenizer(target)->encode("11"), (Ids{0, 0}));
  ExperimentConfig gpt2, qwen2;
  gpt2.engine.target.pre = "gpt-2";
  qwen2.engine.target.pre = "qwen2";
  EXPECT_NE(prompt_encoding(gpt2), prompt_encoding(qwen2)) << "prompts are encoded for each";
}

}  // namespace
}  // namespace paceline
