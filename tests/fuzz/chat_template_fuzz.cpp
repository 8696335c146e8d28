// Chat templates: text that a model's author wrote and we run.

#include <nlohmann/json.hpp>

#include "engine/tokenizer/chat_template.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  static const nlohmann::ordered_json messages = nlohmann::ordered_json::array(
      {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "Hello <b>"}}});
  fuzz::expect_answer([&] {
    const ChatTemplate chat = ChatTemplate::parse(std::string(fuzz::text_of(data, size)), "fuzz",
                                                  {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    chat.render(messages);
  });
  return 0;
}
