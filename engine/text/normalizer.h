#pragma once
// What happens to text before it is cut: the normalizers of tokenizer.json that BPE tokenizers have (null, NFC, NFD,
// NFKC, NFKD, Prepend, Replace and Sequence of them), and SentencePiece's treatment of blanks.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/text/regex.h"
#include "engine/text/span_place.h"

namespace paceline {

class Normalizer {
 public:
  Normalizer() = default;  // leaves text as it is

  /// `json` is the file's "normalizer" (null allowed); `where` names file and entry. Throws Error(model_file).
  static Normalizer parse(const nlohmann::json& json, const std::string& where);

  static Normalizer nfc();

  struct Blanks {
    bool collapse = false;                       // none at both ends, one in place of a run
    bool prepend = false;                        // one before the text, …
    SpanPlace until = SpanPlace::after_special;  // … where this or an earlier place stands before it
  };
  /// SentencePiece's NormalizerSpec without a character map: blanks are spelled U+2581.
  static Normalizer metaspace(const Blanks& blanks);

  bool is_identity() const { return steps_.empty(); }

  /// REQUIRES well-formed UTF-8. A run of more than 256 combining marks is normalised in parts of 256, so that the
  /// time stays linear (Unicode's Stream-Safe Format allows 30; no writing system comes near).
  std::string apply(std::string_view text, SpanPlace place = SpanPlace::text_start) const;

 private:
  enum class Kind : uint8_t { nfc, nfd, nfkc, nfkd, prepend, replace, replace_matches, collapse_blanks };
  struct Step {
    Kind kind;
    std::string from, to;                      // replace; prepend puts `to`
    std::shared_ptr<const Regex> regex;        // replace_matches
    SpanPlace until = SpanPlace::after_added;  // prepend
  };
  static Step parse_replace(const nlohmann::json& json, const std::string& where);
  static std::string apply_step(const Step& step, std::string_view text, SpanPlace place);
  static std::string apply_form(Kind form, std::string_view text);

  std::vector<Step> steps_;
};

}  // namespace paceline
