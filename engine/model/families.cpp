#include "engine/model/families.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/util/suggest.h"

namespace paceline {
namespace {

/// "Qwen2" of "Qwen2ForCausalLM".
std::string_view model_name(std::string_view architecture) {
  return architecture.substr(0, std::min(architecture.find("For"), architecture.find("LMHead")));
}

}  // namespace

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

std::string nearest_architecture(std::string_view architecture) {
  const std::string wanted(model_name(architecture));
  std::vector<std::string> names;
  const Family* longest = nullptr;
  for (const Family& family : families()) {
    const std::string_view name = model_name(family.architecture);
    names.emplace_back(name);
    if (wanted.starts_with(name) && (!longest || name.size() > model_name(longest->architecture).size()))
      longest = &family;
  }
  if (const auto near = nearest_name(wanted, names))
    longest = &families()[size_t(std::find(names.begin(), names.end(), *near) - names.begin())];
  return longest ? fmt::format(" (the nearest is {})", longest->architecture) : "";
}

}  // namespace paceline
