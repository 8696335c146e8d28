#pragma once
// The parsed form of a chat template.

#include <memory>
#include <string>
#include <vector>

#include "engine/jinja/lexer.h"
#include "engine/jinja/value.h"

namespace paceline::jinja {

enum class Operator {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Argument {
  enum class Kind { positional, named, items, entries };  // items, entries: of a list or dict, as by * and **
  Kind kind = Kind::positional;
  std::string name;  // named
  ExpressionPtr value;
};

/// Children by kind:
///   literal: none, `constant`          variable: none, `variable`
///   list, tuple: items                 dict: key, value, key, value, …
///   attribute: object, `name`          index: object, key
///   slice: object, start, stop, step (null: absent)
///   call: callee, `arguments`; a callee of kind attribute is a method call
///   filter, test: operand, `name`, `arguments` (test: `negated`)
///   negate, plus, logical_not: operand
///   logical_and, logical_or, concat: operands
///   arithmetic: a op b op c …, left to right; compare: chain as in Python
///   conditional: condition, value, other (null: undefined)
///   captured: none; the text of the block whose filters these are
struct Expression {
  enum class Kind {
    literal,
    variable,
    list,
    tuple,
    dict,
    attribute,
    index,
    slice,
    call,
    filter,
    test,
    negate,
    plus,
    logical_not,
    logical_and,
    logical_or,
    concat,
    arithmetic,
    compare,
    conditional,
    captured
  };
  Kind kind = Kind::literal;
  Position position;
  std::vector<ExpressionPtr> children;
  std::vector<Operator> operators;  // arithmetic, compare: one less than children
  std::vector<Argument> arguments;
  std::string name;
  Value constant;
  int variable = 0;  // index into Template::names
  bool negated = false;
};

/// Where a value goes: one variable, several (unpacked), or an attribute of a namespace.
struct Target {
  std::vector<int> variables;
  std::string attribute;  // not empty: of variables[0]
  bool unpack = false;    // "a, b" even when there is just one
};

struct Parameter {
  int variable = 0;
  std::string name;
  ExpressionPtr fallback;  // null: undefined
};

using Block = std::vector<std::unique_ptr<const Statement>>;

struct Statement {
  enum class Kind {
    text,
    output,
    if_chain,
    for_loop,
    set,
    set_block,
    macro,
    call_block,
    filter_block,
    with,
    break_loop,
    continue_loop,
    group
  };
  Kind kind = Kind::text;
  Position position;
  std::string text;                       // text; macro: its name; call_block: "caller"
  ExpressionPtr expression;               // output, set: value; for: iterable; call_block: the call; set_block,
                                          // filter_block: filters of what is captured, or null
  ExpressionPtr condition;                // for: the loop filter, or null
  std::vector<ExpressionPtr> conditions;  // if: one per branch, null for else
  std::vector<Block> blocks;              // if: one per branch; for: body, else; all others: body
  Target target;                          // for, set, set_block; macro: its variable
  std::vector<Parameter> parameters;      // macro, call_block; with: variables and their values
};

struct Template {
  std::string source_name;
  Block body;
  std::vector<std::string> names;  // variables; index = Expression::variable
  int loop_variable = 0;           // "loop"
  int caller_variable = 0;         // "caller"
};

/// Nesting of expressions and of blocks, each.
inline constexpr int kMaxDepth = 64;

/// Throws Error(model_file) with the position for anything outside the subset.
Template parse(const Source& source);

}  // namespace paceline::jinja
