#pragma once
// Arithmetic over configuration values: `=2*load.concurrency`, `tp*pp <= devices`, `proposer == ngram && k > 3`.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline {

/// What an expression works with. Every number is a double: configuration integers are far below 2^53.
using ExpressionValue = std::variant<double, bool, std::string>;

/// Value of a name, or nothing when there is none of that name.
using ExpressionNames = std::function<std::optional<ExpressionValue>(const std::string&)>;

/// A mistake in an expression; `offset` is the byte of its text where it lies.
struct ExpressionError {
  size_t offset = 0;
  std::string message;
};

/// A name that == or != compares with a word: `proposer` and "ngram" of proposer == ngram. The word may be a name, too:
/// which of the two is a value, only their reader knows. A quoted text is a word.
struct ExpressionComparison {
  std::string name, word;
  size_t word_offset = 0;
};

/// A parsed expression. Immutable, cheap to copy, safe to share between threads.
///   or:  and ('||' and)*      and: not ('&&' not)*       compare: sum (('=='|'!='|'<'|'<='|'>'|'>=') sum)?
///   sum: product (('+'|'-') product)*    product: unary (('*'|'/'|'%') unary)*    unary: ('-'|'!')* primary
///   primary: number | 'text' | "text" | true | false | name | min(...) | max(...) | floor(x) | ceil(x) | '(' or ')'
/// A name that has no value stands for itself where it is compared with a text: proposer == ngram.
class Expression {
 public:
  /// Throws ExpressionError. At most 4096 bytes, nested at most 64 deep.
  static Expression parse(std::string_view text);

  /// Throws ExpressionError: unknown name, wrong type, division by zero, a result that is not finite.
  ExpressionValue evaluate(const ExpressionNames& names) const;

  const std::string& text() const { return text_; }
  /// Names in the order of their first use, with the offset of that use; functions are not names.
  const std::vector<std::pair<std::string, size_t>>& names() const { return names_; }

  /// In the order of the text; of two names each stands once as the name and once as the word.
  const std::vector<ExpressionComparison>& comparisons() const { return comparisons_; }

  struct Node;

 private:
  std::string text_;
  std::vector<std::pair<std::string, size_t>> names_;
  std::vector<ExpressionComparison> comparisons_;
  std::shared_ptr<const Node> root_;
};

}  // namespace paceline
