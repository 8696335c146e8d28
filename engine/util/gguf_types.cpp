#include "engine/util/gguf_types.h"

#include <algorithm>
#include <array>

namespace paceline {
namespace {

constexpr uint32_t kSuper = 256;  // values in a block of the K and IQ types

constexpr std::array kGgufTypes = {
    GgufTypeInfo{0, "F32", 1, 4},
    GgufTypeInfo{1, "F16", 1, 2},
    GgufTypeInfo{2, "Q4_0", 32, 18},
    GgufTypeInfo{3, "Q4_1", 32, 20},
    GgufTypeInfo{6, "Q5_0", 32, 22},
    GgufTypeInfo{7, "Q5_1", 32, 24},
    GgufTypeInfo{8, "Q8_0", 32, 34},
    GgufTypeInfo{9, "Q8_1", 32, 36},
    GgufTypeInfo{10, "Q2_K", kSuper, 84},
    GgufTypeInfo{11, "Q3_K", kSuper, 110},
    GgufTypeInfo{12, "Q4_K", kSuper, 144},
    GgufTypeInfo{13, "Q5_K", kSuper, 176},
    GgufTypeInfo{14, "Q6_K", kSuper, 210},
    GgufTypeInfo{15, "Q8_K", kSuper, 292},
    GgufTypeInfo{16, "IQ2_XXS", kSuper, 66},
    GgufTypeInfo{17, "IQ2_XS", kSuper, 74},
    GgufTypeInfo{18, "IQ3_XXS", kSuper, 98},
    GgufTypeInfo{19, "IQ1_S", kSuper, 50},
    GgufTypeInfo{20, "IQ4_NL", 32, 18},
    GgufTypeInfo{21, "IQ3_S", kSuper, 110},
    GgufTypeInfo{22, "IQ2_S", kSuper, 82},
    GgufTypeInfo{23, "IQ4_XS", kSuper, 136},
    GgufTypeInfo{24, "I8", 1, 1},
    GgufTypeInfo{25, "I16", 1, 2},
    GgufTypeInfo{26, "I32", 1, 4},
    GgufTypeInfo{27, "I64", 1, 8},
    GgufTypeInfo{28, "F64", 1, 8},
    GgufTypeInfo{29, "IQ1_M", kSuper, 56},
    GgufTypeInfo{30, "BF16", 1, 2},
    GgufTypeInfo{34, "TQ1_0", kSuper, 54},
    GgufTypeInfo{35, "TQ2_0", kSuper, 66},
    GgufTypeInfo{39, "MXFP4", 32, 17},
};

}  // namespace

const GgufTypeInfo* find_gguf_type(uint32_t number) {
  const auto found = std::find_if(kGgufTypes.begin(), kGgufTypes.end(),
                                  [&](const GgufTypeInfo& each) { return each.number == number; });
  return found == kGgufTypes.end() ? nullptr : &*found;
}

}  // namespace paceline
