// Reader of tiktoken's .model (OpenAI's tiktoken, load.py): lines of a token's bytes in base64, a blank, its rank.
// Ranks are ids, and say what joins: of two neighbours whose concatenation is a token, that of the lowest rank first.

#include <array>
#include <charconv>

#include "engine/text/byte_level.h"
#include "engine/tokenizer/tokenizer_parts.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

/// The bytes that `text` stands for (RFC 4648, section 4, with its padding); nullopt: it is none.
std::optional<std::string> base64_decode(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static constexpr auto kValues = [=] {
    std::array<int8_t, 256> values{};
    values.fill(-1);
    for (size_t i = 0; i < kDigits.size(); ++i) values[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
    return values;
  }();
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const size_t num_padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(num_padding);
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const int value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xFFFF;
    num_bits += 6;
    if (num_bits >= 8) bytes += static_cast<char>(static_cast<unsigned char>(bits >> (num_bits -= 8)));
  }
  return bytes;
}

struct RankedToken {
  std::string bytes;
  int64_t rank = 0;
};

std::optional<RankedToken> parse_ranked_token(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  auto bytes = base64_decode(line.substr(0, blank));
  const std::string_view digits = line.substr(blank + 1);
  int64_t rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (!bytes || error != std::errc() || end != digits.data() + digits.size() || rank < 0) return std::nullopt;
  return RankedToken{std::move(*bytes), rank};
}

std::string_view next_line(std::string_view& left) {
  const size_t end = std::min(left.find('\n'), left.size());
  const std::string_view line = left.substr(0, end);
  left.remove_prefix(std::min(end + 1, left.size()));
  return line;
}

}  // namespace

bool is_tiktoken_model(std::string_view bytes) { return parse_ranked_token(next_line(bytes)).has_value(); }

TokenTable read_tiktoken_model(std::string_view bytes, const std::string& file) {
  TokenTable table;
  table.file = file;
  table.spelling = TokenSpelling::byte_level;
  for (int line_number = 1; !bytes.empty(); ++line_number) {
    const std::string_view line = next_line(bytes);
    if (line.empty() || line == "\r") continue;
    const auto token = parse_ranked_token(line);
    if (!token)
      fail(ExitCode::model_file, "{}:{}: expected a token in base64, a blank and its rank, found {}", file, line_number,
           json_literal(line));
    if (token->rank != static_cast<int64_t>(table.tokens.size()))
      fail(ExitCode::model_file, "{}:{}: rank {}, expected {}; ranks must have no gaps", file, line_number, token->rank,
           table.tokens.size());
    table.tokens.push_back(byte_level_encode(token->bytes));
    table.scores.push_back(-static_cast<float>(token->rank));
  }
  return table;
}

}  // namespace paceline
