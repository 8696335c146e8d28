#pragma once
// The characters of a grammar's source, one after another.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline {

class SourceReader {
 public:
  enum class Place : uint8_t { character, line };  // how messages name a place
  static constexpr char32_t kNone = 0xFFFFFFFF;

  /// Throws GrammarError for what is not UTF-8.
  SourceReader(std::string_view source, Place place);

  bool at_end() const { return at_ == codes_.size(); }
  /// kNone behind the end.
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < codes_.size() ? codes_[at_ + ahead] : kNone; }
  char32_t next();
  bool take(char32_t code);
  bool take(std::u32string_view codes);
  size_t at() const { return at_; }
  void go_to(size_t at) { at_ = at; }

  /// A code point of `digits` hexadecimal digits. Throws.
  char32_t hex(int digits);
  /// A decimal number; none: -1. Throws for one above a million.
  int number();
  /// `*`, `+` or `?`: how often at least and at most; `most` stays as it is where there is no bound.
  bool take_quantifier(int& least, int& most);

  [[noreturn]] void fail(const std::string& reason) const { fail_at(at_, reason); }
  [[noreturn]] void fail_at(size_t at, const std::string& reason) const;

 private:
  std::u32string codes_;
  const Place place_;
  size_t at_ = 0;
};

}  // namespace paceline
