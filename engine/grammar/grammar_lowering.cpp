// Expressions become rules. A repetition needs care: of a part that may stand for the empty text it would be recursion
// on the left, and a text would have as many readings as there are ways to spread the empty ones. So the part is
// repeated without its empty text ("filled"), which the repetition as a whole then has.

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "engine/grammar/grammar_builder.h"
#include "kernels/error.h"

namespace paceline {

class GrammarLowering {
 public:
  GrammarLowering(GrammarBuilder& from, GrammarBuilder::Expr root) : from_(from), root_(root) {}

  ByteGrammar run() {
    order_expressions();
    find_nullable();
    rule_of(root_, Form::whole);
    while (!tasks_.empty()) {
      const Task task = tasks_.front();
      tasks_.pop_front();
      emit(task);
      check();
    }
    find_productive();
    refuse_left_recursion();
    return compact();
  }

 private:
  using Expr = GrammarBuilder::Expr;
  using Kind = GrammarBuilder::Kind;
  using Node = GrammarBuilder::Node;
  using Item = ByteGrammar::Item;

  static constexpr int kStar = (1 << 29) - 1;

  /// What a rule is of an expression.
  enum class Form : uint8_t {
    whole,
    filled,       // without the empty text
    upto,         // of a part: at most `index` filled ones; kStar: any number
    tail,         // of a sequence: its parts from `index`
    filled_tail,  // the same without the empty text
  };
  struct Task {
    int32_t rule;
    Expr expr;
    Form form;
    int index;
  };

  const Node& node(Expr expr) const { return from_.nodes_[size_t(expr)]; }
  std::span<const Expr> parts(Expr expr) const {
    const Node& of = node(expr);
    if (of.kind == Kind::sequence || of.kind == Kind::any_of) {
      return std::span(from_.parts_).subspan(size_t(of.begin), size_t(of.count));
    }
    if (of.kind == Kind::bytes) return {};
    PACELINE_CHECK(of.part >= 0, "expression {} is declared and never defined", expr);
    return std::span(&of.part, 1);
  }
  bool nullable(Expr expr) const { return nullable_[size_t(expr)]; }

  void check() {
    const size_t bytes = rules_.size() * (sizeof(ByteGrammar::Range) + 40) + alternatives_.size() * 8 +
                         items_.size() * sizeof(Item) + from_.sets_.size() * sizeof(ByteSet);
    if (bytes > from_.limits_.max_bytes) {
      throw GrammarError("", "the grammar takes more than " + std::to_string(from_.limits_.max_bytes >> 20) + " MiB");
    }
    if (++checks_ % 1024 == 0) from_.check_time();
  }

  /// Parts before what they are part of, but for recursion.
  void order_expressions() {
    uses_.assign(from_.nodes_.size(), 0);
    std::vector<std::pair<Expr, size_t>> path = {{root_, 0}};
    uses_[size_t(root_)] = 2;  // it has a rule of its own
    while (!path.empty()) {
      auto& [expr, next] = path.back();
      const std::span<const Expr> children = parts(expr);
      if (next == children.size()) {
        order_.push_back(expr);
        path.pop_back();
        continue;
      }
      const Expr child = children[next++];
      if (uses_[size_t(child)]++ == 0) path.emplace_back(child, 0);
    }
  }

  void find_nullable() {
    nullable_.assign(from_.nodes_.size(), false);
    for (bool changed = true; changed; from_.check_time()) {
      changed = false;
      for (const Expr expr : order_) {
        if (nullable(expr)) continue;
        const auto of = parts(expr);
        const auto is_nullable = [this](Expr part) { return nullable(part); };
        const Kind kind = node(expr).kind;
        const bool now = kind == Kind::repeat && node(expr).least == 0 ? true
                         : kind == Kind::bytes                         ? false
                         : kind == Kind::any_of                        ? std::any_of(of.begin(), of.end(), is_nullable)
                                                                       : std::all_of(of.begin(), of.end(), is_nullable);
        if (now) nullable_[size_t(expr)] = changed = true;
      }
    }
  }

  int32_t rule_of(Expr expr, Form form, int index = 0) {
    if (form == Form::filled && !nullable(expr)) form = Form::whole;
    const uint64_t key = uint64_t(uint32_t(expr)) << 32 | uint64_t(form) << 29 | uint64_t(index);
    const auto [it, is_new] = rule_of_.try_emplace(key, int32_t(rules_.size()));
    if (is_new) {
      rules_.push_back({});
      tasks_.push_back({it->second, expr, form, index});
      if (node(expr).kind == Kind::declared && form == Form::whole) declared_.emplace(it->second, expr);
    }
    return it->second;
  }

  Item item_of(Expr expr, Form form, int index = 0) {
    const bool is_part = form == Form::whole || form == Form::filled;
    if (is_part && node(expr).kind == Kind::bytes) return {.bytes = node(expr).begin};
    return {.rule = rule_of(expr, form, index)};
  }

  // --- writing a rule's alternatives
  void begin_rule(int32_t rule) {
    rules_[size_t(rule)].begin = rules_[size_t(rule)].end = int32_t(alternatives_.size());
  }
  void begin_alternative(int32_t rule) {
    alternatives_.push_back({int32_t(items_.size()), int32_t(items_.size())});
    rules_[size_t(rule)].end = int32_t(alternatives_.size());
  }
  void add(Item item) {
    items_.push_back(item);
    alternatives_.back().end = int32_t(items_.size());
    if (items_.size() % 4096 == 0) check();
  }

  void add_repeat(Expr expr) {
    const Node& of = node(expr);
    const int least = nullable(of.part) ? 0 : of.least;
    for (int i = 0; i < least; ++i) add(item_of(of.part, Form::whole));
    if (of.most == GrammarBuilder::kUnbounded) {
      add(item_of(of.part, Form::upto, kStar));
    } else if (of.most > least) {
      add(item_of(of.part, Form::upto, of.most - least));
    }
  }

  /// The items of an expression; what is used here alone is written in place.
  void add_items(Expr whole, bool in_place) {
    std::vector<Expr> open = {whole};
    for (bool first = in_place; !open.empty(); first = false) {
      const Expr expr = open.back();
      open.pop_back();
      const Kind kind = node(expr).kind;
      if (kind == Kind::sequence && (first || uses_[size_t(expr)] == 1)) {
        const auto of = parts(expr);
        open.insert(open.end(), of.rbegin(), of.rend());
      } else if (kind == Kind::repeat && (first || uses_[size_t(expr)] == 1)) {
        add_repeat(expr);
      } else {
        add(item_of(expr, Form::whole));
      }
    }
  }

  void emit_whole(int32_t rule, Expr of) {
    // A declared expression is what its body is. A body that is declared, too, has a rule: two may name each other.
    const bool skip = node(of).kind == Kind::declared && node(parts(of)[0]).kind != Kind::declared;
    const Expr expr = skip ? parts(of)[0] : of;
    if (node(expr).kind == Kind::declared) {
      begin_alternative(rule);
      add(item_of(parts(expr)[0], Form::whole));
    } else if (node(expr).kind == Kind::any_of) {
      std::vector<Expr> open(parts(expr).rbegin(), parts(expr).rend());
      while (!open.empty()) {
        const Expr part = open.back();
        open.pop_back();
        if (node(part).kind == Kind::any_of && uses_[size_t(part)] == 1) {
          open.insert(open.end(), parts(part).rbegin(), parts(part).rend());
          continue;
        }
        begin_alternative(rule);
        add_items(part, false);
      }
    } else {
      begin_alternative(rule);
      add_items(expr, true);
    }
  }

  void emit_filled(int32_t rule, Expr expr) {
    const Node& of = node(expr);
    if (of.kind == Kind::sequence) {
      begin_alternative(rule);
      add(item_of(expr, Form::filled_tail, 0));
    } else if (of.kind == Kind::any_of || of.kind == Kind::declared) {
      for (const Expr part : parts(expr)) {
        begin_alternative(rule);
        add(item_of(part, Form::filled));
      }
    } else if (of.kind == Kind::repeat) {
      begin_alternative(rule);
      add(item_of(of.part, Form::filled));
      if (of.most == GrammarBuilder::kUnbounded) {
        add(item_of(of.part, Form::upto, kStar));
      } else if (of.most > 1) {
        add(item_of(of.part, Form::upto, of.most - 1));
      }
    }
  }

  void emit(const Task& task) {
    const auto& [rule, expr, form, index] = task;
    begin_rule(rule);
    switch (form) {
      case Form::whole: emit_whole(rule, expr); break;
      case Form::filled: emit_filled(rule, expr); break;
      case Form::upto:
        begin_alternative(rule);
        add(item_of(expr, Form::filled));
        if (index > 1) add(item_of(expr, Form::upto, index == kStar ? kStar : index - 1));
        begin_alternative(rule);
        break;
      case Form::tail:
        begin_alternative(rule);
        add(item_of(parts(expr)[size_t(index)], Form::whole));
        if (size_t(index) + 1 < parts(expr).size()) add(item_of(expr, Form::tail, index + 1));
        break;
      case Form::filled_tail:
        if (parts(expr).empty()) break;
        begin_alternative(rule);
        add(item_of(parts(expr)[size_t(index)], Form::filled));
        if (size_t(index) + 1 == parts(expr).size()) break;
        add(item_of(expr, Form::tail, index + 1));
        begin_alternative(rule);
        add(item_of(expr, Form::filled_tail, index + 1));
        break;
    }
  }

  // --- what becomes of the rules
  std::span<const ByteGrammar::Range> alternatives_of(int32_t rule) const {
    const ByteGrammar::Range range = rules_[size_t(rule)];
    return std::span(alternatives_).subspan(size_t(range.begin), size_t(range.end - range.begin));
  }
  std::span<const Item> items_of(ByteGrammar::Range alternative) const {
    return std::span(items_).subspan(size_t(alternative.begin), size_t(alternative.end - alternative.begin));
  }
  /// Whether each item of the alternative is a rule (or, if `bytes`, a byte) of which `flags` says yes.
  bool all_of(ByteGrammar::Range alternative, const std::vector<bool>& flags, bool bytes) const {
    const auto items = items_of(alternative);
    return std::all_of(items.begin(), items.end(),
                       [&](const Item& item) { return item.rule < 0 ? bytes : flags[size_t(item.rule)]; });
  }

  /// Rules of which one alternative has the property, in all of its items.
  std::vector<bool> closure(bool bytes) const {
    std::vector<bool> flags(rules_.size(), false);
    for (bool changed = true; changed; from_.check_time()) {
      changed = false;
      for (int32_t rule = int32_t(rules_.size()) - 1; rule >= 0; --rule) {  // most name rules behind them
        if (flags[size_t(rule)]) continue;
        const auto of = alternatives_of(rule);
        if (std::any_of(of.begin(), of.end(), [&](const auto& one) { return all_of(one, flags, bytes); })) {
          flags[size_t(rule)] = changed = true;
        }
      }
    }
    return flags;
  }

  void find_productive() {
    productive_ = closure(true);
    if (!productive_[0]) throw GrammarError("", "no text is within the grammar");
  }

  /// Rules that a text of `rule` may begin with.
  std::vector<int32_t> corners(int32_t rule, const std::vector<bool>& empty) const {
    std::vector<int32_t> rules;
    for (const ByteGrammar::Range& alternative : alternatives_of(rule)) {
      if (!all_of(alternative, productive_, true)) continue;
      for (const Item& item : items_of(alternative)) {
        if (item.rule < 0) break;
        rules.push_back(item.rule);
        if (!empty[size_t(item.rule)]) break;
      }
    }
    return rules;
  }

  void refuse_left_recursion() const {
    const std::vector<bool> empty = closure(false);
    enum class Seen : uint8_t { no, open, done };
    std::vector<Seen> seen(rules_.size(), Seen::no);
    struct Step {
      int32_t rule;
      std::vector<int32_t> corners;
      size_t next = 0;
    };
    for (int32_t start = 0; start < int32_t(rules_.size()); ++start) {
      if (seen[size_t(start)] != Seen::no) continue;
      std::vector<Step> path;
      path.push_back({start, corners(start, empty)});
      seen[size_t(start)] = Seen::open;
      while (!path.empty()) {
        Step& step = path.back();
        if (step.next == step.corners.size()) {
          seen[size_t(step.rule)] = Seen::done;
          path.pop_back();
          continue;
        }
        const int32_t rule = step.corners[step.next++];
        if (seen[size_t(rule)] == Seen::open) {
          size_t first = path.size() - 1;
          while (path[first].rule != rule) --first;
          std::string name;
          for (; first < path.size() && name.empty(); ++first) name = name_of(path[first].rule);
          throw GrammarError(name, "recursion on the left is not supported: a rule that begins with itself");
        }
        if (seen[size_t(rule)] == Seen::no) {
          seen[size_t(rule)] = Seen::open;
          path.push_back({rule, corners(rule, empty)});
        }
      }
      if (start % 1024 == 0) from_.check_time();
    }
  }
  std::string name_of(int32_t rule) const {
    const auto it = declared_.find(rule);
    if (it == declared_.end()) return {};
    const std::string& name = from_.names_[size_t(node(it->second).begin)];
    return name.empty() ? name : "rule \"" + name + "\"";
  }

  ByteGrammar compact() const {
    ByteGrammar grammar;
    std::vector<int32_t> new_rule(rules_.size(), -1), new_set(from_.sets_.size(), -1), kept;
    const auto keep = [&](int32_t rule) {
      if (new_rule[size_t(rule)] < 0) {
        new_rule[size_t(rule)] = int32_t(kept.size());
        kept.push_back(rule);
      }
      return new_rule[size_t(rule)];
    };
    grammar.root = keep(0);
    for (size_t at = 0; at < kept.size(); ++at) {
      ByteGrammar::Range rule = {int32_t(grammar.alternatives.size()), 0};
      for (const ByteGrammar::Range& alternative : alternatives_of(kept[at])) {
        if (!all_of(alternative, productive_, true)) continue;
        const int32_t begin = int32_t(grammar.items.size());
        for (Item item : items_of(alternative)) {
          if (item.rule >= 0) {
            item.rule = keep(item.rule);
          } else {
            int32_t& set = new_set[size_t(item.bytes)];
            if (set < 0) {
              set = int32_t(grammar.sets.size());
              grammar.sets.push_back(from_.sets_[size_t(item.bytes)]);
            }
            item.bytes = set;
          }
          grammar.items.push_back(item);
        }
        grammar.alternatives.push_back({begin, int32_t(grammar.items.size())});
      }
      rule.end = int32_t(grammar.alternatives.size());
      grammar.rules.push_back(rule);
    }
    return grammar;
  }

  GrammarBuilder& from_;
  const Expr root_;
  std::vector<Expr> order_;  // what can be reached
  std::vector<int> uses_;    // of each expression
  std::vector<bool> nullable_;
  std::unordered_map<uint64_t, int32_t> rule_of_;
  std::unordered_map<int32_t, Expr> declared_;  // rules with names
  std::deque<Task> tasks_;
  std::vector<ByteGrammar::Range> rules_, alternatives_;
  std::vector<Item> items_;
  std::vector<bool> productive_;  // rules that some text completes
  size_t checks_ = 0;
};

ByteGrammar GrammarBuilder::finish(Expr root) { return GrammarLowering(*this, root).run(); }

}  // namespace paceline
