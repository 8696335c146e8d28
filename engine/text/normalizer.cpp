#include "engine/text/normalizer.h"

#include <algorithm>
#include <cstdlib>
#include <utf8proc.h>

#include "engine/text/find_text.h"
#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

constexpr int kMaxMarkRun = 256;

bool is_mark(char32_t code) {
  if (code < 0x300) return false;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

void append_normalized(std::string& out, std::string_view text, utf8proc_option_t options) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &result, options);
  if (size < 0)
    fail(ExitCode::model_file, "Unicode normalisation of {} bytes failed: {}", text.size(), utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
  std::free(result);
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  size_t pos = 0;
  for (size_t hit = find_text(text, from); hit != std::string_view::npos; hit = find_text(text, from, pos)) {
    out.append(text.substr(pos, hit - pos)).append(to);
    pos = hit + from.size();
  }
  return out.append(text.substr(pos));
}

std::string replace_matches(std::string_view text, const Regex& regex, std::string_view to) {
  RegexMatcher matcher(text.size());
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    if (const auto length = matcher.match_at(regex, text, pos)) {
      out += to;
      pos += *length;
      continue;
    }
    const auto length = static_cast<size_t>(utf8_decode(text, pos).num_bytes);
    out.append(text.substr(pos, length));
    pos += length;
  }
  return out;
}

std::string collapse_blanks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  while (out.ends_with(' ') || out.ends_with(kMetaspace))  // at the end SentencePiece looks at the respelled text
    out.resize(out.size() - (out.back() == ' ' ? 1 : kMetaspace.size()));
  return out;
}

const std::string& text_field(const nlohmann::json& json, const char* key, const std::string& where) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || found == json.end() || !found->is_string())
    fail(ExitCode::model_file, "{}: {} has no string \"{}\"", where, short_dump(json), key);
  return found->get_ref<const std::string&>();
}

}  // namespace

Normalizer Normalizer::parse(const nlohmann::json& json, const std::string& where) {
  Normalizer result;
  if (json.is_null()) return result;
  const std::string& name = text_field(json, "type", where);
  if (name == "NFC") {
    result.steps_ = {{.kind = Kind::nfc}};
  } else if (name == "NFD") {
    result.steps_ = {{.kind = Kind::nfd}};
  } else if (name == "NFKC") {
    result.steps_ = {{.kind = Kind::nfkc}};
  } else if (name == "NFKD") {
    result.steps_ = {{.kind = Kind::nfkd}};
  } else if (name == "Prepend") {
    result.steps_ = {{.kind = Kind::prepend, .to = text_field(json, "prepend", where)}};
  } else if (name == "Replace") {
    result.steps_ = {parse_replace(json, where)};
  } else if (name == "Sequence") {
    const auto parts = json.find("normalizers");
    if (parts == json.end() || !parts->is_array())
      fail(ExitCode::model_file, "{}: Sequence without an array \"normalizers\"", where);
    for (size_t i = 0; i < parts->size(); ++i) {
      const Normalizer part = parse((*parts)[i], where + ".normalizers[" + std::to_string(i) + "]");
      result.steps_.insert(result.steps_.end(), part.steps_.begin(), part.steps_.end());
    }
  } else {
    fail(ExitCode::model_file,
         "{}: normalizer {} is not supported, expected null, NFC, NFD, NFKC, NFKD, Prepend, Replace or Sequence", where,
         json_literal(name));
  }
  return result;
}

Normalizer::Step Normalizer::parse_replace(const nlohmann::json& json, const std::string& where) {
  Step step{.kind = Kind::replace, .from = {}, .to = text_field(json, "content", where), .regex = nullptr};
  const nlohmann::json pattern = json.value("pattern", nlohmann::json());
  if (pattern.is_object() && pattern.contains("Regex")) {
    step.kind = Kind::replace_matches;
    step.regex = std::make_shared<const Regex>(text_field(pattern, "Regex", where + ".pattern"), where);
    return step;
  }
  step.from = text_field(pattern, "String", where + ".pattern");
  if (step.from.empty()) fail(ExitCode::model_file, "{}: Replace of an empty string", where);
  return step;
}

Normalizer Normalizer::nfc() {
  Normalizer result;
  result.steps_ = {{.kind = Kind::nfc}};
  return result;
}

Normalizer Normalizer::metaspace(const Blanks& blanks) {
  Normalizer result;
  if (blanks.collapse) result.steps_.push_back({.kind = Kind::collapse_blanks});
  if (blanks.prepend) result.steps_.push_back({.kind = Kind::prepend, .to = " ", .until = blanks.until});
  result.steps_.push_back({.kind = Kind::replace, .from = " ", .to = std::string(kMetaspace)});
  return result;
}

std::string Normalizer::apply(std::string_view text, SpanPlace place) const {
  std::string out(text);
  for (const Step& step : steps_) out = apply_step(step, out, place);
  return out;
}

std::string Normalizer::apply_step(const Step& step, std::string_view text, SpanPlace place) {
  switch (step.kind) {
    case Kind::prepend:
      return text.empty() || place > step.until ? std::string(text) : std::string(step.to).append(text);
    case Kind::replace: return replace_all(text, step.from, step.to);
    case Kind::replace_matches: return replace_matches(text, *step.regex, step.to);
    case Kind::collapse_blanks: return collapse_blanks(text);
    default: return apply_form(step.kind, text);
  }
}

std::string Normalizer::apply_form(Kind form, std::string_view text) {
  // ASCII is its own normal form, and most prompts are ASCII.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return std::string(text);
  int options = UTF8PROC_STABLE;
  options |= form == Kind::nfc || form == Kind::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Kind::nfkc || form == Kind::nfkd) options |= UTF8PROC_COMPAT;
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;
  int mark_run = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    mark_run = is_mark(c.code) ? mark_run + 1 : 0;
    if (mark_run > kMaxMarkRun) {
      append_normalized(out, text.substr(begin, pos - begin), static_cast<utf8proc_option_t>(options));
      begin = pos;
      mark_run = 1;
    }
    pos += static_cast<size_t>(c.num_bytes);
  }
  append_normalized(out, text.substr(begin), static_cast<utf8proc_option_t>(options));
  return out;
}

}  // namespace paceline
