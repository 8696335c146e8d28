// Reader of SentencePiece's .model: a ModelProto of sentencepiece_model.proto in protobuf's wire format (varints,
// 8- and 4-byte values, and byte strings, each behind a key of field number × 8 + wire type).

#include <bit>

#include "engine/tokenizer/tokenizer_parts.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

struct WireField {
  uint64_t number = 0;
  int wire_type = 0;
  uint64_t value = 0;      // varint, or the bits of a fixed one
  std::string_view bytes;  // of a byte string
};

/// The fields of one message, in order.
class WireReader {
 public:
  WireReader(std::string_view message, const std::string& file, std::string entry)
      : left_(message), file_(file), entry_(std::move(entry)) {}

  bool next(WireField& field) {
    if (left_.empty()) return false;
    const uint64_t key = varint();
    field = {.number = key >> 3, .wire_type = static_cast<int>(key & 7), .value = 0, .bytes = {}};
    switch (field.wire_type) {
      case 0: field.value = varint(); break;
      case 1: field.value = fixed(8); break;
      case 2: field.bytes = take(varint()); break;
      case 5: field.value = fixed(4); break;
      default: refuse(fmt::format("wire type {} of field {}", field.wire_type, field.number));
    }
    return true;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail(ExitCode::model_file, "{}: {}: {}; the file is no SentencePiece model, or damaged", file_, entry_, what);
  }
  void expect(const WireField& field, int wire_type, const char* name) const {
    if (field.wire_type != wire_type)
      refuse(fmt::format("{}: wire type {}, expected {}", name, field.wire_type, wire_type));
  }

 private:
  std::string_view take(uint64_t size) {
    if (size > left_.size()) refuse(fmt::format("{} bytes expected, {} left", size, left_.size()));
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("a number of more than 10 bytes");
  }
  uint64_t fixed(size_t size) {
    const std::string_view bytes = take(size);
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }

  std::string_view left_;
  const std::string& file_;
  std::string entry_;
};

/// Only the specification's fields that change ids.
struct ModelSpecs {
  uint64_t model_type = 1;  // trainer_spec.model_type: 1 unigram, 2 BPE, 3 word, 4 char
  bool byte_fallback = false, space_is_suffix = false;
  int64_t bos_id = 1, eos_id = 2, unknown_id = 0;
  std::string normalization;
  bool has_character_map = false, escapes_blanks = true;
};

void read_piece(WireReader reader, TokenTable& table) {
  std::string text;
  float score = 0;
  uint64_t kind = static_cast<uint64_t>(TokenKind::normal);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) {
      reader.expect(field, 2, "piece");
      text = field.bytes;
    } else if (field.number == 2) {
      reader.expect(field, 5, "score");
      score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    } else if (field.number == 3) {
      reader.expect(field, 0, "type");
      kind = field.value;
    }
  }
  if (kind < static_cast<uint64_t>(TokenKind::normal) || kind > static_cast<uint64_t>(TokenKind::byte))
    reader.refuse(fmt::format("type {}, expected 1 to 6", kind));
  table.tokens.push_back(std::move(text));
  table.scores.push_back(score);
  table.kinds.push_back(static_cast<TokenKind>(kind));
}

void read_trainer(WireReader reader, ModelSpecs& specs) {
  for (WireField field; reader.next(field);) {
    switch (field.number) {
      case 3: specs.model_type = field.value; break;
      case 24: specs.space_is_suffix = field.value != 0; break;
      case 35: specs.byte_fallback = field.value != 0; break;
      case 40: specs.unknown_id = static_cast<int64_t>(field.value); break;
      case 41: specs.bos_id = static_cast<int64_t>(field.value); break;
      case 42: specs.eos_id = static_cast<int64_t>(field.value); break;
      default: continue;
    }
    reader.expect(field, 0, "trainer_spec");
  }
}

void read_normalizer(WireReader reader, ModelSpecs& specs, TokenTable& table) {
  for (WireField field; reader.next(field);) {
    switch (field.number) {
      case 1: specs.normalization = field.bytes; break;
      case 2: specs.has_character_map = !field.bytes.empty(); break;
      case 3: table.add_space_prefix = field.value != 0; break;
      case 4: table.collapse_white_space = field.value != 0; break;
      case 5: specs.escapes_blanks = field.value != 0; break;
      default: break;
    }
  }
}

void check_specs(const ModelSpecs& specs, const std::string& file) {
  constexpr const char* kTypes[] = {"of no type", "Unigram", "BPE", "WORD", "CHAR"};
  if (specs.model_type != 2)
    fail(ExitCode::model_file, "{}: trainer_spec.model_type: {} is not supported, expected BPE", file,
         specs.model_type < std::size(kTypes) ? kTypes[specs.model_type] : std::to_string(specs.model_type));
  if (specs.space_is_suffix)
    fail(ExitCode::model_file, "{}: trainer_spec.treat_whitespace_as_suffix: true is not supported", file);
  if (!specs.escapes_blanks)
    fail(ExitCode::model_file, "{}: normalizer_spec.escape_whitespaces: false is not supported", file);
  if (specs.has_character_map)
    fail(ExitCode::model_file,
         "{}: normalizer_spec: the character map of {} is not supported, expected identity; save the model's fast "
         "tokenizer (tokenizer.json) beside it",
         file, json_literal(specs.normalization));
}

}  // namespace

TokenTable read_sentencepiece_model(std::string_view bytes, const std::string& file) {
  TokenTable table;
  table.file = file;
  table.spelling = TokenSpelling::metaspace;
  table.space_prefix_until = SpanPlace::after_special;
  table.collapse_white_space = true;  // the specification's default, for a file without normalizer_spec
  ModelSpecs specs;
  WireReader reader(bytes, file, "ModelProto");
  for (WireField field; reader.next(field);) {
    if (field.number < 1 || field.number > 3) continue;
    reader.expect(field, 2, "a message");
    if (field.number == 1)
      read_piece({field.bytes, file, fmt::format("pieces[{}]", table.tokens.size())}, table);
    else if (field.number == 2)
      read_trainer({field.bytes, file, "trainer_spec"}, specs);
    else
      read_normalizer({field.bytes, file, "normalizer_spec"}, specs, table);
  }
  check_specs(specs, file);
  const auto id_of = [&](int64_t id) {  // −1: there is none
    const bool is_known = id >= 0 && static_cast<uint64_t>(id) < table.tokens.size();
    return is_known ? std::optional(static_cast<int32_t>(id)) : std::nullopt;
  };
  table.bos_id = id_of(specs.bos_id);
  table.eos_id = id_of(specs.eos_id);
  table.unknown_id = id_of(specs.unknown_id);
  table.byte_fallback = specs.byte_fallback;
  return table;
}

}  // namespace paceline
