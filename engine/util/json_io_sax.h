#pragma once
// nlohmann's SAX parser with the byte position known inside every event.

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace paceline {

/// Forward iterator over characters that reports how far the parser has read.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator() = default;
  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_ = nullptr;
  const char** furthest_ = nullptr;
};

/// Feeds `text` to `sax`; *furthest points behind the last byte read whenever an event is delivered.
template <class Sax>
bool sax_parse_counted(std::string_view text, Sax* sax, const char** furthest) {
  *furthest = text.data();
  return nlohmann::json::sax_parse(CountingIterator(text.data(), furthest),
                                   CountingIterator(text.data() + text.size(), furthest), sax);
}

/// The parser's own message without its prefix, as printable one-line text.
std::string json_error_text(const std::string& what);

}  // namespace paceline
