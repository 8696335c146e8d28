#include "engine/model/families.h"

namespace paceline {

const Family* find_family(std::string_view architecture) {
  for (const Family& family : families())
    if (family.architecture == architecture) return &family;
  return nullptr;
}

std::string supported_architectures() {
  std::string list;
  for (const Family& family : families()) list += (list.empty() ? "" : ", ") + std::string(family.architecture);
  return list;
}

}  // namespace paceline
