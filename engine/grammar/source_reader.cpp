#include "engine/grammar/source_reader.h"

#include "engine/grammar/byte_grammar.h"
#include "engine/grammar/code_ranges.h"
#include "engine/text/utf8.h"

namespace paceline {

SourceReader::SourceReader(std::string_view source, Place place) : place_(place) {
  for (size_t at = 0; at < source.size();) {
    const Utf8Char c = utf8_decode(source, at);
    if (!c.valid) fail_at(codes_.size(), "the text is not UTF-8");
    codes_.push_back(c.code);
    at += size_t(c.num_bytes);
  }
}

bool SourceReader::take_quantifier(int& least, int& most) {
  if (take(U'*')) return true;
  if (take(U'+')) return least = 1, true;
  if (take(U'?')) return most = 1, true;
  return false;
}

void SourceReader::fail_at(size_t at, const std::string& reason) const {
  if (place_ == Place::character) throw GrammarError("character " + std::to_string(at + 1), reason);
  size_t line = 1, column = 1;
  for (size_t i = 0; i < at && i < codes_.size(); ++i) {
    column = codes_[i] == U'\n' ? 1 : column + 1;
    line += codes_[i] == U'\n';
  }
  throw GrammarError("line " + std::to_string(line) + ", column " + std::to_string(column), reason);
}

char32_t SourceReader::next() {
  if (at_end()) fail("the text ends too early");
  return codes_[at_++];
}

bool SourceReader::take(char32_t code) {
  if (peek() != code) return false;
  ++at_;
  return true;
}

bool SourceReader::take(std::u32string_view codes) {
  if (codes_.compare(at_, codes.size(), codes) != 0) return false;
  at_ += codes.size();
  return true;
}

char32_t SourceReader::hex(int digits) {
  char32_t code = 0;
  for (int i = 0; i < digits; ++i) {
    const char32_t c = peek();
    const bool is_digit = c >= U'0' && c <= U'9', is_lower = c >= U'a' && c <= U'f', is_upper = c >= U'A' && c <= U'F';
    if (!is_digit && !is_lower && !is_upper) fail("expected " + std::to_string(digits) + " hexadecimal digits");
    code = code * 16 + (is_digit ? c - U'0' : is_lower ? c - U'a' + 10 : c - U'A' + 10);
    ++at_;
  }
  if (code > kLastCode) fail("no code point is that large");
  return code;
}

int SourceReader::number() {
  const size_t begin = at_;
  int value = 0;
  for (; peek() >= U'0' && peek() <= U'9'; ++at_) {
    value = value * 10 + int(peek() - U'0');
    if (value > 1'000'000) fail_at(begin, "a repetition of more than a million");
  }
  return at_ == begin ? -1 : value;
}

}  // namespace paceline
