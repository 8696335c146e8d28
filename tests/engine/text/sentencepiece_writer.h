#pragma once
// Writes SentencePiece's .model for tests.

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/token_table.h"

namespace paceline::test {

struct SentencePiece {
  std::string text;
  float score = 0;
  TokenKind kind = TokenKind::normal;
};

struct SentencePieceFile {
  std::vector<SentencePiece> pieces;
  int model_type = 2;  // BPE
  bool byte_fallback = true, add_dummy_prefix = true, remove_extra_whitespaces = false;
  std::string character_map;
  bool space_is_suffix = false, escapes_blanks = true;
};

/// Protobuf's wire format.
class WireWriter {
 public:
  WireWriter& number(int field, uint64_t value) { return key(field, 0).varint(value); }
  WireWriter& text(int field, std::string_view value) {
    key(field, 2).varint(value.size());
    bytes_ += value;
    return *this;
  }
  WireWriter& real(int field, float value) {
    key(field, 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i) bytes_ += static_cast<char>(bits >> (8 * i));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  WireWriter& key(int field, int wire_type) { return varint(static_cast<uint64_t>(field) << 3 | uint64_t(wire_type)); }
  WireWriter& varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  std::string bytes_;
};

inline std::string sentencepiece_model(const SentencePieceFile& file) {
  WireWriter out;
  for (const SentencePiece& piece : file.pieces) {
    WireWriter one;
    one.text(1, piece.text).real(2, piece.score);
    if (piece.kind != TokenKind::normal) one.number(3, static_cast<uint64_t>(piece.kind));
    out.text(1, one.bytes());
  }
  WireWriter trainer, normalizer;
  trainer.text(7, "text").number(3, static_cast<uint64_t>(file.model_type)).number(24, file.space_is_suffix);
  trainer.number(35, file.byte_fallback).number(43, ~uint64_t{0});
  normalizer.text(1, "identity").text(2, file.character_map).number(3, file.add_dummy_prefix);
  normalizer.number(4, file.remove_extra_whitespaces).number(5, file.escapes_blanks);
  return out.text(2, trainer.bytes()).text(3, normalizer.bytes()).bytes();
}

/// <unk> <s> </s>, all bytes (ids 3 to 258), then `more`.
inline std::vector<SentencePiece> llama_pieces(const std::vector<SentencePiece>& more) {
  std::vector<SentencePiece> pieces = {
      {"<unk>", 0, TokenKind::unknown}, {"<s>", 0, TokenKind::control}, {"</s>", 0, TokenKind::control}};
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte)
    pieces.push_back({std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 0, TokenKind::byte});
  pieces.insert(pieces.end(), more.begin(), more.end());
  return pieces;
}

}  // namespace paceline::test
