// Functions and methods of the allow-list.

#include <algorithm>
#include <array>
#include <ctime>

#include "engine/jinja/builtins.h"
#include "engine/jinja/format.h"
#include "engine/jinja/operations.h"
#include "engine/jinja/text.h"
#include "engine/text/find_text.h"
#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "engine/util/utf8_chars.h"

namespace paceline::jinja {

namespace {

Value make_range(const CallArguments& arguments, Context& context) {
  const auto bound = bind("range", arguments, {"start", "stop", "step"}, 1, context);
  const int64_t first = integer_argument("range", "start", *bound[0], context);
  const int64_t start = bound[1] ? first : 0;
  const int64_t stop = bound[1] ? integer_argument("range", "stop", *bound[1], context) : first;
  const int64_t step = bound[2] ? integer_argument("range", "step", *bound[2], context) : 1;
  if (step == 0) context.error("range with step 0");
  std::vector<Value> items;
  // The next item may lie beyond 64 bits, so the distance that is left decides, not the item.
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kMaxRange)
      context.error("range of more than the limit of {} items", kMaxRange);
    items.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return context.list(std::move(items));
}

Value make_namespace(const CallArguments& arguments, Context& context) {
  auto result = std::make_shared<Namespace>();
  if (arguments.positional.size() > 1) context.error("namespace takes at most one positional argument");
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (!from.is_dict()) context.error("namespace expects a dict, found {}", from.type_name());
    if (!from.as<DictPtr>()->keys.empty()) context.error("namespace of a dict whose keys are not all strings");
    for (const auto& entry : from.as<DictPtr>()->entries) context.charge_bytes(entry.first.size());
    result->entries = from.as<DictPtr>()->entries;
  }
  for (const auto& [key, value] : arguments.named) {
    context.charge_bytes(key.size(), result->entries.size() / 8);
    result->set(key, value);
  }
  return NamespacePtr(std::move(result));
}

/// dict(a_dict, name=value): keys that are not texts stay with the dict.
Value make_dict_of(const CallArguments& arguments, Context& context) {
  if (arguments.positional.size() > 1) context.error("dict takes at most one positional argument");
  std::vector<std::pair<std::string, Value>> entries;
  std::vector<Value> keys;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (!from.is_dict()) context.error("dict expects a dict, found {}", from.type_name());
    entries = from.as<DictPtr>()->entries;
    keys = from.as<DictPtr>()->keys;
  }
  for (const auto& [name, value] : arguments.named) set_entry(entries, keys, context.text(name), value, context);
  return context.dict(std::move(entries), std::move(keys));
}

Value strftime_now(const CallArguments& arguments, Context& context) {
  const auto bound = bind("strftime_now", arguments, {"format"}, 1, context);
  const std::string& format = string_argument("strftime_now", "format", *bound[0], context);
  if (format.size() > 256) context.error("strftime_now format of {} bytes, expected at most 256", format.size());
  const std::time_t now = context.now ? *context.now : std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  // A final blank tells an empty result from a buffer that is too small.
  std::array<char, 4096> buffer{};
  const size_t size = std::strftime(buffer.data(), buffer.size(), (format + " ").c_str(), &local);
  if (size == 0) context.error("strftime_now result is longer than {} bytes", buffer.size());
  return context.text(utf8_repair(std::string_view(buffer.data(), size - 1)));
}

Value dict_method(const Value& object, const std::string& name, const CallArguments& arguments, Context& context) {
  const Dict& dict = *object.as<DictPtr>();
  if (name == "get") {
    const auto bound = bind("get", arguments, {"key", "default"}, 1, context);
    const Value* found = find_item(object, *bound[0], context);
    return found != nullptr ? *found : bound[1].value_or(None{});
  }
  bind(name, arguments, {}, 0, context);
  if (name == "copy") return object;
  context.charge(dict.entries.size());
  std::vector<Value> items;
  for (size_t entry = 0; entry < dict.entries.size(); ++entry) {
    const Value& value = dict.entries[entry].second;
    if (name == "keys") {
      items.push_back(key_of(dict, entry, context));
    } else if (name == "values") {
      items.push_back(value);
    } else {
      items.push_back(context.list({key_of(dict, entry, context), value}, true));
    }
  }
  return context.list(std::move(items));
}

/// startswith and endswith take one string or a tuple of them.
bool has_affix(const std::string& name, const std::string& text, const Value& affix, Context& context) {
  const auto has = [&](const Value& one) {
    const std::string& part = string_argument(name, "prefix", one, context);
    context.charge_bytes(part.size());
    return name == "startswith" ? text.starts_with(part) : text.ends_with(part);
  };
  return affix.is_list() ? std::any_of(affix.items().begin(), affix.items().end(), has) : has(affix);
}

Value texts(const std::vector<std::string_view>& parts, Context& context) {
  std::vector<Value> items;
  for (const std::string_view part : parts) items.push_back(context.text(std::string(part)));
  return context.list(std::move(items));
}

Value split_method(const std::string& text, const CallArguments& arguments, Context& context) {
  const auto bound = bind("split", arguments, {"sep", "maxsplit"}, 0, context);
  const int64_t limit = bound[1] ? limit_argument("split", "maxsplit", *bound[1], context) : -1;
  std::optional<std::string_view> separator;
  if (bound[0] && !bound[0]->is_none()) separator = string_argument("split", "sep", *bound[0], context);
  if (separator && separator->empty()) context.error("split with an empty separator");
  return texts(split(text, separator, limit), context);
}

/// From the end; a separator is needed.
Value rsplit_method(const std::string& text, const CallArguments& arguments, Context& context) {
  const auto bound = bind("rsplit", arguments, {"sep", "maxsplit"}, 1, context);
  const std::string& separator = string_argument("rsplit", "sep", *bound[0], context);
  if (separator.empty()) context.error("rsplit with an empty separator");
  context.charge(text.size() * separator.size() / 16);
  int64_t limit = bound[1] ? limit_argument("rsplit", "maxsplit", *bound[1], context) : -1;
  std::vector<std::string_view> parts;
  std::string_view rest = text;
  for (; limit != 0; --limit) {
    const size_t hit = rest.rfind(separator);
    if (hit == rest.npos) break;
    parts.push_back(rest.substr(hit + separator.size()));
    rest = rest.substr(0, hit);
  }
  parts.push_back(rest);
  std::ranges::reverse(parts);
  return texts(parts, context);
}

Value list_method(const Value& object, const std::string& name, const CallArguments& arguments, Context& context) {
  const auto bound = bind(name, arguments, {"value"}, 1, context);
  int64_t count = 0;
  for (size_t i = 0; i < object.items().size(); ++i) {
    if (!equal(object.items()[i], *bound[0], context)) continue;
    if (name == "index") return static_cast<int64_t>(i);
    ++count;
  }
  if (name == "index") context.error("index: the list has no such value");
  return count;
}

Value string_method(const Value& object, const std::string& name, const CallArguments& arguments, Context& context) {
  const std::string& text = object.string();
  context.charge_bytes(text.size());
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const auto bound = bind(name, arguments, {"chars"}, 0, context);
    const Side side = name == "strip" ? Side::both : name == "lstrip" ? Side::left : Side::right;
    std::optional<std::string_view> chars;
    if (bound[0] && !bound[0]->is_none()) chars = string_argument(name, "chars", *bound[0], context);
    if (chars && chars->size() > 256) context.error("{} with {} bytes of characters", name, chars->size());
    if (chars) context.charge_bytes(text.size() * chars->size() / 16);
    return context.text(std::string(strip(text, side, chars)));
  }
  if (name == "split") return split_method(text, arguments, context);
  if (name == "startswith" || name == "endswith") {
    const auto bound = bind(name, arguments, {"prefix"}, 1, context);
    return has_affix(name, text, *bound[0], context);
  }
  if (name == "replace") {
    const auto bound = bind(name, arguments, {"old", "new", "count"}, 2, context);
    const int64_t limit = bound[2] ? limit_argument(name, "count", *bound[2], context) : -1;
    auto result = replace(text, string_argument(name, "old", *bound[0], context),
                          string_argument(name, "new", *bound[1], context), limit, kMaxTextBytes);
    if (!result) context.check_text_bytes(kMaxTextBytes + 1);
    return context.text(std::move(*result));
  }
  if (name == "join") {
    const auto bound = bind(name, arguments, {"iterable"}, 1, context);
    std::string out;
    const ListPtr items = iterate(*bound[0], context);
    for (size_t i = 0; i < items->items.size(); ++i) {
      if (i > 0) out += text;
      context.charge_bytes(text.size());
      out += string_argument(name, "item", items->items[i], context);
      context.check_text_bytes(out.size());
    }
    return context.text(std::move(out));
  }
  if (name == "rsplit") return rsplit_method(text, arguments, context);
  if (name == "format") return format_text(text, arguments, context);
  if (name == "splitlines") {
    bind(name, arguments, {}, 0, context);
    return texts(split_lines(text), context);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    const auto bound = bind(name, arguments, {"part"}, 1, context);
    const std::string& part = string_argument(name, "part", *bound[0], context);
    const bool at_start = name == "removeprefix";
    if (!(at_start ? text.starts_with(part) : text.ends_with(part))) return object;
    return context.text(at_start ? text.substr(part.size()) : text.substr(0, text.size() - part.size()));
  }
  if (name == "find" || name == "count") {
    const auto bound = bind(name, arguments, {"sub"}, 1, context);
    const std::string& part = string_argument(name, "sub", *bound[0], context);
    if (name == "find") {
      const size_t hit = find_text(text, part);
      return hit == text.npos ? int64_t{-1} : static_cast<int64_t>(utf8_length(std::string_view(text).substr(0, hit)));
    }
    if (part.empty()) return static_cast<int64_t>(utf8_length(text) + 1);
    return static_cast<int64_t>(split(text, part, -1).size() - 1);
  }
  bind(name, arguments, {}, 0, context);
  context.charge(text.size() / 4);  // Unicode tables cost more than copying
  if (name == "capitalize") return context.text(capitalize(text));
  if (name == "isdigit") return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (name == "upper") return context.text(upper(text));
  if (name == "lower") return context.text(lower(text));
  return context.text(title(text));
}

}  // namespace

std::vector<std::optional<Value>> bind(std::string_view callee, const CallArguments& arguments,
                                       std::initializer_list<std::string_view> names, size_t num_required,
                                       Context& context) {
  if (arguments.positional.size() > names.size())
    context.error("{} takes at most {} arguments, found {}", callee, names.size(), arguments.positional.size());
  std::vector<std::optional<Value>> bound(names.size());
  std::copy(arguments.positional.begin(), arguments.positional.end(), bound.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) context.error("{} has no argument {}", callee, json_literal(name));
    auto& slot = bound[static_cast<size_t>(it - names.begin())];
    if (slot) context.error("{}: argument {} is given twice", callee, json_literal(name));
    slot = value;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (!bound[i]) context.error("{} needs its argument {}", callee, json_literal(*(names.begin() + i)));
  }
  return bound;
}

const std::string& string_argument(std::string_view callee, std::string_view parameter, const Value& value,
                                   Context& context) {
  if (!value.is_string())
    context.error("{}: expected a string for \"{}\", found {}", callee, parameter, value.type_name());
  return value.string();
}

int64_t integer_argument(std::string_view callee, std::string_view parameter, const Value& value, Context& context) {
  if (!value.is_integer())
    context.error("{}: expected an integer for \"{}\", found {}", callee, parameter, value.type_name());
  return value.integer();
}

int64_t limit_argument(std::string_view callee, std::string_view parameter, const Value& value, Context& context) {
  return std::max<int64_t>(-1, integer_argument(callee, parameter, value, context));
}

std::optional<Function> find_function(std::string_view name) {
  if (name == "range") return Function::range;
  if (name == "dict") return Function::make_dict;
  if (name == "namespace") return Function::make_namespace;
  if (name == "raise_exception") return Function::raise_exception;
  if (name == "strftime_now") return Function::strftime_now;
  return std::nullopt;
}

Value call_function(Function function, const CallArguments& arguments, Context& context) {
  const Context::OpenCall open(context);
  context.charge(1);
  switch (function) {
    case Function::range: return make_range(arguments, context);
    case Function::make_dict: return make_dict_of(arguments, context);
    case Function::make_namespace: return make_namespace(arguments, context);
    case Function::strftime_now: return strftime_now(arguments, context);
    case Function::raise_exception: break;
  }
  const auto bound = bind("raise_exception", arguments, {"message"}, 1, context);
  // The messages, not the model, are at fault, so the caller's input is what the exit code names.
  fail(ExitCode::usage, "{}: chat template {}:{}: refused these messages: {}", context.source_name(),
       context.position.line, context.position.column, json_literal(to_text(*bound[0], context)));
}

Value call_method(const Value& object, const std::string& name, const CallArguments& arguments, Context& context) {
  const Context::OpenCall open(context);
  context.charge(1);
  static constexpr std::array<std::string_view, 5> kDict{"copy", "get", "items", "keys", "values"};
  static constexpr std::array<std::string_view, 2> kList{"count", "index"};
  static constexpr std::array<std::string_view, 20> kString{
      "capitalize", "count",      "endswith",     "find",         "format",  "isdigit", "join",
      "lower",      "lstrip",     "removeprefix", "removesuffix", "replace", "rsplit",  "rstrip",
      "split",      "splitlines", "startswith",   "strip",        "title",   "upper"};
  if (object.is_dict() && std::find(kDict.begin(), kDict.end(), name) != kDict.end())
    return dict_method(object, name, arguments, context);
  if (object.is_string() && std::find(kString.begin(), kString.end(), name) != kString.end())
    return string_method(object, name, arguments, context);
  if (object.is_list() && std::find(kList.begin(), kList.end(), name) != kList.end())
    return list_method(object, name, arguments, context);
  if (object.is<LoopPtr>() && name == "cycle") {  // one argument after the other, turn by turn
    if (arguments.positional.empty()) context.error("cycle needs an argument");
    return arguments.positional[object.as<LoopPtr>()->index0 % arguments.positional.size()];
  }
  context.error("method {} of {} is not allowed", json_literal(name), object.type_name());
}

}  // namespace paceline::jinja
