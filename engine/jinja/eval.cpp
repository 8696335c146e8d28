#include "engine/jinja/eval.h"

#include <algorithm>

#include "engine/jinja/builtins.h"
#include "engine/jinja/operations.h"
#include "engine/util/json_io.h"

namespace paceline::jinja {

namespace {

enum class Flow { next, break_loop, continue_loop };

class Evaluator {
 public:
  Evaluator(const Template& chat_template, std::optional<std::time_t> now)
      : template_(chat_template), context_(chat_template.source_name, now), globals_(chat_template.names.size()) {
    for (size_t i = 0; i < globals_.size(); ++i) {
      if (const auto function = find_function(template_.names[i])) globals_[i] = *function;
    }
  }

  /// Namespaces can hold themselves; emptied one by one they cannot.
  ~Evaluator() {
    for (const NamespacePtr& space : namespaces_) space->entries.clear();
  }
  Evaluator(const Evaluator&) = delete;

  std::string run(const std::vector<std::pair<std::string, Value>>& variables) {
    for (const auto& [name, value] : variables) {
      const auto it = std::find(template_.names.begin(), template_.names.end(), name);
      if (it != template_.names.end()) globals_[static_cast<size_t>(it - template_.names.begin())] = value;
    }
    std::string out;
    out_ = &out;
    run_block(template_.body);
    return out;
  }

 private:
  /// Local variables live from here on; the scope ends with the object.
  class Scope {
   public:
    explicit Scope(Evaluator& evaluator) : evaluator_(evaluator), begin_(evaluator.locals_.size()) {
      evaluator.scopes_.push_back({.id = ++evaluator.last_scope_, .begin = begin_});
    }
    ~Scope() {
      clear();
      evaluator_.scopes_.pop_back();
    }
    Scope(const Scope&) = delete;
    /// A new turn of a loop starts without the variables of the last one.
    void clear() { evaluator_.locals_.resize(begin_); }

   private:
    Evaluator& evaluator_;
    size_t begin_;
  };
  struct OpenScope {
    uint64_t id = 0;
    size_t begin = 0;  // of its variables
  };

  // --- variables ------------------------------------------------------------------------------------------------
  struct Local {
    int variable = 0;
    Value value;
  };

  const Value& lookup(int variable) {
    charge_scan();
    for (size_t i = locals_.size(); i > frame_begin_; --i) {
      if (locals_[i - 1].variable == variable) return locals_[i - 1].value;
    }
    return globals_[static_cast<size_t>(variable)];
  }

  /// Scopes are searched one by one, which a template with thousands of variables must pay for.
  void charge_scan() { context_.charge((locals_.size() - frame_begin_) / 8); }

  void assign(int variable, Value value) {
    if (scopes_.empty()) {
      globals_[static_cast<size_t>(variable)] = std::move(value);
      return;
    }
    charge_scan();
    for (size_t i = locals_.size(); i > scopes_.back().begin; --i) {
      if (locals_[i - 1].variable == variable) {
        locals_[i - 1].value = std::move(value);
        return;
      }
    }
    locals_.push_back({variable, std::move(value)});
  }

  void assign(const Target& target, Value value) {
    if (!target.attribute.empty()) {
      const Value space = lookup(target.variables[0]);
      if (!space.is<NamespacePtr>())
        context_.error("attribute {} can be set on a namespace only, found {}", json_literal(target.attribute),
                       space.type_name());
      context_.charge(space.as<NamespacePtr>()->entries.size() / 8);
      space.as<NamespacePtr>()->set(target.attribute, std::move(value));
    } else if (!target.unpack) {
      assign(target.variables[0], std::move(value));
    } else {
      const ListPtr items = iterate(value, context_);
      if (items->items.size() != target.variables.size())
        context_.error("{} values for {} variables", items->items.size(), target.variables.size());
      for (size_t i = 0; i < target.variables.size(); ++i) assign(target.variables[i], items->items[i]);
    }
  }

  // --- statements -----------------------------------------------------------------------------------------------
  void write(std::string_view text) {
    context_.charge_bytes(text.size());
    context_.check_text_bytes(out_->size() + text.size());
    out_->append(text);
  }

  Flow run_block(const Block& block) {
    const Context::OpenCall open(context_);
    for (const auto& statement : block) {
      if (const Flow flow = run_statement(*statement); flow != Flow::next) return flow;
    }
    return Flow::next;
  }

  Flow run_statement(const Statement& statement) {
    context_.position = statement.position;
    context_.charge(1);
    switch (statement.kind) {
      case Statement::Kind::text: write(statement.text); return Flow::next;
      case Statement::Kind::output: write_value(eval(*statement.expression)); return Flow::next;
      case Statement::Kind::if_chain:
        for (size_t i = 0; i < statement.blocks.size(); ++i) {
          if (statement.conditions[i] == nullptr || eval(*statement.conditions[i]).truth())
            return run_block(statement.blocks[i]);
        }
        return Flow::next;
      case Statement::Kind::for_loop: return run_for(statement);
      case Statement::Kind::set: assign(statement.target, eval(*statement.expression)); return Flow::next;
      case Statement::Kind::set_block: assign(statement.target, captured_value(statement)); return Flow::next;
      case Statement::Kind::filter_block: write_value(captured_value(statement)); return Flow::next;
      case Statement::Kind::macro: assign(statement.target, macro(statement)); return Flow::next;
      case Statement::Kind::call_block: {
        const Value caller = macro(statement);
        write_value(eval_call(*statement.expression, caller));
        return Flow::next;
      }
      case Statement::Kind::with: return run_with(statement);
      case Statement::Kind::break_loop: return Flow::break_loop;
      case Statement::Kind::continue_loop: return Flow::continue_loop;
      case Statement::Kind::group: return run_block(statement.blocks[0]);
    }
    return Flow::next;
  }

  void write_value(const Value& value) {
    if (value.is_string()) {
      write(value.string());
    } else {
      write(to_text(value, context_));
    }
  }

  /// A block's output, in a scope of its own.
  std::string capture(const Block& block) {
    std::string out;
    std::string* const outer = std::exchange(out_, &out);
    try {
      const Scope scope(*this);
      run_block(block);
    } catch (...) {
      out_ = outer;
      throw;
    }
    out_ = outer;
    return out;
  }

  /// A block's output behind its filters.
  Value captured_value(const Statement& statement) {
    Value text = context_.text(capture(statement.blocks[0]));
    if (statement.expression == nullptr) return text;
    captured_ = std::move(text);
    return eval(*statement.expression);
  }

  using Variables = std::vector<std::pair<int, Value>>;

  Variables locals_between(size_t begin, size_t end) {
    context_.charge(end - begin);
    Variables variables;
    for (size_t i = begin; i < end; ++i) variables.emplace_back(locals_[i].variable, locals_[i].value);
    return variables;
  }

  Value macro(const Statement& statement) {
    return context_.macro({.statement = &statement,
                           .scope = scopes_.empty() ? 0 : scopes_.back().id,
                           .frame_begin = frame_begin_,
                           .around = locals_between(frame_begin_, locals_.size())});
  }

  /// What a macro sees now, besides the global variables.
  Variables around(const Macro& macro) {
    context_.charge(scopes_.size() / 8);
    const auto scope =
        std::find_if(scopes_.begin(), scopes_.end(), [&](const OpenScope& s) { return s.id == macro.scope; });
    if (scope == scopes_.end()) return macro.around;
    return locals_between(macro.frame_begin, scope + 1 == scopes_.end() ? locals_.size() : scope[1].begin);
  }

  Flow run_with(const Statement& statement) {
    std::vector<Local> values;  // none of them sees another one
    for (const Parameter& parameter : statement.parameters)
      values.push_back({parameter.variable, eval(*parameter.fallback)});
    const Scope scope(*this);
    locals_.insert(locals_.end(), values.begin(), values.end());
    return run_block(statement.blocks[0]);
  }

  Flow run_for(const Statement& statement) {
    ListPtr items = iterate(eval(*statement.expression), context_);
    if (statement.condition != nullptr) items = filtered(statement, *items);
    if (items->items.empty()) {
      if (statement.blocks.size() < 2) return Flow::next;
      const Scope scope(*this);
      return run_block(statement.blocks[1]);
    }
    const auto loop = std::make_shared<Loop>(Loop{items, 0});
    Scope scope(*this);
    for (size_t i = 0; i < items->items.size(); ++i) {
      context_.position = statement.position;
      context_.charge(1);
      scope.clear();
      loop->index0 = i;
      locals_.push_back({template_.loop_variable, loop});
      assign(statement.target, items->items[i]);
      if (run_block(statement.blocks[0]) == Flow::break_loop) break;
    }
    return Flow::next;
  }

  ListPtr filtered(const Statement& statement, const List& all) {
    std::vector<Value> kept;
    Scope scope(*this);
    for (const Value& item : all.items) {
      context_.charge(1);
      scope.clear();
      assign(statement.target, item);
      if (eval(*statement.condition).truth()) kept.push_back(item);
    }
    return context_.list(std::move(kept)).as<ListPtr>();
  }

  // --- expressions ----------------------------------------------------------------------------------------------
  Value eval(const Expression& expression) {
    using Kind = Expression::Kind;
    const Context::OpenCall open(context_);
    context_.charge(1);
    const auto child = [&](size_t i) { return eval(*expression.children[i]); };
    switch (expression.kind) {
      case Kind::literal: return expression.constant;
      case Kind::variable: return lookup(expression.variable);
      case Kind::list:
      case Kind::tuple: {
        std::vector<Value> items;
        for (size_t i = 0; i < expression.children.size(); ++i) items.push_back(child(i));
        return at(expression).list(std::move(items), expression.kind == Kind::tuple);
      }
      case Kind::dict: return eval_dict(expression);
      case Kind::attribute: {
        const Value object = child(0);
        return get_attribute(object, expression.name, at(expression));
      }
      case Kind::index: {
        const Value object = child(0), key = child(1);
        return get_item(object, key, at(expression));
      }
      case Kind::slice: {
        const Value object = child(0);
        Value bounds[3];
        for (size_t i = 0; i < 3; ++i) {
          if (expression.children[i + 1] != nullptr) bounds[i] = child(i + 1);
        }
        return slice(object, bounds[0], bounds[1], bounds[2], at(expression));
      }
      case Kind::call: return eval_call(expression, Value());
      case Kind::filter: {
        const Value value = child(0);
        const ArgumentValues arguments = eval_arguments(expression);
        return apply_filter(expression.name, value, arguments.view(), at(expression));
      }
      case Kind::test: {
        const Value value = child(0);
        const ArgumentValues arguments = eval_arguments(expression);
        return apply_test(expression.name, value, arguments.view(), at(expression)) != expression.negated;
      }
      case Kind::negate: {
        const Value value = child(0);
        return negate(value, at(expression));
      }
      case Kind::plus: {
        Value value = child(0);
        if (!value.is_number()) at(expression).error("+ {} is not supported", value.type_name());
        return value;
      }
      case Kind::logical_not: return !child(0).truth();
      case Kind::logical_and:
      case Kind::logical_or: {
        Value value;
        for (size_t i = 0; i < expression.children.size(); ++i) {
          value = child(i);
          if (value.truth() == (expression.kind == Kind::logical_or)) break;
        }
        return value;
      }
      case Kind::concat: {
        std::string text;
        for (size_t i = 0; i < expression.children.size(); ++i) append_text(text, child(i), at(expression));
        return at(expression).text(std::move(text));
      }
      case Kind::arithmetic: {
        Value value = child(0);
        for (size_t i = 0; i < expression.operators.size(); ++i) {
          const Value right = child(i + 1);
          value = arithmetic(expression.operators[i], value, right, at(expression));
        }
        return value;
      }
      case Kind::compare: return eval_compare(expression);
      case Kind::conditional:
        if (child(0).truth()) return child(1);
        return expression.children[2] != nullptr ? child(2) : Value();
      case Kind::captured: return captured_;
    }
    return {};
  }

  /// The context, telling of this expression from now on.
  Context& at(const Expression& expression) {
    context_.position = expression.position;
    return context_;
  }

  Value eval_dict(const Expression& expression) {
    std::vector<std::pair<std::string, Value>> entries;
    std::vector<Value> keys;
    for (size_t i = 0; i < expression.children.size(); i += 2) {
      const Value key = eval(*expression.children[i]);
      set_entry(entries, keys, key, eval(*expression.children[i + 1]), at(expression));
    }
    return at(expression).dict(std::move(entries), std::move(keys));
  }

  Value eval_compare(const Expression& expression) {
    Value left = eval(*expression.children[0]);
    for (size_t i = 0; i < expression.operators.size(); ++i) {
      Value right = eval(*expression.children[i + 1]);
      if (!compare(expression.operators[i], left, right, at(expression))) return false;
      left = std::move(right);
    }
    return true;
  }

  /// What CallArguments are a view of.
  struct ArgumentValues {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;

    CallArguments view() const { return {positional, named}; }
  };

  ArgumentValues eval_arguments(const Expression& expression) {
    ArgumentValues result;
    const auto add_named = [&](const std::string& name, Value value) {
      context_.charge_bytes(name.size(), 1 + result.named.size() / 8);
      const auto is_same = [&](const auto& known) { return known.first == name; };
      if (std::any_of(result.named.begin(), result.named.end(), is_same))
        at(expression).error("argument {} is given twice", json_literal(name));
      result.named.emplace_back(name, std::move(value));
    };
    for (const Argument& argument : expression.arguments) {
      Value value = eval(*argument.value);
      switch (argument.kind) {
        case Argument::Kind::positional: result.positional.push_back(std::move(value)); break;
        case Argument::Kind::named: add_named(argument.name, std::move(value)); break;
        case Argument::Kind::items: {
          const ListPtr items = iterate(value, at(expression));
          context_.charge(items->items.size());
          result.positional.insert(result.positional.end(), items->items.begin(), items->items.end());
          break;
        }
        case Argument::Kind::entries: {
          if (!value.is_dict() || !value.as<DictPtr>()->keys.empty())
            at(expression).error("** of a {}, expected a dict with names as keys", value.type_name());
          for (const auto& [name, entry] : value.as<DictPtr>()->entries) add_named(name, entry);
        }
      }
    }
    return result;
  }

  /// `caller`: the body of a call block, which the macro calls; else undefined.
  Value eval_call(const Expression& expression, const Value& caller) {
    const Expression& callee = *expression.children[0];
    if (callee.kind == Expression::Kind::attribute) {
      const Value object = eval(*callee.children[0]);
      // A namespace may hold a macro.
      const Value* member = object.is<NamespacePtr>() ? object.as<NamespacePtr>()->find(callee.name) : nullptr;
      if (member == nullptr || !member->is_callable()) {
        if (!caller.is_undefined()) at(callee).error("a call block calls a macro");
        const ArgumentValues arguments = eval_arguments(expression);
        return call_method(object, callee.name, arguments.view(), at(callee));
      }
      const Value target = *member;  // a copy: the arguments may change the namespace
      return call(target, expression, caller);
    }
    const Value function = eval(callee);
    if (!function.is_callable()) {
      const std::string name = callee.kind == Expression::Kind::variable ? callee.name : function.type_name();
      at(callee).error("call of {} is not allowed", json_literal(name));
    }
    return call(function, expression, caller);
  }

  /// REQUIRES a `target` that no template can change: it is used behind the evaluation of the arguments.
  Value call(const Value& target, const Expression& expression, const Value& caller) {
    const ArgumentValues arguments = eval_arguments(expression);
    if (target.is<MacroPtr>()) return call_macro(target, arguments.view(), expression, caller);
    if (!caller.is_undefined()) at(expression).error("a call block calls a macro");
    Value result = call_function(target.as<Function>(), arguments.view(), at(expression));
    if (result.is<NamespacePtr>()) namespaces_.push_back(result.as<NamespacePtr>());
    return result;
  }

  Value call_macro(const Value& target, const CallArguments& arguments, const Expression& expression,
                   const Value& caller) {
    const MacroPtr held = target.as<MacroPtr>();
    const Statement& macro = *held->statement;
    if (macro_depth_ >= kMaxDepth)
      at(expression).error("macro calls nested deeper than the limit of depth {}", kMaxDepth);
    if (arguments.positional.size() > macro.parameters.size())
      at(expression)
          .error("macro {} takes {} arguments, found {}", json_literal(macro.text), macro.parameters.size(),
                 arguments.positional.size());
    context_.charge((arguments.named.size() + 1) * macro.parameters.size() / 8);
    for (const auto& [name, value] : arguments.named) {
      const auto same_name = [&, &wanted = name](const Parameter& parameter) { return parameter.name == wanted; };
      const auto it = std::find_if(macro.parameters.begin(), macro.parameters.end(), same_name);
      if (it == macro.parameters.end())
        at(expression).error("macro {} has no argument {}", json_literal(macro.text), json_literal(name));
      if (static_cast<size_t>(it - macro.parameters.begin()) < arguments.positional.size())
        at(expression).error("macro {}: argument {} is given twice", json_literal(macro.text), json_literal(name));
    }
    ++macro_depth_;
    const Variables around_it = around(*held);
    const size_t outer_frame = std::exchange(frame_begin_, locals_.size());
    std::string out;
    std::string* const outer_out = std::exchange(out_, &out);
    // After a throw the whole rendering is given up, so nothing needs restoring but what destructors read.
    {
      const Scope scope(*this);
      context_.charge(around_it.size());
      for (const auto& [variable, value] : around_it) locals_.push_back({variable, value});
      const auto is_itself = [&](const auto& each) { return each.first == macro.target.variables[0]; };
      if (held->scope != 0 && macro.kind == Statement::Kind::macro &&
          std::none_of(around_it.begin(), around_it.end(), is_itself))  // when it was made it did not stand there yet
        locals_.push_back({macro.target.variables[0], target});
      if (macro.kind == Statement::Kind::macro) locals_.push_back({template_.caller_variable, caller});
      for (size_t i = 0; i < macro.parameters.size(); ++i) {
        const Parameter& parameter = macro.parameters[i];
        locals_.push_back({parameter.variable, Value()});  // a default that names its own parameter finds nothing
        Value value;
        const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                        [&](const auto& argument) { return argument.first == parameter.name; });
        if (i < arguments.positional.size()) {
          value = arguments.positional[i];
        } else if (named != arguments.named.end()) {
          value = named->second;
        } else if (parameter.variable == template_.caller_variable && !caller.is_undefined()) {
          value = caller;
        } else if (parameter.fallback != nullptr) {
          value = eval(*parameter.fallback);
        }
        locals_.back().value = std::move(value);
      }
      run_block(macro.blocks[0]);
    }
    out_ = outer_out;
    frame_begin_ = outer_frame;
    --macro_depth_;
    return at(expression).text(std::move(out));
  }

  const Template& template_;
  Context context_;
  std::vector<Value> globals_;     // [names]
  std::vector<Local> locals_;      // innermost last
  size_t frame_begin_ = 0;         // locals before it belong to callers of the running macro
  std::vector<OpenScope> scopes_;  // innermost last
  uint64_t last_scope_ = 0;
  int macro_depth_ = 0;
  std::string* out_ = nullptr;
  Value captured_;  // what the filters of a block are for
  std::vector<NamespacePtr> namespaces_;
};

}  // namespace

std::string evaluate(const Template& chat_template, const std::vector<std::pair<std::string, Value>>& variables,
                     std::optional<std::time_t> now) {
  return Evaluator(chat_template, now).run(variables);
}

}  // namespace paceline::jinja
