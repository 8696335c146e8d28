#include "tests/engine/text/text_test_support.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/text/byte_level.h"
#include "engine/text/utf8.h"

namespace paceline::test {

void limit_further_memory(size_t bytes) {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limits{limit, limit};
  if (setrlimit(RLIMIT_AS, &limits) != 0) std::abort();
}

std::string random_text(uint64_t seed) {
  static const std::string kPieces[] = {"the ",       "The",
                                        " a",         "don't",
                                        "'S",         "  ",
                                        "\n",         "\r\n",
                                        "\t",         "123",
                                        "12345",      "½",
                                        "Ⅷ",          "漢字",
                                        "한국어",     "e\u0301",
                                        "\U0001F642", "\U0001F469\u200D\U0001F467",
                                        "<|end|>",    "<|user|>",
                                        "\u00a0",     "\u180e",
                                        "\ufffd",     ".",
                                        "...",        "_",
                                        "-",          std::string(1, '\0'),
                                        "ß",          "\u2028",
                                        "Ġ"};
  uint64_t state = seed * 2654435761u + 1;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  std::string text;
  for (uint64_t i = random(40); i > 0; --i) {
    if (random(4) != 0) {
      text += kPieces[random(std::size(kPieces))];
      continue;
    }
    auto code = static_cast<char32_t>(random(0x110000));
    if (code >= 0xD800 && code <= 0xDFFF) code = 'x';
    utf8_append(text, code);
  }
  return text;
}

void check_vectors(const Tokenizer& tokenizer, const std::string& name) {
  const auto folder = shared_dir() / "tokenizers/vectors";
  std::string texts = read_file(folder / (name + ".inp"));
  std::istringstream lines(read_file(folder / (name + ".out")));
  const std::string separator = "\n__ggml_vocab_test__\n";
  int num_vectors = 0;
  for (size_t pos = 0; pos <= texts.size();) {
    const size_t end = std::min(texts.find(separator, pos), texts.size());
    const std::string text = texts.substr(pos, end - pos);
    pos = end + separator.size();
    std::string line;
    if (!std::getline(lines, line)) break;
    std::istringstream numbers(line);
    std::vector<int32_t> expected;
    for (int32_t id = 0; numbers >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer.encode(text), expected) << name << ": " << text;
    EXPECT_EQ(tokenizer.decode(expected), text);
    ++num_vectors;
  }
  EXPECT_GE(num_vectors, 46);
}

std::string mixed_text(size_t num_bytes) {
  std::string text = read_file(source_dir() / "configs/workloads/reading_qa.jsonl") +
                     read_file(source_dir() / "configs/workloads/code_prompts.jsonl") +
                     read_file(source_dir() / "docs/architecture.md");
  const std::string scripts =
      "Быстрая лиса прыгает через ленивую собаку. Η γρήγορη αλεπού πηδά πάνω από το τεμπέλικο σκυλί. "
      "敏捷的棕色狐狸跳过了懒狗。吾輩は猫である。名前はまだ無い。 다람쥐 헌 쳇바퀴에 타고파 "
      "الثعلب البني السريع يقفز فوق الكلب الكسول. तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर से कूद गई। "
      "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich 😀👩‍👧🇩🇪.\n\n\t  if (x >= "
      "0x1F "
      "&& "
      "y "
      "!= "
      "3.14159) "
      "{\r\n"
      "        return a[i]->b + \"don't\" + 'WE'LL' + 1234567;\n    }\n";
  for (uint64_t seed = 0; text.size() < num_bytes; ++seed) {
    const size_t begin = seed * 7919 % (text.size() / 2);
    text += scripts + random_text(seed);
    text += utf8_repair(text.substr(begin, 20'000));
  }
  return utf8_repair(text.substr(0, num_bytes));
}

nlohmann::json small_tokenizer_json() {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_level_encode(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  vocab["Ġa"] = 258;
  const auto added = [](int id, const char* content, bool special) {
    return nlohmann::json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                          {"rstrip", false}, {"normalized", false}, {"special", special}};
  };
  return {{"version", "1.0"},
          {"added_tokens", {added(259, "<|end|>", true), added(260, "<|bos|>", true), added(261, "<plain>", false)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<|bos|>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}}}}}},
            {"special_tokens", {{"<|bos|>", {{"id", "<|bos|>"}, {"ids", {260}}, {"tokens", {"<|bos|>"}}}}}}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", {"a b", {"ab", "c"}, {"Ġ", "a"}}}}}};
}

}  // namespace paceline::test
