#pragma once
// Headlines are short: what does not fit is left out.

#include <sstream>
#include <string>
#include <utility>

#include "experiments/analysis/verdict/verdict.h"

namespace paceline {

/// A sentence that takes more only while it stays short.
class Sentence {
 public:
  explicit Sentence(std::string text) : text_(std::move(text)) {}

  /// `rest`: only behind `more`, where there is room for both.
  Sentence& add(const std::string& more, const std::string& rest = "") {
    if (fits(more)) text_ += fits(more + rest) ? more + rest : more;
    return *this;
  }

  /// `more`, where there is room for `next`, which comes behind it, too.
  Sentence& add_before(const std::string& more, const std::string& next) {
    if (fits(more + next)) text_ += more;
    return *this;
  }

  /// Cut where even the first words, which hold names of the user's, are too many.
  std::string text() const {
    if (num_words(text_) <= kMostHeadlineWords) return text_ + ".";
    std::istringstream words(text_);
    std::string cut, word;
    for (size_t i = 0; i + 1 < kMostHeadlineWords && words >> word; ++i) cut += word + " ";
    return cut + "…";
  }

 private:
  bool fits(const std::string& more) const { return num_words(text_ + more) <= kMostHeadlineWords; }

  std::string text_;
};

}  // namespace paceline
