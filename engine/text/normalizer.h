#pragma once
// Unicode normalisation of tokenizer.json: null, NFC, NFD, NFKC, NFKD and Sequence of them.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline {

class Normalizer {
 public:
  Normalizer() = default;  // leaves text as it is

  /// `json` is the file's "normalizer" (null allowed); `where` names file and entry. Throws Error(model_file).
  static Normalizer parse(const nlohmann::json& json, const std::string& where);

  bool is_identity() const { return forms_.empty(); }

  /// REQUIRES well-formed UTF-8. A run of more than 256 combining marks is normalised in parts of 256, so that the
  /// time stays linear (Unicode's Stream-Safe Format allows 30; no writing system comes near).
  std::string apply(std::string_view text) const;

 private:
  enum class Form { nfc, nfd, nfkc, nfkd };
  static std::string apply_form(Form form, std::string_view text);

  std::vector<Form> forms_;
};

}  // namespace paceline
