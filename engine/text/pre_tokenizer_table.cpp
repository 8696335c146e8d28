#include "engine/text/pre_tokenizer_table.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "engine/text/word_scanner.h"
#include "engine/util/json_io.h"
#include "engine/util/suggest.h"
#include "kernels/error.h"

namespace paceline {

namespace {

// Each pattern is that of the models' own tokenizer.json, where a scheme has one.
constexpr std::string_view kLineEnds = R"([\r\n])";
constexpr std::string_view kIdeographs = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

/// Letters with case, as DeepSeek's file lists them.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[)"
    R"(\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF})"
    R"(\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102})"
    R"(\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184})"
    R"(\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr std::string_view kDeepseekMarks =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";

std::vector<NamedPreTokenizer> make_table() {
  const std::string_view gpt2 = kGpt2Words.regex;
  return {
      {.name = "gpt-2", .patterns = {gpt2}},
      {.name = "llama-bpe", .patterns = {kLlama3Words.regex}, .whole_pieces = true, .adds_bos = true},
      {.name = "qwen2", .patterns = {kQwen2Words.regex}, .composes = true},
      {.name = "smollm", .patterns = {kDigitPattern, gpt2}},
      {.name = "starcoder", .patterns = {kDigitPattern, gpt2}},
      {.name = "refact", .patterns = {kDigitPattern, gpt2}},
      {.name = "falcon", .patterns = {R"([\p{P}$+<=>^~|`]+)", gpt2, "[0-9][0-9][0-9]"}},
      {.name = "mpt", .patterns = {gpt2}, .composes = true},
      {.name = "deepseek-llm",
       .patterns = {kLineEnds, kDeepseekLetters, kDeepseekMarks, R"(\s+$)", kIdeographs, R"(\p{N}+)"}},
      {.name = "deepseek-coder", .patterns = {kLineEnds, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kIdeographs, kDigitPattern}},
      {.name = "command-r", .patterns = {kDigitPattern, gpt2}, .composes = true},
      {.name = "stablelm2", .patterns = {kQwen2Words.regex}, .composes = true},
      {.name = "gpt-4o", .patterns = {kGpt4oWords.regex}},
      {.name = "tekken", .patterns = {kTekkenWords.regex}, .whole_pieces = true},
  };
}

std::vector<std::string> names_nearest_first(std::string_view word) {
  std::vector<std::string> names;
  for (const NamedPreTokenizer& row : pre_tokenizer_table()) names.emplace_back(row.name);
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
  return names;
}

}  // namespace

const std::vector<NamedPreTokenizer>& pre_tokenizer_table() {
  static const std::vector<NamedPreTokenizer> table = make_table();
  return table;
}

const NamedPreTokenizer& named_pre_tokenizer(std::string_view name, const std::string& where) {
  for (const NamedPreTokenizer& row : pre_tokenizer_table()) {
    if (row.name == name) return row;
  }
  fail(ExitCode::model_file, "{}: unknown pre-tokenizer {}, expected one of {}", where, json_literal(name),
       fmt::join(names_nearest_first(name), ", "));
}

std::string pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const NamedPreTokenizer& row : pre_tokenizer_table()) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view pre_tokenizer_of_family(std::string_view model_type) {
  constexpr std::pair<std::string_view, std::string_view> kFamilies[] = {
      {"gpt2", "gpt-2"},
      {"gpt_neo", "gpt-2"},
      {"gptj", "gpt-2"},
      {"codegen", "gpt-2"},
      {"opt", "gpt-2"},
      {"phi", "gpt-2"},
      {"gpt_neox", "mpt"},
      {"mpt", "mpt"},
      {"gpt_bigcode", "starcoder"},
      {"starcoder2", "starcoder"},
      {"falcon", "falcon"},
      {"qwen2", "qwen2"},
      {"qwen3", "qwen2"},
      {"stablelm", "stablelm2"},
      {"cohere", "command-r"},
  };
  for (const auto& [family, name] : kFamilies) {
    if (family == model_type) return name;
  }
  return {};
}

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const NamedPreTokenizer& row) {
  std::vector<std::unique_ptr<const PreTokenizer>> stages;
  for (const std::string_view pattern : row.patterns)
    stages.push_back(split_at_matches(pattern, fmt::format("pre-tokenizer \"{}\"", row.name)));
  return in_sequence(std::move(stages));
}

}  // namespace paceline
