// The shipped list and one family more.

#include "engine/model/families.h"

#define families shipped_families
#include "engine/model/family_list.cpp"
#undef families

namespace paceline {

Family made_up_family();

const std::vector<Family>& families() {
  static const std::vector<Family> kList = [] {
    std::vector<Family> list = shipped_families();
    list.push_back(made_up_family());
    return list;
  }();
  return kList;
}

}  // namespace paceline
