#include "engine/text/normalizer.h"

#include <algorithm>
#include <cstdlib>
#include <utf8proc.h>

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

}  // namespace

Normalizer Normalizer::parse(const nlohmann::json& json, const std::string& where) {
  Normalizer result;
  if (json.is_null()) return result;
  const auto type = json.is_object() ? json.find("type") : json.end();
  if (!json.is_object() || type == json.end() || !type->is_string())
    fail(ExitCode::model_file, "{}: {} has no string \"type\"", where, short_dump(json));
  const std::string& name = type->get_ref<const std::string&>();
  if (name == "NFC") {
    result.forms_ = {Form::nfc};
  } else if (name == "NFD") {
    result.forms_ = {Form::nfd};
  } else if (name == "NFKC") {
    result.forms_ = {Form::nfkc};
  } else if (name == "NFKD") {
    result.forms_ = {Form::nfkd};
  } else if (name == "Sequence") {
    const auto parts = json.find("normalizers");
    if (parts == json.end() || !parts->is_array())
      fail(ExitCode::model_file, "{}: Sequence without an array \"normalizers\"", where);
    for (size_t i = 0; i < parts->size(); ++i) {
      const Normalizer part = parse((*parts)[i], where + ".normalizers[" + std::to_string(i) + "]");
      result.forms_.insert(result.forms_.end(), part.forms_.begin(), part.forms_.end());
    }
  } else {
    fail(ExitCode::model_file, "{}: normalizer {} is not supported, expected null, NFC, NFD, NFKC, NFKD or Sequence",
         where, json_literal(name));
  }
  return result;
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Form form : forms_) out = apply_form(form, out);
  return out;
}

std::string Normalizer::apply_form(Form form, std::string_view text) {
  // ASCII is its own normal form, and most prompts are ASCII.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return std::string(text);
  int options = UTF8PROC_STABLE;
  options |= form == Form::nfc || form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
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
