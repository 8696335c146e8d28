// Filters and tests of the allow-list.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/jinja/builtins.h"
#include "engine/jinja/operations.h"
#include "engine/jinja/text.h"
#include "engine/util/json_io.h"

namespace paceline::jinja {

namespace {

using Filter = Value (*)(const Value&, const CallArguments&, Context&);
using Test = bool (*)(const Value&, const CallArguments&, Context&);

/// Jinja's attribute paths: "function.name", or an index.
Value follow(const Value& object, const Value& path, Context& context) {
  if (!path.is_string()) return get_item(object, path, context);
  Value value = object;
  for (const std::string_view part : split(path.string(), ".", -1)) {
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && parsed.ptr == part.data() + part.size() && parsed.ec == std::errc();
    context.charge(1);
    value = get_item(value, is_index ? Value(index) : context.text(std::string(part)), context);
  }
  return value;
}

/// Text whose characters are looked up in Unicode's tables, which costs more than copying.
std::string cased_text(const Value& value, Context& context) {
  std::string text = to_text(value, context);
  context.charge(text.size() / 4);
  return text;
}

Value text_filter(const Value& value, Context& context, std::string (*function)(std::string_view)) {
  return context.text(function(cased_text(value, context)));
}

Value filter_trim(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("trim", arguments, {"chars"}, 0, context);
  std::optional<std::string_view> chars;
  if (bound[0] && !bound[0]->is_none()) chars = string_argument("trim", "chars", *bound[0], context);
  if (chars && chars->size() > 256) context.error("trim with {} bytes of characters", chars->size());
  const std::string text = to_text(value, context);
  if (chars) context.charge_bytes(text.size() * chars->size() / 16);
  return context.text(std::string(strip(text, Side::both, chars)));
}

Value filter_join(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("join", arguments, {"d", "attribute"}, 0, context);
  const std::string separator = bound[0] ? to_text(*bound[0], context) : std::string();
  std::string out;
  bool first = true;
  const ListPtr items = iterate(value, context);
  for (const Value& item : items->items) {
    if (!std::exchange(first, false)) out += separator;
    context.charge_bytes(separator.size());
    append_text(out, bound[1] ? follow(item, *bound[1], context) : item, context);
    context.check_text_bytes(out.size());
  }
  return context.text(std::move(out));
}

Value filter_default(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("default", arguments, {"default_value", "boolean"}, 0, context);
  const bool also_falsy = bound[1] && bound[1]->truth();
  if (!value.is_undefined() && !(also_falsy && !value.truth())) return value;
  return bound[0] ? *bound[0] : context.text({});
}

Value filter_map(const Value& value, const CallArguments& arguments, Context& context) {
  const ListPtr items = iterate(value, context);
  std::vector<Value> result;
  if (arguments.positional.empty()) {
    const auto bound = bind("map", arguments, {"attribute", "default"}, 1, context);
    for (const Value& item : items->items) {
      Value found = follow(item, *bound[0], context);
      result.push_back(found.is_undefined() && bound[1] ? *bound[1] : std::move(found));
    }
    return context.list(std::move(result));
  }
  const std::string& name = string_argument("map", "filter", arguments.positional[0], context);
  for (const Value& item : items->items) result.push_back(apply_filter(name, item, arguments.rest(), context));
  return context.list(std::move(result));
}

enum class Keep { matching, others };
enum class By { item, attribute };

Value filter_select(std::string_view filter, const Value& value, const CallArguments& arguments, Keep keep, By by,
                    Context& context) {
  CallArguments rest = arguments;
  const auto take = [&] {
    const Value& first = rest.positional.front();
    rest = rest.rest();
    return first;
  };
  Value attribute;
  if (by == By::attribute) {
    if (rest.positional.empty()) context.error("{} needs the name of an attribute", filter);
    attribute = take();
  }
  std::string test;
  if (!rest.positional.empty()) {
    const Value name = take();
    test = string_argument(filter, "test", name, context);
  }
  std::vector<Value> result;
  const ListPtr items = iterate(value, context);
  for (const Value& item : items->items) {
    context.charge(1);
    const Value subject = by == By::attribute ? follow(item, attribute, context) : item;
    const bool match = test.empty() ? subject.truth() : apply_test(test, subject, rest, context);
    if (match == (keep == Keep::matching)) result.push_back(item);
  }
  return context.list(std::move(result));
}

Value filter_int(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("int", arguments, {"default"}, 0, context);
  if (value.is_integer()) return value.integer();
  const Value fallback = bound[0].value_or(int64_t{0});
  double real = std::nan("");
  if (value.is<double>()) {
    real = value.as<double>();
  } else if (value.is_string()) {
    std::string_view text = strip(value.string(), Side::both);
    if (text.starts_with('+')) text.remove_prefix(1);
    const char* const end = text.data() + text.size();
    int64_t integer = 0;
    if (const auto parsed = std::from_chars(text.data(), end, integer); !text.empty() && parsed.ptr == end) {
      if (parsed.ec != std::errc()) context.error("integer overflow");
      return integer;
    }
    if (const auto parsed = std::from_chars(text.data(), end, real); parsed.ptr != end || parsed.ec != std::errc())
      return fallback;
  } else if (value.is_undefined()) {
    context.error("int of something that is undefined");
  } else {
    return fallback;
  }
  if (!std::isfinite(real)) return fallback;
  if (std::fabs(real) >= 9.2e18) context.error("integer overflow");
  return static_cast<int64_t>(real);
}

Value filter_float(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("float", arguments, {"default"}, 0, context);
  if (value.is_number()) return value.number();
  if (value.is_string()) {
    std::string_view text = strip(value.string(), Side::both);
    if (text.starts_with('+')) text.remove_prefix(1);
    double real = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), real);
    if (!text.empty() && parsed.ptr == text.data() + text.size() && parsed.ec == std::errc()) return real;
  }
  return bound[0].value_or(0.0);
}

Value filter_replace(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("replace", arguments, {"old", "new", "count"}, 2, context);
  const bool limited = bound[2] && !bound[2]->is_none();
  auto result = replace(to_text(value, context), to_text(*bound[0], context), to_text(*bound[1], context),
                        limited ? integer_argument("replace", "count", *bound[2], context) : -1, kMaxTextBytes);
  if (!result) context.check_text_bytes(kMaxTextBytes + 1);
  return context.text(std::move(*result));
}

Value filter_unique(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("unique", arguments, {"case_sensitive", "attribute"}, 0, context);
  const bool case_sensitive = bound[0] && bound[0]->truth();
  std::vector<Value> keys, result;
  const ListPtr items = iterate(value, context);
  for (const Value& item : items->items) {
    Value key = bound[1] ? follow(item, *bound[1], context) : item;
    if (key.is_string() && !case_sensitive) key = text_filter(key, context, lower);
    const bool seen = std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key, context); });
    if (seen) continue;
    keys.push_back(std::move(key));
    result.push_back(item);
  }
  return context.list(std::move(result));
}

Value filter_tojson(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("tojson", arguments, {"indent", "ensure_ascii", "separators", "sort_keys"}, 0, context);
  JsonStyle style;
  if (bound[0] && !bound[0]->is_none()) {
    const int64_t indent = integer_argument("tojson", "indent", *bound[0], context);
    if (indent < 0 || indent > 64) context.error("tojson indent {}, expected 0 to 64", indent);
    style.indent = static_cast<int>(indent);
    style.item_separator.pop_back();  // Python leaves no blank at the end of a line
  }
  style.ensure_ascii = bound[1] && bound[1]->truth();
  style.sort_keys = bound[3] && bound[3]->truth();
  if (bound[2] && !bound[2]->is_none()) {
    if (!bound[2]->is_list() || bound[2]->items().size() != 2) context.error("tojson: separators must be a pair");
    style.item_separator = string_argument("tojson", "separators", bound[2]->items()[0], context);
    style.key_separator = string_argument("tojson", "separators", bound[2]->items()[1], context);
  }
  return context.text(to_json(value, style, context));
}

Value filter_indent(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("indent", arguments, {"width", "first", "blank"}, 0, context);
  std::string pad(4, ' ');
  if (bound[0] && bound[0]->is_string()) {
    pad = bound[0]->string();
  } else if (bound[0]) {
    const int64_t width = integer_argument("indent", "width", *bound[0], context);
    if (width < 0 || width > 256) context.error("indent width {}, expected 0 to 256", width);
    pad.assign(static_cast<size_t>(width), ' ');
  }
  const bool indent_first = bound[1] && bound[1]->truth(), indent_blank = bound[2] && bound[2]->truth();
  const std::string text = to_text(value, context);
  std::string out;
  bool first = true;
  for (const std::string_view line : split(text, "\n", -1)) {
    if (!first) out.push_back('\n');
    if (first ? indent_first : indent_blank || !line.empty()) out += pad;
    first = false;
    out += line;
    context.charge_bytes(line.size() + pad.size());
    context.check_text_bytes(out.size());
  }
  return context.text(std::move(out));
}

Value pairs(std::vector<std::pair<std::string, Value>> entries, Context& context) {
  std::vector<Value> result;
  for (auto& [key, item] : entries) result.push_back(context.list({context.text(key), item}, true));
  return context.list(std::move(result));
}

Value filter_items(const Value& value, const CallArguments& arguments, Context& context) {
  bind("items", arguments, {}, 0, context);
  if (value.is_undefined()) return context.list({});
  if (!value.is_dict()) context.error("items of a {}, expected a dict", value.type_name());
  return pairs(value.as<DictPtr>()->entries, context);
}

/// By key, without regard to case.
Value filter_dictsort(const Value& value, const CallArguments& arguments, Context& context) {
  bind("dictsort", arguments, {}, 0, context);
  if (!value.is_dict()) context.error("dictsort of a {}, expected a dict", value.type_name());
  auto entries = value.as<DictPtr>()->entries;
  context.charge(16 * entries.size());
  for (const auto& entry : entries) context.charge_bytes(16 * entry.first.size());
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return lower(a.first) < lower(b.first); });
  return pairs(std::move(entries), context);
}

Value filter_reverse(const Value& value, const CallArguments& arguments, Context& context) {
  bind("reverse", arguments, {}, 0, context);
  if (value.is_string()) return slice(value, None{}, None{}, int64_t{-1}, context);
  const ListPtr items = iterate(value, context);
  context.charge(items->items.size());
  return context.list({items->items.rbegin(), items->items.rend()});
}

Value filter_abs(const Value& value, const CallArguments& arguments, Context& context) {
  bind("abs", arguments, {}, 0, context);
  if (!value.is_number()) context.error("abs of a {}", value.type_name());
  if (value.number() < 0) return negate(value, context);
  return value.is_integer() ? Value(value.integer()) : value;
}

Value filter_end(const Value& value, bool last, const CallArguments& arguments, Context& context) {
  bind(last ? "last" : "first", arguments, {}, 0, context);
  const ListPtr items = iterate(value, context);
  if (items->items.empty()) return {};
  return last ? items->items.back() : items->items.front();
}

Value filter_list(const Value& value, const CallArguments& arguments, Context& context) {
  bind("list", arguments, {}, 0, context);
  const ListPtr items = iterate(value, context);
  context.charge(items->items.size());
  return items->tuple ? context.list(items->items) : Value(items);
}

Value filter_string(const Value& value, const CallArguments& arguments, Context& context) {
  bind("string", arguments, {}, 0, context);
  return value.is_string() ? value : context.text(to_text(value, context));
}

Value filter_length(const Value& value, const CallArguments& arguments, Context& context) {
  bind("length", arguments, {}, 0, context);
  return length(value, context);
}

template <std::string (*function)(std::string_view)>
Value filter_case(const Value& value, const CallArguments& arguments, Context& context) {
  bind("this filter", arguments, {}, 0, context);
  return text_filter(value, context, function);
}

const std::unordered_map<std::string_view, Filter>& filters() {
  static const std::unordered_map<std::string_view, Filter> table{
      {"abs", filter_abs},
      {"capitalize", filter_case<capitalize>},
      {"count", filter_length},
      {"d", filter_default},
      {"default", filter_default},
      {"dictsort", filter_dictsort},
      {"first", [](const Value& v, const CallArguments& a, Context& c) { return filter_end(v, false, a, c); }},
      {"float", filter_float},
      {"indent", filter_indent},
      {"int", filter_int},
      {"items", filter_items},
      {"join", filter_join},
      {"last", [](const Value& v, const CallArguments& a, Context& c) { return filter_end(v, true, a, c); }},
      {"length", filter_length},
      {"list", filter_list},
      {"lower", filter_case<lower>},
      {"map", filter_map},
      {"reject", [](const Value& v, const CallArguments& a,
                    Context& c) { return filter_select("reject", v, a, Keep::others, By::item, c); }},
      {"rejectattr", [](const Value& v, const CallArguments& a,
                        Context& c) { return filter_select("rejectattr", v, a, Keep::others, By::attribute, c); }},
      {"replace", filter_replace},
      {"reverse", filter_reverse},
      {"safe", filter_string},
      {"select", [](const Value& v, const CallArguments& a,
                    Context& c) { return filter_select("select", v, a, Keep::matching, By::item, c); }},
      {"selectattr", [](const Value& v, const CallArguments& a,
                        Context& c) { return filter_select("selectattr", v, a, Keep::matching, By::attribute, c); }},
      {"string", filter_string},
      {"title", filter_case<title_words>},
      {"tojson", filter_tojson},
      {"trim", filter_trim},
      {"unique", filter_unique},
      {"upper", filter_case<upper>},
  };
  return table;
}

Value only_argument(std::string_view test, const CallArguments& arguments, Context& context) {
  return *bind(test, arguments, {"other"}, 1, context)[0];
}

template <Operator op>
bool test_compare(const Value& value, const CallArguments& arguments, Context& context) {
  return compare(op, value, only_argument("a comparing test", arguments, context), context);
}

int64_t remainder(const Value& value, int64_t divisor, Context& context) {
  if (!value.is_integer()) context.error("expected an integer, found {}", value.type_name());
  if (divisor == 0) context.error("division by zero");
  return divisor == -1 ? 0 : value.integer() % divisor;
}

const std::unordered_map<std::string_view, Test>& tests() {
  using A = CallArguments;
  using C = Context;
  static const std::unordered_map<std::string_view, Test> table{
      {"defined", [](const Value& v, const A&, C&) { return !v.is_undefined(); }},
      {"undefined", [](const Value& v, const A&, C&) { return v.is_undefined(); }},
      {"none", [](const Value& v, const A&, C&) { return v.is_none(); }},
      {"string", [](const Value& v, const A&, C&) { return v.is_string(); }},
      {"mapping", [](const Value& v, const A&, C&) { return v.is_dict(); }},
      // Undefined can be looped over and has a length, so Jinja says yes to both.
      {"iterable",
       [](const Value& v, const A&, C&) { return v.is_list() || v.is_dict() || v.is_string() || v.is_undefined(); }},
      {"sequence",
       [](const Value& v, const A&, C&) { return v.is_list() || v.is_dict() || v.is_string() || v.is_undefined(); }},
      {"number", [](const Value& v, const A&, C&) { return v.is_number(); }},
      {"integer", [](const Value& v, const A&, C&) { return v.is<int64_t>(); }},
      {"float", [](const Value& v, const A&, C&) { return v.is<double>(); }},
      {"boolean", [](const Value& v, const A&, C&) { return v.is<bool>(); }},
      {"true", [](const Value& v, const A&, C&) { return v.is<bool>() && v.as<bool>(); }},
      {"false", [](const Value& v, const A&, C&) { return v.is<bool>() && !v.as<bool>(); }},
      {"callable", [](const Value& v, const A&, C&) { return v.is<Callable>(); }},
      {"odd", [](const Value& v, const A&, C& c) { return remainder(v, 2, c) != 0; }},
      {"even", [](const Value& v, const A&, C& c) { return remainder(v, 2, c) == 0; }},
      {"divisibleby",
       [](const Value& v, const A& a, C& c) {
         const Value other = only_argument("divisibleby", a, c);
         return remainder(v, integer_argument("divisibleby", "num", other, c), c) == 0;
       }},
      {"upper", [](const Value& v, const A&, C& c) { return is_upper(cased_text(v, c)); }},
      {"lower", [](const Value& v, const A&, C& c) { return is_lower(cased_text(v, c)); }},
      {"in", [](const Value& v, const A& a, C& c) { return contains(only_argument("in", a, c), v, c); }},
      {"equalto", test_compare<Operator::equal>},
      {"eq", test_compare<Operator::equal>},
      {"ne", test_compare<Operator::not_equal>},
      {"lt", test_compare<Operator::less>},
      {"lessthan", test_compare<Operator::less>},
      {"le", test_compare<Operator::less_equal>},
      {"gt", test_compare<Operator::greater>},
      {"greaterthan", test_compare<Operator::greater>},
      {"ge", test_compare<Operator::greater_equal>},
      {"==", test_compare<Operator::equal>},
      {"!=", test_compare<Operator::not_equal>},
      {"<", test_compare<Operator::less>},
      {"<=", test_compare<Operator::less_equal>},
      {">", test_compare<Operator::greater>},
      {">=", test_compare<Operator::greater_equal>},
  };
  return table;
}

}  // namespace

Value apply_filter(const std::string& name, const Value& value, const CallArguments& arguments, Context& context) {
  const Context::OpenCall open(context);
  context.charge(1);
  const auto it = filters().find(name);
  if (it == filters().end()) context.error("filter {} is not supported", json_literal(name));
  return it->second(value, arguments, context);
}

bool apply_test(const std::string& name, const Value& value, const CallArguments& arguments, Context& context) {
  const Context::OpenCall open(context);
  context.charge(1);
  const auto it = tests().find(name);
  if (it == tests().end()) context.error("test {} is not supported", json_literal(name));
  return it->second(value, arguments, context);
}

}  // namespace paceline::jinja
