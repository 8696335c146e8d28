#include "engine/text/char_class.h"

#include <utf8proc.h>

#include "engine/text/utf8.h"

namespace paceline {

namespace {

uint8_t classes_of(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return kUpperish;
    case UTF8PROC_CATEGORY_LL: return kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return kOtherLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return kNumber;
    default: break;
  }
  if (code == '\r' || code == '\n') return kWhite | kLineEnd;
  return is_white_space(code) ? kWhite : 0;
}

}  // namespace

CharClasses::CharClasses() {
  for (char32_t code = 0; code < table_.size(); ++code) table_[code] = classes_of(code);
}

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

uint8_t CharClasses::beyond(char32_t code) { return classes_of(code); }

}  // namespace paceline
