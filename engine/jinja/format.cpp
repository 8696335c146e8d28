#include "engine/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "engine/jinja/operations.h"
#include "engine/util/json_io.h"
#include "engine/util/utf8_chars.h"

namespace paceline::jinja {

namespace {

constexpr int kMostWidth = 1024, kMostPrecision = 64;

struct Spec {
  std::string_view fill = " ";
  bool has_fill = false;  // it was written
  bool pads_with_zeros = false;
  char align = 0;  // <, >, ^ or =; 0: as the value has it
  char sign = 0;   // +, - or blank; 0: none is written
  bool alternate = false, commas = false;
  int width = 0;
  std::optional<int> precision;
  char type = 0;  // 0: none
};

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

/// Reads a number at the front of `text`; -1: there is none. More than `most`: `most` + 1.
int take_number(std::string_view& text, int most) {
  int number = -1;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    number = std::min(most + 1, (number < 0 ? 0 : number) * 10 + (text[0] - '0'));
    text.remove_prefix(1);
  }
  return number;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

/// None: it is no format, or has a field within.
std::optional<Spec> parse(std::string_view text) {
  Spec spec;
  if (text.find('{') != text.npos) return std::nullopt;
  const std::string_view first = utf8_first(text, 1);
  if (text.size() > first.size() && is_align(text[first.size()])) {
    spec.fill = first;
    spec.has_fill = true;
    spec.align = text[first.size()];
    text.remove_prefix(first.size() + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    spec.sign = text[0];
    text.remove_prefix(1);
  }
  spec.alternate = take(text, '#');
  if (!spec.has_fill && take(text, '0')) {
    spec.fill = "0";
    spec.pads_with_zeros = true;
  }
  spec.width = std::max(0, take_number(text, kMostWidth));
  spec.commas = take(text, ',');
  if (take(text, '.')) {
    spec.precision = take_number(text, kMostPrecision);
    if (*spec.precision < 0) return std::nullopt;
  }
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  const bool is_within = spec.width <= kMostWidth && spec.precision.value_or(0) <= kMostPrecision;
  return text.empty() && is_within ? std::optional(spec) : std::nullopt;
}

std::string with_commas(const std::string& digits) {
  const size_t whole = digits.find_first_not_of("0123456789");
  const size_t end = whole == digits.npos ? digits.size() : whole;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && i < end && (end - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

/// Without its sign; none: the type is not one of integers.
std::optional<std::string> integer_digits(uint64_t magnitude, char type) {
  switch (type) {
    case 0:
    case 'd': return std::to_string(magnitude);
    case 'b': return fmt::format("{:b}", magnitude);
    case 'o': return fmt::format("{:o}", magnitude);
    case 'x': return fmt::format("{:x}", magnitude);
    case 'X': return fmt::format("{:X}", magnitude);
    default: return std::nullopt;
  }
}

std::optional<std::string> real_digits(double magnitude, const Spec& spec) {
  const int precision = spec.precision.value_or(6);
  if (spec.alternate) return std::nullopt;
  switch (spec.type) {
    case 0: return spec.precision ? std::nullopt : std::optional(float_repr(magnitude));
    case '%': return fmt::format("{:.{}f}%", 100 * magnitude, precision);
    case 'e': return fmt::format("{:.{}e}", magnitude, precision);
    case 'E': return fmt::format("{:.{}E}", magnitude, precision);
    case 'f': return fmt::format("{:.{}f}", magnitude, precision);
    case 'F': return fmt::format("{:.{}F}", magnitude, precision);
    case 'g': return fmt::format("{:.{}g}", magnitude, precision);
    case 'G': return fmt::format("{:.{}G}", magnitude, precision);
    default: return std::nullopt;
  }
}

/// `sign` stands before the padding of "=".
std::string padded(const std::string& sign, const std::string& body, char align, const Spec& spec) {
  const size_t length = utf8_length(sign) + utf8_length(body);
  const size_t left = size_t(spec.width) > length ? size_t(spec.width) - length : 0;
  const size_t before = align == '<' ? 0 : align == '^' ? left / 2 : left;
  std::string out;
  const auto pad = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) out += spec.fill;
  };
  if (align == '=') out += sign;
  pad(before);
  if (align != '=') out += sign;
  out += body;
  pad(left - before);
  return out;
}

/// None: Python refuses it, or it is not supported.
std::optional<std::string> formatted(const Value& value, const Spec& spec, Context& context) {
  if (value.is_string()) {
    const bool fits = (spec.type == 0 || spec.type == 's') && spec.sign == 0 && !spec.alternate && !spec.commas;
    if (!fits || spec.align == '=') return std::nullopt;
    std::string_view text = value.string();
    context.charge_bytes(text.size());
    if (spec.precision) text = utf8_first(text, size_t(*spec.precision));
    return padded("", std::string(text), spec.align == 0 ? '<' : spec.align, spec);
  }
  if (!value.is_number()) return std::nullopt;
  const bool is_whole = value.is_integer() && std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos;
  const bool is_based = spec.type != 0 && std::string_view("boxX").find(spec.type) != std::string_view::npos;
  const bool is_negative = is_whole ? value.integer() < 0 : std::signbit(value.number()) && !std::isnan(value.number());
  std::optional<std::string> digits;
  if (is_whole && !spec.precision) {
    const auto bits = static_cast<uint64_t>(value.integer());
    digits = integer_digits(is_negative ? 0 - bits : bits, spec.type);
  } else if (!is_whole) {
    digits = real_digits(std::fabs(value.number()), spec);
  }
  const char align = spec.align != 0 ? spec.align : spec.pads_with_zeros ? '=' : '>';
  const bool zeros_with_commas =
      spec.commas && align == '=' && spec.fill == "0" && spec.width > 0;  // they get commas, too
  if (!digits || (spec.commas && is_based) || zeros_with_commas) return std::nullopt;
  std::string sign = is_negative ? "-" : spec.sign == '+' || spec.sign == ' ' ? std::string(1, spec.sign) : "";
  if (spec.alternate && is_based) sign += std::string{'0', spec.type};
  return padded(sign, spec.commas ? with_commas(*digits) : *digits, align, spec);
}

/// What fields name: an argument by number or name; without either the next one.
class Fields {
 public:
  Fields(const CallArguments& arguments, Context& context) : arguments_(arguments), context_(context) {}

  const Value& named(std::string_view name) {
    size_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() && !name.empty();
    if (name.find_first_of(".[!") != name.npos)
      context_.error("format: field {} is not supported", json_literal(std::string(name)));
    if (name.empty() || is_number) {
      if (counts_ && *counts_ != name.empty()) context_.error("format: fields with and without numbers");
      counts_ = name.empty();
      if (name.empty()) index = next_++;
      if (index >= arguments_.positional.size()) context_.error("format: there is no argument {}", index);
      return arguments_.positional[index];
    }
    context_.charge_bytes(name.size(), 1 + arguments_.named.size() / 8);
    for (const auto& [argument, value] : arguments_.named)
      if (argument == name) return value;
    context_.error("format: there is no argument {}", json_literal(name));
  }

 private:
  const CallArguments& arguments_;
  Context& context_;
  size_t next_ = 0;
  std::optional<bool> counts_;  // fields have no numbers
};

}  // namespace

Value format_text(std::string_view text, const CallArguments& arguments, Context& context) {
  std::string out;
  Fields fields(arguments, context);
  for (size_t pos = 0; pos < text.size(); ++pos) {
    context.check_text_bytes(out.size());
    const char c = text[pos];
    const bool is_brace = c == '{' || c == '}';
    if (!is_brace || text.substr(pos + 1).starts_with(c)) {
      out += c;
      pos += is_brace ? 1 : 0;
      continue;
    }
    const size_t end = text.find('}', pos);
    if (c == '}' || end == text.npos)
      context.error("format: a single {} in {}", json_literal(std::string(1, c)), json_literal(std::string(text)));
    const std::string_view field = text.substr(pos + 1, end - pos - 1);
    const size_t colon = field.find(':');
    const Value& value = fields.named(field.substr(0, colon));
    if (colon == field.npos || colon + 1 == field.size()) {
      out += to_text(value, context);
    } else {
      const std::string_view wanted = field.substr(colon + 1);
      context.charge_bytes(kMostWidth, kTextSteps);
      const std::optional<Spec> spec = parse(wanted);
      const std::optional<std::string> made = spec ? formatted(value, *spec, context) : std::nullopt;
      if (!made)
        context.error("format {} of a {} is not supported", json_literal(std::string(wanted)), value.type_name());
      out += *made;
    }
    pos = end;
  }
  return context.text(std::move(out));
}

}  // namespace paceline::jinja
