#include "engine/grammar/json_schema.h"

#include <deque>
#include <optional>
#include <vector>

#include "engine/grammar/json_text.h"
#include "engine/grammar/schema_tree.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

/// Writes the schemas of a tree as expressions.
class SchemaWriter {
 public:
  using Expr = GrammarBuilder::Expr;

  SchemaWriter(const SchemaTree& tree, GrammarBuilder& to) : tree_(tree), text_(to), written_(tree.nodes().size()) {}

  ByteGrammar write(int root) {
    const Expr whole = schema(root);
    while (!open_.empty()) {
      const int node = open_.front();
      open_.pop_front();
      text_.to().define(*written_[size_t(node)], placed(node));
    }
    return text_.to().finish(whole);
  }

 private:
  /// Each schema is written once, however many places use it: else arrays within arrays would double the work.
  Expr schema(int node) {
    std::optional<Expr>& known = written_[size_t(node)];
    if (known) return *known;
    if (tree_.nodes()[size_t(node)].is_named) {
      known = text_.to().declare();
      open_.push_back(node);
    } else {
      known = placed(node);
    }
    return *known;
  }

  /// An error without a place gets the schema's.
  Expr placed(int node) {
    text_.to().check_time();
    try {
      return written(tree_.nodes()[size_t(node)]);
    } catch (const GrammarError& error) {
      if (!error.where().empty()) throw;
      throw GrammarError(tree_.pointer(node), error.what());
    }
  }

  Expr written(const SchemaNode& node) {
    std::vector<Expr> parts;
    switch (node.form) {
      case SchemaNode::Form::branches:
        for (const int branch : node.branches) parts.push_back(schema(branch));
        break;
      case SchemaNode::Form::literals:
        for (const Json* const value : node.literals) parts.push_back(text_.literal(*value));
        break;
      case SchemaNode::Form::kinds:
        if (node.kinds & kNull) parts.push_back(text_.to().text("null"));
        if (node.kinds & kBoolean) parts.push_back(text_.boolean());
        if (node.kinds & kInteger) parts.push_back(text_.integer(node.least, node.most));
        if (node.kinds & kNumber) parts.push_back(text_.number());
        if (node.kinds & kString)
          parts.push_back(node.pattern ? pattern(node) : text_.string(node.least_length, node.most_length));
        if (node.kinds & kArray) parts.push_back(array(node));
        if (node.kinds & kObject) parts.push_back(object(node));
        break;
    }
    return text_.to().any_of(parts);
  }

  Expr pattern(const SchemaNode& node) {
    try {
      return text_.pattern(*node.pattern);
    } catch (const GrammarError& error) {  // its place is in the pattern
      throw GrammarError(tree_.pointer(int(&node - tree_.nodes().data()), "pattern"), error.what());
    }
  }

  Expr array(const SchemaNode& node) {
    const int least = node.least_items, most = node.most_items;
    const int num_prefix = int(node.prefix_items.size());
    const auto item = [&](int i) { return schema(i < num_prefix ? node.prefix_items[size_t(i)] : node.items); };
    // From the back: what may follow `i` items. Behind the first and the prefix all items are alike.
    const int first_alike = std::max(num_prefix, 1);
    const auto left_of = [&](int count) { return most == SchemaNode::kUnbounded ? most : std::max(0, most - count); };
    Expr rest = text_.to().repeat(text_.all({text_.comma(), item(first_alike)}), std::max(0, least - first_alike),
                                  left_of(first_alike));
    for (int i = first_alike - 1; i >= 1; --i) {
      if (left_of(i) == 0) {
        rest = text_.to().text("");
        continue;
      }
      const Expr more = text_.all({text_.comma(), item(i), rest});
      rest = i >= least ? text_.to().optional(more) : more;
    }
    std::vector<Expr> forms;
    if (least == 0) forms.push_back(text_.to().text("[]"));
    if (most != 0) forms.push_back(text_.enclosed('[', text_.all({item(0), rest}), ']'));
    return text_.to().any_of(forms);
  }

  /// Each property is there or not, in order: by two expressions for what may follow, with a comma first and without.
  Expr object(const SchemaNode& node) {
    GrammarBuilder& to = text_.to();
    std::vector<Expr> members;
    std::vector<std::string> names;
    for (const SchemaProperty& property : node.properties) {
      members.push_back(text_.all({text_.name(property.name), schema(property.schema)}));
      names.push_back(property.name);
    }
    const bool has_others = tree_.nodes()[size_t(node.other_properties)].kinds != 0;
    Expr behind = to.text("");   // of what is there already
    Expr first = to.any_of({});  // where nothing is, something that is not empty
    if (has_others) {
      const Expr other = text_.all({text_.other_name(names), schema(node.other_properties)});
      behind = to.repeat(text_.all({text_.comma(), other}), 0, GrammarBuilder::kUnbounded);
      first = text_.all({other, behind});
    }
    bool may_be_empty = true;
    for (size_t i = members.size(); i-- > 0;) {
      const Expr here = text_.all({members[i], behind});
      const Expr next = text_.all({text_.comma(), here});
      if (node.properties[i].is_required) {
        first = here;
        behind = next;
        may_be_empty = false;
      } else {
        first = text_.one({here, first});
        behind = text_.one({next, behind});
      }
    }
    const Expr filled = text_.enclosed('{', first, '}');
    return may_be_empty ? text_.one({to.text("{}"), filled}) : filled;
  }

  const SchemaTree& tree_;
  JsonText text_;
  std::vector<std::optional<Expr>> written_;  // by schema
  std::deque<int> open_;                      // declared, not defined
};

}  // namespace

ByteGrammar json_schema_grammar(const Json& schema, const GrammarLimits& limits) {
  GrammarBuilder builder(limits);
  const SchemaTree tree(schema, builder);
  return SchemaWriter(tree, builder).write(0);
}

ByteGrammar json_object_grammar(const GrammarLimits& limits) {
  static const Json kAnyObject = {{"type", "object"}};
  return json_schema_grammar(kAnyObject, limits);
}

}  // namespace paceline
