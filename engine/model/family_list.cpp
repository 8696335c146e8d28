// The list of families, a word each: NAME for the function NAME_family(), which family_NAME.cpp or a relative's file
// holds.

#include "engine/model/families.h"

#define PACELINE_FAMILIES(family)                                                                           \
  family(llama) family(mistral) family(ministral) family(qwen2) family(qwen3) family(phi3) family(stablelm) \
      family(gemma2) family(gemma3) family(gemma3_text) family(falcon) family(gpt2) family(gpt_bigcode)     \
          family(gpt_neox) family(opt)

namespace paceline {

#define PACELINE_DECLARED(name) Family name##_family();
#define PACELINE_LISTED(name) name##_family(),

PACELINE_FAMILIES(PACELINE_DECLARED)

const std::vector<Family>& families() {
  static const std::vector<Family> kList = {PACELINE_FAMILIES(PACELINE_LISTED)};
  return kList;
}

#undef PACELINE_DECLARED
#undef PACELINE_LISTED

}  // namespace paceline

#undef PACELINE_FAMILIES
