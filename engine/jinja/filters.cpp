// Filters and tests of the allow-list.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
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

/// Jinja's attribute paths: "function.name", or an index. `missing`: what is not there, at each step.
Value follow(const Value& object, const Value& path, Context& context,
             const std::optional<Value>& missing = std::nullopt) {
  if (!path.is_string()) {
    const Value value = get_item(object, path, context);
    return value.is_undefined() && missing ? *missing : value;
  }
  Value value = object;
  for (const std::string_view part : split(path.string(), ".", -1)) {
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && parsed.ptr == part.data() + part.size() && parsed.ec == std::errc();
    context.charge(1);
    value = get_item(value, is_index ? Value(index) : context.text(std::string(part)), context);
    if (value.is_undefined() && missing) value = *missing;
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
  if (!value.truth()) return context.generator({});  // Jinja does not even look at the arguments
  const ListPtr items = iterate(value, context);
  std::vector<Value> result;
  if (arguments.positional.empty()) {
    const auto bound = bind("map", arguments, {"attribute", "default"}, 1, context);
    for (const Value& item : items->items) result.push_back(follow(item, *bound[0], context, bound[1]));
    return context.generator(std::move(result));
  }
  const std::string& name = string_argument("map", "filter", arguments.positional[0], context);
  for (const Value& item : items->items) result.push_back(apply_filter(name, item, arguments.rest(), context));
  return context.generator(std::move(result));
}

enum class Keep { matching, others };
enum class By { item, attribute };

Value filter_select(std::string_view filter, const Value& value, const CallArguments& arguments, Keep keep, By by,
                    Context& context) {
  if (!value.truth()) return context.generator({});
  CallArguments rest = arguments;
  const auto take = [&]() -> const Value& {
    const Value& first = rest.positional.front();
    rest = rest.rest();
    return first;
  };
  Value attribute;
  if (by == By::attribute) {
    if (rest.positional.empty()) context.error("{} needs the name of an attribute", filter);
    attribute = take();
  }
  const std::string* test = nullptr;
  if (!rest.positional.empty()) test = &string_argument(filter, "test", take(), context);
  std::vector<Value> result;
  const ListPtr items = iterate(value, context);
  for (const Value& item : items->items) {
    context.charge(1);
    const Value subject = by == By::attribute ? follow(item, attribute, context) : item;
    const bool match = test == nullptr ? subject.truth() : apply_test(*test, subject, rest, context);
    if (match == (keep == Keep::matching)) result.push_back(item);
  }
  return context.generator(std::move(result));
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
                        limited ? limit_argument("replace", "count", *bound[2], context) : -1, kMaxTextBytes);
  if (!result) context.check_text_bytes(kMaxTextBytes + 1);
  return context.text(std::move(*result));
}

enum class Case { ignored, counts };

/// Of an argument `case_sensitive`.
Case case_of(const std::optional<Value>& argument) {
  return argument && argument->truth() ? Case::counts : Case::ignored;
}

/// What an item is sorted and compared by: texts in lower case where their case is ignored.
Value sort_key(const Value& value, Case how, Context& context) {
  return value.is_string() && how == Case::ignored ? text_filter(value, context, lower) : value;
}

Value filter_unique(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("unique", arguments, {"case_sensitive", "attribute"}, 0, context);
  std::vector<Value> keys, result;
  const ListPtr items = iterate(value, context);
  for (const Value& item : items->items) {
    Value key = sort_key(bound[1] ? follow(item, *bound[1], context) : item, case_of(bound[0]), context);
    const bool seen = std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key, context); });
    if (seen) continue;
    keys.push_back(std::move(key));
    result.push_back(item);
  }
  return context.generator(std::move(result));
}

Value filter_tojson(const Value& value, const CallArguments& arguments, Context& context) {
  // Hugging Face's order, not Jinja's
  const auto bound = bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, context);
  JsonStyle style;
  if (bound[1] && !bound[1]->is_none()) {
    const int64_t indent = integer_argument("tojson", "indent", *bound[1], context);
    if (indent < 0 || indent > 64) context.error("tojson indent {}, expected 0 to 64", indent);
    style.indent = static_cast<int>(indent);
    style.item_separator.pop_back();  // Python leaves no blank at the end of a line
  }
  style.ensure_ascii = bound[0] && bound[0]->truth();
  style.sort_keys = bound[3] && bound[3]->truth();
  if (bound[2] && !bound[2]->is_none()) {
    if (!bound[2]->is_list() || bound[2]->items().size() != 2) context.error("tojson: separators must be a pair");
    style.item_separator = string_argument("tojson", "separators", bound[2]->items()[0], context);
    style.key_separator = string_argument("tojson", "separators", bound[2]->items()[1], context);
    context.charge_bytes(style.item_separator.size() + style.key_separator.size());
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
  const std::string text = to_text(value, context) + "\n";
  std::string out;
  bool first = true;
  for (const std::string_view line : split_lines(text)) {
    if (!first) out.push_back('\n');
    if (first ? indent_first : indent_blank || !line.empty()) out += pad;
    first = false;
    out += line;
    context.charge_bytes(line.size() + pad.size());
    context.check_text_bytes(out.size());
  }
  return context.text(std::move(out));
}

std::vector<Value> pairs_of(const Dict& dict, Context& context) {
  std::vector<Value> pairs;
  for (size_t entry = 0; entry < dict.entries.size(); ++entry)
    pairs.push_back(context.list({key_of(dict, entry, context), dict.entries[entry].second}, true));
  return pairs;
}

Value filter_items(const Value& value, const CallArguments& arguments, Context& context) {
  bind("items", arguments, {}, 0, context);
  if (value.is_undefined()) return context.generator({});
  if (!value.is_dict()) context.error("items of a {}, expected a dict", value.type_name());
  return context.generator(pairs_of(*value.as<DictPtr>(), context));
}

/// sorted(items, key, reverse): equal ones stay in order. keys[i]: what item i is sorted by, one after the other.
std::vector<Value> sorted(const std::vector<Value>& items, const std::vector<std::vector<Value>>& keys, bool reverse,
                          Context& context) {
  std::vector<size_t> order_of(items.size());
  std::iota(order_of.begin(), order_of.end(), size_t{0});
  const auto is_less = [&](size_t a, size_t b) {
    context.charge(1);
    for (size_t i = 0; i < keys[a].size(); ++i)
      if (!equal(keys[a][i], keys[b][i], context)) return order(keys[a][i], keys[b][i], context) < 0;
    return false;
  };
  std::stable_sort(order_of.begin(), order_of.end(),
                   [&](size_t a, size_t b) { return reverse ? is_less(b, a) : is_less(a, b); });
  std::vector<Value> result;
  for (const size_t i : order_of) result.push_back(items[i]);
  return result;
}

Value filter_dictsort(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0, context);
  if (!value.is_dict()) context.error("dictsort of a {}, expected a dict", value.type_name());
  const std::string by = bound[1] ? string_argument("dictsort", "by", *bound[1], context) : "key";
  if (by != "key" && by != "value") context.error("dictsort by {}, expected \"key\" or \"value\"", json_literal(by));
  const std::vector<Value> pairs = pairs_of(*value.as<DictPtr>(), context);
  std::vector<std::vector<Value>> keys;
  for (const Value& pair : pairs)
    keys.push_back({sort_key(pair.items()[by == "key" ? 0 : 1], case_of(bound[0]), context)});
  return context.list(sorted(pairs, keys, bound[2] && bound[2]->truth(), context));
}

Value filter_sort(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0, context);
  const ListPtr items = iterate(value, context);
  std::vector<Value> paths;  // "role,name" sorts by one, then by the other
  if (bound[2] && bound[2]->is_string()) {
    for (const std::string_view path : split(bound[2]->string(), ",", -1))
      paths.push_back(context.text(std::string(path)));
  } else if (bound[2]) {
    paths.push_back(*bound[2]);
  }
  std::vector<std::vector<Value>> keys;
  for (const Value& item : items->items) {
    std::vector<Value>& key = keys.emplace_back();
    if (paths.empty()) key.push_back(sort_key(item, case_of(bound[1]), context));
    for (const Value& path : paths) key.push_back(sort_key(follow(item, path, context), case_of(bound[1]), context));
  }
  return context.list(sorted(items->items, keys, bound[0] && bound[0]->truth(), context));
}

/// The least, or the most; the first of equal ones. Undefined: there is none.
template <bool least>
Value filter_extreme(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind(least ? "min" : "max", arguments, {"case_sensitive", "attribute"}, 0, context);
  Value best, best_key;
  const ListPtr items = iterate(value, context);
  for (const Value& item : items->items) {
    Value key = sort_key(bound[1] ? follow(item, *bound[1], context) : item, case_of(bound[0]), context);
    if (&item != &items->items.front() && order(key, best_key, context) * (least ? 1 : -1) >= 0) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value filter_sum(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("sum", arguments, {"attribute", "start"}, 0, context);
  Value sum = bound[1].value_or(int64_t{0});
  const ListPtr items = iterate(value, context);
  const bool has_path = bound[0] && !bound[0]->is_none();
  for (const Value& item : items->items)
    sum = arithmetic(Operator::add, sum, has_path ? follow(item, *bound[0], context) : item, context);
  return sum;
}

Value filter_round(const Value& value, const CallArguments& arguments, Context& context) {
  const auto bound = bind("round", arguments, {"precision", "method"}, 0, context);
  const int64_t precision = bound[0] ? integer_argument("round", "precision", *bound[0], context) : 0;
  const std::string method = bound[1] ? string_argument("round", "method", *bound[1], context) : "common";
  if (!value.is_number()) context.error("round of a {}", value.type_name());
  if (precision < 0 || precision > 15) context.error("round to {} digits, expected 0 to 15", precision);
  const double number = value.number(), scale = std::pow(10.0, double(precision));
  if (method == "ceil") return std::ceil(number * scale) / scale;
  if (method == "floor") return std::floor(number * scale) / scale;
  if (method != "common") context.error("round by {}, expected common, ceil or floor", json_literal(method));
  if (value.is_integer()) return value.integer();
  return std::strtod(fmt::format("{:.{}f}", number, precision).c_str(), nullptr);
}

Value filter_escape(const Value& value, const CallArguments& arguments, Context& context) {
  bind("escape", arguments, {}, 0, context);
  std::string out;
  for (const char c : to_text(value, context)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return context.text(std::move(out));
}

Value filter_reverse(const Value& value, const CallArguments& arguments, Context& context) {
  bind("reverse", arguments, {}, 0, context);
  if (value.is_string()) return slice(value, None{}, None{}, int64_t{-1}, context);
  const ListPtr items = iterate(value, context);
  context.charge(items->items.size());
  std::vector<Value> reversed(items->items.rbegin(), items->items.rend());
  return value.is_generator() ? context.list(std::move(reversed)) : context.generator(std::move(reversed));
}

Value filter_abs(const Value& value, const CallArguments& arguments, Context& context) {
  bind("abs", arguments, {}, 0, context);
  if (!value.is_number()) context.error("abs of a {}", value.type_name());
  if (value.number() < 0) return negate(value, context);
  return value.is_integer() ? Value(value.integer()) : value;
}

Value filter_end(const Value& value, bool last, const CallArguments& arguments, Context& context) {
  bind(last ? "last" : "first", arguments, {}, 0, context);
  if (value.is_generator() && !last) {  // takes one, the others stay
    Generator& generator = *value.as<GeneratorPtr>();
    return generator.next < generator.items->items.size() ? generator.items->items[generator.next++] : Value();
  }
  if (value.is_generator()) context.error("last of a generator is not known: make it a list");
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
      {"e", filter_escape},
      {"escape", filter_escape},
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
      {"max", filter_extreme<false>},
      {"min", filter_extreme<true>},
      {"reject", [](const Value& v, const CallArguments& a,
                    Context& c) { return filter_select("reject", v, a, Keep::others, By::item, c); }},
      {"rejectattr", [](const Value& v, const CallArguments& a,
                        Context& c) { return filter_select("rejectattr", v, a, Keep::others, By::attribute, c); }},
      {"replace", filter_replace},
      {"reverse", filter_reverse},
      {"round", filter_round},
      {"safe", filter_string},
      {"select", [](const Value& v, const CallArguments& a,
                    Context& c) { return filter_select("select", v, a, Keep::matching, By::item, c); }},
      {"selectattr", [](const Value& v, const CallArguments& a,
                        Context& c) { return filter_select("selectattr", v, a, Keep::matching, By::attribute, c); }},
      {"sort", filter_sort},
      {"string", filter_string},
      {"sum", filter_sum},
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
       [](const Value& v, const A&, C&) {
         return v.is_list() || v.is_generator() || v.is_dict() || v.is_string() || v.is_undefined();
       }},
      {"sequence",
       [](const Value& v, const A&, C&) { return v.is_list() || v.is_dict() || v.is_string() || v.is_undefined(); }},
      {"number", [](const Value& v, const A&, C&) { return v.is_number(); }},
      {"integer", [](const Value& v, const A&, C&) { return v.is<int64_t>(); }},
      {"float", [](const Value& v, const A&, C&) { return v.is<double>(); }},
      {"boolean", [](const Value& v, const A&, C&) { return v.is<bool>(); }},
      {"true", [](const Value& v, const A&, C&) { return v.is<bool>() && v.as<bool>(); }},
      {"false", [](const Value& v, const A&, C&) { return v.is<bool>() && !v.as<bool>(); }},
      {"callable", [](const Value& v, const A&, C&) { return v.is_callable() || v.is_undefined(); }},
      {"odd", [](const Value& v, const A&, C& c) { return remainder(v, 2, c) != 0; }},
      {"even", [](const Value& v, const A&, C& c) { return remainder(v, 2, c) == 0; }},
      {"divisibleby",
       [](const Value& v, const A& a, C& c) {
         const Value other = only_argument("divisibleby", a, c);
         return remainder(v, integer_argument("divisibleby", "num", other, c), c) == 0;
       }},
      {"upper", [](const Value& v, const A&, C& c) { return is_upper(cased_text(v, c)); }},
      {"lower", [](const Value& v, const A&, C& c) { return is_lower(cased_text(v, c)); }},
      // Of what is made anew each time, as texts are, two that are equal.
      {"sameas",
       [](const Value& v, const A& a, C& c) {
         const Value other = only_argument("sameas", a, c);
         return std::string_view(v.type_name()) == other.type_name() && equal(v, other, c);
       }},
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
