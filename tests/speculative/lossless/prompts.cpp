#include "tests/speculative/lossless/prompts.h"

#include <fstream>
#include <random>

#include <nlohmann/json.hpp>

#include "engine/tokenizer/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/error.h"
#include "tests/support/paths.h"

namespace paceline::test {

std::vector<std::vector<int32_t>> workload_prompts(const std::string& name, int limit) {
  const std::filesystem::path model = builtin_model("target-7m");
  const auto tokenizer = Tokenizer::load(model);
  const ChatTemplate chat = ChatTemplate::load(model);
  const auto file = source_dir() / "configs" / "workloads" / (name + ".jsonl");
  std::ifstream in(file);
  PACELINE_CHECK(in.good(), "{} cannot be read", file.string());
  std::vector<std::vector<int32_t>> prompts;
  std::string line;
  while (int(prompts.size()) < limit && std::getline(in, line)) {
    const auto record = nlohmann::ordered_json::parse(line);
    if (!record.contains("messages")) continue;  // the header
    prompts.push_back(tokenizer->encode(chat.render(record["messages"]), {.parse_special = true}));
  }
  return prompts;
}

std::vector<std::vector<int32_t>> random_prompts(int limit, int max_len, int vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < limit; ++i) {
    const size_t len = 1 + random() % uint64_t(max_len);
    const size_t period = i % 3 == 2 ? 5 : len;
    std::vector<int32_t> prompt;
    while (prompt.size() < len) {
      prompt.push_back(prompt.size() < period ? int32_t(random() % uint64_t(vocab_size))
                                              : prompt[prompt.size() - period]);
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace paceline::test
