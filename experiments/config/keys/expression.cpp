#include "experiments/config/keys/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace paceline {

namespace {

constexpr size_t kMaxExpressionBytes = 4096;
constexpr int kMaxExpressionDepth = 64;

}  // namespace

/// `op` is the operator as written, "literal", "name", or a function's name.
struct Expression::Node {
  std::string op;
  size_t offset = 0;
  ExpressionValue literal;
  std::vector<std::shared_ptr<const Node>> operands;
};

namespace {

using Node = Expression::Node;
using NodePtr = std::shared_ptr<const Node>;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9') || c == '.'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  NodePtr parse() {
    NodePtr root = either();
    skip_blank();
    if (pos_ < text_.size()) throw error(fmt::format("expected an operator, found '{}'", text_[pos_]));
    return root;
  }

  std::vector<std::pair<std::string, size_t>> names;
  std::vector<ExpressionComparison> comparisons;

 private:
  ExpressionError error(std::string message) const { return {pos_, std::move(message)}; }

  void skip_blank() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t' || text_[pos_] == '\n')) ++pos_;
  }

  /// Takes the first of `tokens` that comes next; longer ones must stand before their prefixes.
  std::string take(std::initializer_list<std::string_view> tokens) {
    skip_blank();
    for (std::string_view token : tokens) {
      if (text_.substr(pos_).starts_with(token)) {
        pos_ += token.size();
        return std::string(token);
      }
    }
    return {};
  }

  static NodePtr make(std::string op, size_t offset, std::vector<NodePtr> operands, ExpressionValue literal = 0.0) {
    return std::make_shared<const Node>(Node{std::move(op), offset, std::move(literal), std::move(operands)});
  }

  NodePtr either() {
    if (++depth_ > kMaxExpressionDepth) throw error(fmt::format("nested more than {} deep", kMaxExpressionDepth));
    NodePtr node = binary(0);
    --depth_;
    return node;
  }

  /// Operators of one level, which bind less than those of the next.
  NodePtr binary(size_t level) {
    static const std::initializer_list<std::string_view> kLevels[] = {
        {"||"}, {"&&"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}};
    constexpr size_t kComparison = 2;
    if (level == std::size(kLevels)) return unary();
    NodePtr left = binary(level + 1);
    for (std::string op; !(op = take(kLevels[level])).empty();) {
      const size_t offset = pos_ - op.size();
      // A left-leaning chain is as deep as it is long, and evaluation recurses over it.
      if (++num_operators_ > 512) throw error("more than 512 operators in one expression");
      NodePtr right = binary(level + 1);
      if (op == "==" || op == "!=") {
        note_comparison(*left, *right);
        note_comparison(*right, *left);
      }
      left = make(op, offset, {left, right});
      if (level == kComparison) return left;
    }
    if (level == kComparison && text_.substr(pos_).starts_with("=")) throw error("expected ==, found a single =");
    return left;
  }

  void note_comparison(const Node& name, const Node& word) {
    const std::string* const text = std::get_if<std::string>(&word.literal);
    if (name.op == "name" && text) comparisons.push_back({std::get<std::string>(name.literal), *text, word.offset});
  }

  NodePtr unary() {
    skip_blank();
    const size_t offset = pos_;
    if (pos_ < text_.size() && (text_[pos_] == '-' || text_[pos_] == '!')) {
      const char op = text_[pos_++];
      if (++depth_ > kMaxExpressionDepth) throw error(fmt::format("nested more than {} deep", kMaxExpressionDepth));
      NodePtr operand = unary();
      --depth_;
      return make(op == '-' ? "negate" : "not", offset, {operand});
    }
    return primary();
  }

  NodePtr primary() {
    skip_blank();
    const size_t offset = pos_;
    if (pos_ >= text_.size()) throw error("expected a value, found the end");
    const char c = text_[pos_];
    if (c == '(') {
      ++pos_;
      NodePtr inner = either();
      if (take({")"}).empty()) throw error("expected ')'");
      return inner;
    }
    if (c == '\'' || c == '"') {
      const size_t end = text_.find(c, pos_ + 1);
      if (end == std::string_view::npos) throw error("this text is never closed");
      std::string value(text_.substr(pos_ + 1, end - pos_ - 1));
      pos_ = end + 1;
      return make("literal", offset, {}, std::move(value));
    }
    if ((c >= '0' && c <= '9') || c == '.') {
      double value = 0;
      const auto parsed = std::from_chars(text_.data() + pos_, text_.data() + text_.size(), value);
      if (parsed.ec != std::errc() || !std::isfinite(value)) throw error("this is not a number");
      pos_ = static_cast<size_t>(parsed.ptr - text_.data());
      if (pos_ < text_.size() && is_name_start(text_[pos_])) throw error("numbers carry no unit here");
      return make("literal", offset, {}, value);
    }
    if (!is_name_start(c)) throw error(fmt::format("expected a value, found '{}'", c));
    while (pos_ < text_.size() && is_name_part(text_[pos_])) ++pos_;
    std::string name(text_.substr(offset, pos_ - offset));
    if (name == "true" || name == "false") return make("literal", offset, {}, name == "true");
    if (!take({"("}).empty()) return call(name, offset);
    if (std::none_of(names.begin(), names.end(), [&](const auto& known) { return known.first == name; })) {
      names.emplace_back(name, offset);
    }
    return make("name", offset, {}, name);
  }

  NodePtr call(const std::string& name, size_t offset) {
    const bool one_argument = name == "floor" || name == "ceil";
    if (name != "min" && name != "max" && !one_argument) {
      throw ExpressionError{offset, fmt::format("unknown function \"{}\": there are min, max, floor, ceil", name)};
    }
    std::vector<NodePtr> arguments;
    do arguments.push_back(either());
    while (!take({","}).empty());
    if (take({")"}).empty()) throw error("expected ',' or ')'");
    if (one_argument && arguments.size() != 1) throw ExpressionError{offset, name + " takes one argument"};
    return make(name, offset, std::move(arguments));
  }

  std::string_view text_;
  size_t pos_ = 0;
  int depth_ = 0;
  int num_operators_ = 0;
};

const char* type_name(const ExpressionValue& value) {
  return std::holds_alternative<double>(value) ? "a number"
         : std::holds_alternative<bool>(value) ? "true/false"
                                               : "a text";
}

class Evaluator {
 public:
  explicit Evaluator(const ExpressionNames& names) : names_(names) {}

  ExpressionValue value(const Node& node) const {
    if (node.op == "literal") return node.literal;
    if (node.op == "name") {
      const std::string& name = std::get<std::string>(node.literal);
      if (const std::optional<ExpressionValue> found = names_(name)) return *found;
      throw ExpressionError{node.offset, fmt::format("unknown name \"{}\"", name)};
    }
    if (node.op == "||") return truth(*node.operands[0]) || truth(*node.operands[1]);
    if (node.op == "&&") return truth(*node.operands[0]) && truth(*node.operands[1]);
    if (node.op == "not") return !truth(*node.operands[0]);
    if (node.op == "==" || node.op == "!=") return equal(node) == (node.op == "==");
    const double left = number(*node.operands[0]);
    if (node.op == "negate") return -left;
    if (node.op == "floor") return std::floor(left);
    if (node.op == "ceil") return std::ceil(left);
    if (node.op == "min" || node.op == "max") {
      double best = left;
      for (size_t i = 1; i < node.operands.size(); ++i) {
        const double next = number(*node.operands[i]);
        best = node.op == "min" ? std::min(best, next) : std::max(best, next);
      }
      return best;
    }
    const double right = number(*node.operands[1]);
    if (node.op == "<") return left < right;
    if (node.op == "<=") return left <= right;
    if (node.op == ">") return left > right;
    if (node.op == ">=") return left >= right;
    if ((node.op == "/" || node.op == "%") && right == 0) throw ExpressionError{node.offset, "division by zero"};
    const double result = node.op == "+"   ? left + right
                          : node.op == "-" ? left - right
                          : node.op == "*" ? left * right
                          : node.op == "/" ? left / right
                                           : std::fmod(left, right);
    if (!std::isfinite(result)) throw ExpressionError{node.offset, "the result is not a finite number"};
    return result;
  }

 private:
  /// An unknown bare word beside a text is that word.
  std::optional<ExpressionValue> value_or_word(const Node& node) const {
    if (node.op != "name") return value(node);
    return names_(std::get<std::string>(node.literal));
  }

  bool equal(const Node& node) const {
    std::optional<ExpressionValue> left = value_or_word(*node.operands[0]);
    std::optional<ExpressionValue> right = value_or_word(*node.operands[1]);
    if (!left && right && std::holds_alternative<std::string>(*right)) left = node.operands[0]->literal;
    if (!right && left && std::holds_alternative<std::string>(*left)) right = node.operands[1]->literal;
    if (!left) left = value(*node.operands[0]);  // throws "unknown name"
    if (!right) right = value(*node.operands[1]);
    if (left->index() != right->index()) {
      throw ExpressionError{node.offset,
                            fmt::format("{} compares {} with {}", node.op, type_name(*left), type_name(*right))};
    }
    return *left == *right;
  }

  double number(const Node& node) const {
    const ExpressionValue v = value(node);
    if (const double* found = std::get_if<double>(&v)) return *found;
    throw ExpressionError{node.offset, fmt::format("expected a number, found {}", type_name(v))};
  }

  bool truth(const Node& node) const {
    const ExpressionValue v = value(node);
    if (const bool* found = std::get_if<bool>(&v)) return *found;
    throw ExpressionError{node.offset, fmt::format("expected true or false, found {}", type_name(v))};
  }

  const ExpressionNames& names_;
};

}  // namespace

Expression Expression::parse(std::string_view text) {
  if (text.size() > kMaxExpressionBytes) {
    throw ExpressionError{0, fmt::format("longer than {} bytes", kMaxExpressionBytes)};
  }
  Expression expression;
  expression.text_ = std::string(text);
  Parser parser(expression.text_);
  expression.root_ = parser.parse();
  expression.names_ = std::move(parser.names);
  expression.comparisons_ = std::move(parser.comparisons);
  return expression;
}

ExpressionValue Expression::evaluate(const ExpressionNames& names) const { return Evaluator(names).value(*root_); }

}  // namespace paceline
