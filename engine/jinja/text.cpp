#include "engine/jinja/text.h"

#include <utf8proc.h>

#include "engine/text/find_text.h"
#include "engine/text/utf8.h"
#include "engine/util/utf8_chars.h"

namespace paceline::jinja {

namespace {

/// Python's str.isspace: white space and the four separators of ASCII.
bool is_python_space(char32_t code) { return is_white_space(code) || (code >= 0x1C && code <= 0x1F); }

bool is_cased(char32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

void append_upper(std::string& out, char32_t code) {
  if (code == 0xDF) {
    out += "SS";
  } else {
    utf8_append(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
  }
}
void append_lower(std::string& out, char32_t code) {
  utf8_append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}
void append_title(std::string& out, char32_t code) {
  if (code == 0xDF) {
    out += "Ss";
  } else {
    utf8_append(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))));
  }
}

template <class Function>
void for_each_char(std::string_view text, Function function) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    pos += static_cast<size_t>(c.num_bytes);
    function(c.code);
  }
}

bool all_cased(std::string_view text, utf8proc_category_t wanted) {
  bool any = false, all = true;
  for_each_char(text, [&](char32_t code) {
    if (!is_cased(code)) return;
    any = true;
    all = all && utf8proc_category(static_cast<utf8proc_int32_t>(code)) == wanted;
  });
  return any && all;
}

}  // namespace

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars) {
  const auto strips = [&](std::string_view character) {
    if (chars) return chars->find(character) != std::string_view::npos;
    return is_python_space(utf8_decode(character, 0).code);
  };
  while (side != Side::right && !text.empty()) {
    const auto size = static_cast<size_t>(utf8_decode(text, 0).num_bytes);
    if (!strips(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (side != Side::left && !text.empty()) {
    const size_t pos = utf8_begin(text, text.size() - 1);
    if (!strips(text.substr(pos))) break;
    text = text.substr(0, pos);
  }
  return text;
}

std::string upper(std::string_view text) {
  std::string out;
  for_each_char(text, [&](char32_t code) { append_upper(out, code); });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for_each_char(text, [&](char32_t code) { append_lower(out, code); });
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool inside_word = false;
  for_each_char(text, [&](char32_t code) {
    inside_word ? append_lower(out, code) : append_title(out, code);
    inside_word = is_cased(code);
  });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  bool first = true;
  for_each_char(text, [&](char32_t code) {
    first ? append_title(out, code) : append_lower(out, code);
    first = false;
  });
  return out;
}

std::string title_words(std::string_view text) {
  std::string out;
  bool first = true;
  for_each_char(text, [&](char32_t code) {
    const bool cuts = is_python_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    first ? append_upper(out, code) : append_lower(out, code);
    first = cuts;
  });
  return out;
}

bool is_upper(std::string_view text) { return all_cased(text, UTF8PROC_CATEGORY_LU); }
bool is_lower(std::string_view text) { return all_cased(text, UTF8PROC_CATEGORY_LL); }

std::optional<std::string> replace(std::string_view text, std::string_view from, std::string_view to, int64_t limit,
                                   size_t max_bytes) {
  std::string out;
  size_t pos = 0;
  if (from.empty()) {
    for (; limit != 0; --limit) {
      out += to;
      if (pos == text.size()) break;
      const auto size = static_cast<size_t>(utf8_decode(text, pos).num_bytes);
      out += text.substr(pos, size);
      pos += size;
      if (out.size() > max_bytes) return std::nullopt;
    }
    out += text.substr(pos);
  } else {
    for (; limit != 0; --limit) {
      const size_t hit = find_text(text, from, pos);
      if (hit == std::string_view::npos) break;
      out.append(text.substr(pos, hit - pos)).append(to);
      pos = hit + from.size();
      if (out.size() > max_bytes) return std::nullopt;
    }
    out += text.substr(pos);
  }
  if (out.size() > max_bytes) return std::nullopt;
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    size_t next = pos + static_cast<size_t>(c.num_bytes);
    const bool ends = (c.code >= 0x0A && c.code <= 0x0D) || (c.code >= 0x1C && c.code <= 0x1E) || c.code == 0x85 ||
                      c.code == 0x2028 || c.code == 0x2029;
    if (ends) {
      if (c.code == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(begin, pos - begin));
      begin = next;
    }
    pos = next;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit) {
  std::vector<std::string_view> parts;
  if (separator) {
    size_t pos = 0;
    for (; limit != 0; --limit) {
      const size_t hit = find_text(text, *separator, pos);
      if (hit == std::string_view::npos) break;
      parts.push_back(text.substr(pos, hit - pos));
      pos = hit + separator->size();
    }
    parts.push_back(text.substr(pos));
    return parts;
  }
  text = strip(text, Side::left);
  while (!text.empty()) {
    if (limit-- == 0) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const Utf8Char c = utf8_decode(text, end);
      if (is_python_space(c.code)) break;
      end += static_cast<size_t>(c.num_bytes);
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::left);
  }
  return parts;
}

}  // namespace paceline::jinja
