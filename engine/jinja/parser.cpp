// Recursive descent over the tokens; precedence as in Jinja2 3.1 (filters and tests bind tighter than operators).

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/jinja/ast.h"
#include "engine/jinja/token_cursor.h"

namespace paceline::jinja {

namespace {

constexpr std::array<std::pair<std::string_view, Operator>, 6> kCompareSymbols{{{"==", Operator::equal},
                                                                                {"!=", Operator::not_equal},
                                                                                {"<", Operator::less},
                                                                                {"<=", Operator::less_equal},
                                                                                {">", Operator::greater},
                                                                                {">=", Operator::greater_equal}}};
constexpr std::array<std::pair<std::string_view, Operator>, 2> kSumSymbols{
    {{"+", Operator::add}, {"-", Operator::subtract}}};
constexpr std::array<std::pair<std::string_view, Operator>, 4> kProductSymbols{
    {{"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}}};
constexpr std::array<std::pair<std::string_view, Operator>, 1> kPowerSymbols{{{"**", Operator::power}}};

using Kind = Expression::Kind;
using MutableExpression = std::unique_ptr<Expression>;

class Parser : TokenCursor {
 public:
  explicit Parser(const Source& source) : TokenCursor(source) {}

  Template run() {
    Template result;
    names_ = &result.names;
    result.source_name = source_name();
    result.loop_variable = variable("loop");
    result.caller_variable = variable("caller");
    result.body = parse_block({});
    return result;
  }

 private:
  int variable(std::string_view name) {
    const auto [it, inserted] = variables_.emplace(name, static_cast<int>(names_->size()));
    if (inserted) names_->emplace_back(name);
    return it->second;
  }

  // --- statements -----------------------------------------------------------------------------------------------
  /// Statements up to a tag whose name is in `ends` (left in place, behind its "{%").
  Block parse_block(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this, block_depth_, "blocks");
    Block block;
    for (;;) {
      const Token& token = peek();
      auto statement = std::make_unique<Statement>();
      statement->position = token.position;
      if (token.kind == TokenKind::end) {
        if (ends.size() != 0) error("expected {{% {} %}}, found the end of the template", *(ends.end() - 1));
        return block;
      }
      if (token.kind == TokenKind::text) {
        statement->text = take().text;
        block.push_back(std::move(statement));
      } else if (token.kind == TokenKind::expression_begin) {
        take();
        statement->kind = Statement::Kind::output;
        statement->expression = parse_tuple(InForHead::no);
        if (peek().kind != TokenKind::expression_end) error("expected \"}}}}\", found {}", found());
        take();
        block.push_back(std::move(statement));
      } else {
        take();  // block_begin: text, tags and the end are all that stands outside of tags
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_name(end); })) return block;
        parse_tag(*statement);
        block.push_back(std::move(statement));
      }
    }
  }

  void parse_tag(Statement& statement) {
    const std::string tag = peek().kind == TokenKind::name ? peek().text : std::string();
    if (tag == "if") return parse_if(statement);
    if (tag == "for") return parse_for(statement);
    if (tag == "set") return parse_set(statement);
    if (tag == "macro") return parse_macro(statement);
    if (tag == "call") return parse_call_block(statement);
    if (tag == "filter") return parse_filter_block(statement);
    if (tag == "with") return parse_with(statement);
    if (tag == "generation") {  // marks the assistant's text for training; here it only groups
      statement.kind = Statement::Kind::group;
      take();
      expect_block_end();
      statement.blocks.push_back(parse_body("endgeneration"));
      return;
    }
    if (tag == "break" || tag == "continue") {
      if (loop_depth_ == 0) error("\"{}\" outside a loop", tag);
      statement.kind = tag == "break" ? Statement::Kind::break_loop : Statement::Kind::continue_loop;
      take();
      return expect_block_end();
    }
    error(
        "tag {} is not supported here, expected if, for, set, macro, call, filter, with, generation, break or "
        "continue",
        found());
  }

  Block parse_body(std::string_view end) {
    Block block = parse_block({end});
    take();
    expect_block_end();
    return block;
  }

  void parse_if(Statement& statement) {
    statement.kind = Statement::Kind::if_chain;
    take();
    for (;;) {
      statement.conditions.push_back(parse_tuple(InForHead::no));
      expect_block_end();
      statement.blocks.push_back(parse_block({"elif", "else", "endif"}));
      if (accept_name("elif")) continue;
      if (accept_name("else")) {
        expect_block_end();
        statement.conditions.push_back(nullptr);
        statement.blocks.push_back(parse_block({"endif"}));
      }
      take();
      return expect_block_end();
    }
  }

  void parse_for(Statement& statement) {
    statement.kind = Statement::Kind::for_loop;
    take();
    statement.target = parse_target();
    if (!accept_name("in")) error("expected \"in\", found {}", found());
    statement.expression = parse_tuple(InForHead::yes);
    if (accept_name("if")) statement.condition = parse_expression();
    if (is_name("recursive")) error("recursive loops are not supported");
    expect_block_end();
    ++loop_depth_;
    statement.blocks.push_back(parse_block({"else", "endfor"}));
    --loop_depth_;
    if (accept_name("else")) {
      expect_block_end();
      statement.blocks.push_back(parse_block({"endfor"}));
    }
    take();
    expect_block_end();
  }

  Target parse_target() {
    Target target;
    const bool parenthesis = accept_symbol("(");
    do {
      if (!target.variables.empty() && peek().kind != TokenKind::name) break;  // trailing comma
      target.variables.push_back(variable(expect_assignable()));
      if (is_symbol(",")) target.unpack = true;
    } while (accept_symbol(","));
    if (parenthesis) expect_symbol(")");
    return target;
  }

  std::string expect_assignable() {
    static constexpr std::array<std::string_view, 9> kReserved{"true", "false", "none", "True", "False",
                                                               "None", "not",   "in",   "loop"};
    if (std::find(kReserved.begin(), kReserved.end(), peek().text) != kReserved.end())
      error("{} cannot be assigned to", found());
    return expect_name();
  }

  void parse_set(Statement& statement) {
    take();
    if (is_symbol(".", 1)) {
      statement.target.variables = {variable(expect_assignable())};
      take();
      statement.target.attribute = expect_attribute();
    } else {
      statement.target = parse_target();
    }
    if (accept_symbol("=")) {
      statement.kind = Statement::Kind::set;
      statement.expression = parse_tuple(InForHead::no);
      return expect_block_end();
    }
    if (statement.target.unpack) error("expected \"=\", found {}", found());
    statement.kind = Statement::Kind::set_block;
    if (is_symbol("|")) statement.expression = parse_filters(node(Kind::captured));
    expect_block_end();
    statement.blocks.push_back(parse_body("endset"));
  }

  void parse_macro(Statement& statement) {
    statement.kind = Statement::Kind::macro;
    take();
    statement.text = expect_assignable();
    statement.target.variables = {variable(statement.text)};
    parse_parameters(statement);
    parse_callable_body(statement, "endmacro");
  }

  void parse_parameters(Statement& statement) {
    expect_symbol("(");
    while (!accept_symbol(")")) {
      if (!statement.parameters.empty()) expect_symbol(",");
      Parameter parameter = parse_parameter();
      if (accept_symbol("=")) parameter.fallback = parse_expression();
      statement.parameters.push_back(std::move(parameter));
    }
  }

  Parameter parse_parameter() {
    Parameter parameter;
    parameter.name = expect_assignable();
    parameter.variable = variable(parameter.name);
    return parameter;
  }

  /// The loops around it cannot be left from within.
  void parse_callable_body(Statement& statement, std::string_view end) {
    expect_block_end();
    const int loops_outside = std::exchange(loop_depth_, 0);
    statement.blocks.push_back(parse_body(end));
    loop_depth_ = loops_outside;
  }

  /// {% call(a, b) macro(…) %}: the body is what the macro calls as caller(a, b).
  void parse_call_block(Statement& statement) {
    statement.kind = Statement::Kind::call_block;
    statement.text = "caller";
    take();
    if (is_symbol("(")) parse_parameters(statement);
    auto call = parse_expression();
    if (call->kind != Kind::call) error("expected a call of a macro before {}", found());
    statement.expression = std::move(call);
    parse_callable_body(statement, "endcall");
  }

  void parse_filter_block(Statement& statement) {
    statement.kind = Statement::Kind::filter_block;
    take();
    statement.expression = parse_filters(parse_filter(node(Kind::captured)));
    expect_block_end();
    statement.blocks.push_back(parse_body("endfilter"));
  }

  void parse_with(Statement& statement) {
    statement.kind = Statement::Kind::with;
    take();
    while (peek().kind != TokenKind::block_end) {
      if (!statement.parameters.empty()) expect_symbol(",");
      Parameter parameter = parse_parameter();
      expect_symbol("=");
      parameter.fallback = parse_expression();
      statement.parameters.push_back(std::move(parameter));
    }
    expect_block_end();
    statement.blocks.push_back(parse_body("endwith"));
  }

  // --- expressions ----------------------------------------------------------------------------------------------
  enum class InForHead { no, yes };  // in the head of a loop "if" starts the loop's filter

  MutableExpression node(Kind kind) const { return node(kind, peek().position); }
  static MutableExpression node(Kind kind, Position position) {
    auto result = std::make_unique<Expression>();
    result->kind = kind;
    result->position = position;
    return result;
  }
  static MutableExpression unary(Kind kind, Position position, MutableExpression operand) {
    auto result = node(kind, position);
    result->children.push_back(std::move(operand));
    return result;
  }

  /// The start of a node with several operands.
  static MutableExpression chain_of(Kind kind, MutableExpression first) {
    const Position position = first->position;
    return unary(kind, position, std::move(first));
  }

  bool at_expression_end() const {
    return peek().kind == TokenKind::expression_end || peek().kind == TokenKind::block_end || is_symbol(")");
  }

  /// One expression, or several with commas: a tuple.
  MutableExpression parse_tuple(InForHead head) {
    const auto one = [&] { return head == InForHead::yes ? parse_or() : parse_expression(); };
    auto first = one();
    if (!is_symbol(",")) return first;
    auto tuple = chain_of(Kind::tuple, std::move(first));
    while (accept_symbol(",")) {
      if (at_expression_end() || is_symbol("=")) break;
      tuple->children.push_back(one());
    }
    return tuple;
  }

  MutableExpression parse_expression() {
    const Nesting nesting(*this, expression_depth_, "expressions");
    auto value = parse_or();
    for (int length = 1; is_name("if"); ++length) {
      if (length > kMaxDepth) error("conditions in a row beyond the limit of depth {}", kMaxDepth);
      auto choice = node(Kind::conditional);
      take();
      choice->children.push_back(parse_or());
      choice->children.push_back(std::move(value));
      choice->children.push_back(accept_name("else") ? parse_expression() : nullptr);
      value = std::move(choice);
    }
    return value;
  }

  template <class Next>
  MutableExpression parse_logical(Kind kind, std::string_view word, Next next) {
    auto first = next();
    if (!is_name(word)) return first;
    auto result = chain_of(kind, std::move(first));
    while (accept_name(word)) result->children.push_back(next());
    return result;
  }
  MutableExpression parse_or() {
    return parse_logical(Kind::logical_or, "or", [&] { return parse_and(); });
  }
  MutableExpression parse_and() {
    return parse_logical(Kind::logical_and, "and", [&] { return parse_not(); });
  }
  MutableExpression parse_not() {
    if (!is_name("not")) return parse_compare();
    const Nesting nesting(*this, expression_depth_, "expressions");
    const Position position = take().position;
    return unary(Kind::logical_not, position, parse_not());
  }

  MutableExpression parse_compare() {
    const auto next_operator = [&](Operator& op) {
      if (accept_name("in")) return op = Operator::in, true;
      if (is_name("not") && is_name("in", 1)) return take(), take(), op = Operator::not_in, true;
      return accept_operator(kCompareSymbols, op);
    };
    return parse_chain(Kind::compare, next_operator, [&] { return parse_sum(); });
  }

  template <size_t N>
  bool accept_operator(const std::array<std::pair<std::string_view, Operator>, N>& symbols, Operator& op) {
    for (const auto& [symbol, value] : symbols) {
      if (accept_symbol(symbol)) return op = value, true;
    }
    return false;
  }

  template <class NextOperator, class Next>
  MutableExpression parse_chain(Kind kind, NextOperator next_operator, Next next) {
    auto first = next();
    Operator op{};
    if (!next_operator(op)) return first;
    auto chain = chain_of(kind, std::move(first));
    do {
      chain->operators.push_back(op);
      chain->children.push_back(next());
    } while (next_operator(op));
    return chain;
  }

  MutableExpression parse_sum() {
    return parse_chain(
        Kind::arithmetic, [&](Operator& op) { return accept_operator(kSumSymbols, op); },
        [&] { return parse_concat(); });
  }
  MutableExpression parse_concat() {
    auto first = parse_product();
    if (!is_symbol("~")) return first;
    auto result = chain_of(Kind::concat, std::move(first));
    while (accept_symbol("~")) result->children.push_back(parse_product());
    return result;
  }
  MutableExpression parse_product() {
    return parse_chain(
        Kind::arithmetic, [&](Operator& op) { return accept_operator(kProductSymbols, op); },
        [&] { return parse_power(); });
  }
  MutableExpression parse_power() {
    return parse_chain(
        Kind::arithmetic, [&](Operator& op) { return accept_operator(kPowerSymbols, op); },
        [&] { return parse_unary(Filters::allowed); });
  }

  enum class Filters { allowed, belong_outside };  // -x|abs is (-x)|abs

  MutableExpression parse_unary(Filters filters) {
    MutableExpression result;
    const Position position = peek().position;
    if (is_symbol("-") || is_symbol("+")) {
      const Nesting nesting(*this, expression_depth_, "expressions");
      const Kind kind = take().text == "-" ? Kind::negate : Kind::plus;
      result = unary(kind, position, parse_unary(Filters::belong_outside));
    } else {
      result = parse_primary();
    }
    return parse_postfix(std::move(result), filters);
  }

  MutableExpression parse_primary() {
    const Token& token = peek();
    auto result = node(Kind::literal);
    switch (token.kind) {
      case TokenKind::integer: result->constant = take().integer; return result;
      case TokenKind::real: result->constant = take().real; return result;
      case TokenKind::string: {
        std::string text = take().text;
        while (peek().kind == TokenKind::string) text += take().text;
        result->constant = make_string(std::move(text));
        return result;
      }
      case TokenKind::name: {
        const std::string& name = token.text;
        if (name == "true" || name == "True" || name == "false" || name == "False") {
          result->constant = name == "true" || name == "True";
        } else if (name == "none" || name == "None") {
          result->constant = None{};
        } else {
          if (name.starts_with("__")) error("name {} is not allowed", found());
          result->kind = Kind::variable;
          result->name = name;
          result->variable = variable(name);
        }
        take();
        return result;
      }
      default: break;
    }
    if (accept_symbol("(")) {
      if (accept_symbol(")")) {
        result->kind = Kind::tuple;
        return result;
      }
      auto inner = parse_tuple(InForHead::no);
      expect_symbol(")");
      return inner;
    }
    if (accept_symbol("[")) {
      result->kind = Kind::list;
      while (!accept_symbol("]")) {
        if (!result->children.empty()) expect_symbol(",");
        if (accept_symbol("]")) break;
        result->children.push_back(parse_expression());
      }
      return result;
    }
    if (accept_symbol("{")) {
      result->kind = Kind::dict;
      while (!accept_symbol("}")) {
        if (!result->children.empty()) expect_symbol(",");
        if (accept_symbol("}")) break;
        result->children.push_back(parse_expression());
        expect_symbol(":");
        result->children.push_back(parse_expression());
      }
      return result;
    }
    error("expected an expression, found {}", found());
  }

  MutableExpression parse_postfix(MutableExpression base, Filters filters) {
    bool filtered = false;
    for (int length = 0;; ++length) {
      if (length > kMaxDepth) error("more than {} accesses or filters in a row (limit of depth)", kMaxDepth);
      const Position position = peek().position;
      if (!filtered && accept_symbol(".")) {
        if (peek().kind == TokenKind::integer) {
          auto index = node(Kind::literal);
          index->constant = take().integer;
          base = unary(Kind::index, position, std::move(base));
          base->children.push_back(std::move(index));
        } else {
          const Position name_position = peek().position;
          std::string name = expect_attribute();
          base = unary(Kind::attribute, name_position, std::move(base));
          base->name = std::move(name);
        }
      } else if (!filtered && accept_symbol("[")) {
        base = parse_subscript(position, std::move(base));
      } else if (is_symbol("(")) {
        base = unary(Kind::call, position, std::move(base));
        base->arguments = parse_arguments();
      } else if (filters == Filters::allowed && accept_symbol("|")) {
        filtered = true;
        base = parse_filter(std::move(base));
      } else if (filters == Filters::allowed && accept_name("is")) {
        filtered = true;
        base = parse_test(std::move(base));
      } else {
        return base;
      }
    }
  }

  /// "| a | b(1)", of a block.
  MutableExpression parse_filters(MutableExpression operand) {
    for (int length = 0; accept_symbol("|"); ++length) {
      if (length > kMaxDepth) error("more than {} filters in a row (limit of depth)", kMaxDepth);
      operand = parse_filter(std::move(operand));
    }
    return operand;
  }

  MutableExpression parse_filter(MutableExpression operand) {
    const Position name_position = peek().position;
    auto result = unary(Kind::filter, name_position, std::move(operand));
    result->name = expect_name();
    if (is_symbol("(")) result->arguments = parse_arguments();
    return result;
  }

  std::string expect_attribute() {
    if (peek().kind == TokenKind::name && peek().text.starts_with("_")) error("attribute {} is not allowed", found());
    return expect_name();
  }

  MutableExpression parse_subscript(Position position, MutableExpression base) {
    MutableExpression start;
    if (!is_symbol(":")) start = parse_tuple(InForHead::no);
    if (!is_symbol(":")) {
      expect_symbol("]");
      auto result = unary(Kind::index, position, std::move(base));
      result->children.push_back(std::move(start));
      return result;
    }
    auto result = unary(Kind::slice, position, std::move(base));
    result->children.push_back(std::move(start));
    for (int part = 0; part < 2; ++part) {
      MutableExpression bound;
      if (accept_symbol(":") && !is_symbol(":") && !is_symbol("]")) bound = parse_expression();
      result->children.push_back(std::move(bound));
    }
    expect_symbol("]");
    return result;
  }

  std::vector<Argument> parse_arguments() {
    std::vector<Argument> arguments;
    expect_symbol("(");
    while (!accept_symbol(")")) {
      if (!arguments.empty()) expect_symbol(",");
      if (accept_symbol(")")) break;
      Argument argument;
      if (accept_symbol("*")) {
        argument.kind = Argument::Kind::items;
      } else if (accept_symbol("**")) {
        argument.kind = Argument::Kind::entries;
      } else if (peek().kind == TokenKind::name && is_symbol("=", 1)) {
        argument.kind = Argument::Kind::named;
        argument.name = take().text;
        take();
      } else if (!arguments.empty() && arguments.back().kind != Argument::Kind::positional) {
        error("positional argument behind a named or unpacked one");
      }
      argument.value = parse_expression();
      arguments.push_back(std::move(argument));
    }
    return arguments;
  }

  MutableExpression parse_test(MutableExpression operand) {
    const bool negated = accept_name("not");
    auto result = unary(Kind::test, peek().position, std::move(operand));
    result->negated = negated;
    result->name = expect_name();
    static constexpr std::array<std::string_view, 7> kNoArgument{"else", "or", "and", "if", "is", "in", "not"};
    const TokenKind kind = peek().kind;
    if (is_symbol("(")) {
      result->arguments = parse_arguments();
    } else if (kind == TokenKind::string || kind == TokenKind::integer || kind == TokenKind::real || is_symbol("[") ||
               is_symbol("{") ||
               (kind == TokenKind::name &&
                std::find(kNoArgument.begin(), kNoArgument.end(), peek().text) == kNoArgument.end())) {
      result->arguments.push_back({.value = parse_postfix(parse_primary(), Filters::belong_outside)});
    }
    return result;
  }

  std::vector<std::string>* names_ = nullptr;  // of the template that run() fills
  std::unordered_map<std::string, int> variables_;
  int block_depth_ = 0, expression_depth_ = 0, loop_depth_ = 0;
};

}  // namespace

Template parse(const Source& source) { return Parser(source).run(); }

}  // namespace paceline::jinja
