#include "engine/model/gguf_family.h"

#include <algorithm>
#include <vector>

namespace paceline {
namespace {

constexpr auto kGgufPairSites = [] {
  auto sites = kGgufSites;
  for (WeightSite& site : sites) site.rope_pairs = site.role == TensorRole::q || site.role == TensorRole::k;
  return sites;
}();

constexpr WeightTable kGgufTable{.sites = kGgufSites, .prefixes = {}, .ignored_suffixes = kGgufRopeFactors};
constexpr WeightTable kGgufPairTable{.sites = kGgufPairSites, .prefixes = {}, .ignored_suffixes = kGgufRopeFactors};
constexpr WeightTable kGgufStackedTable{
    .sites = kGgufStackedSites, .prefixes = {}, .ignored_suffixes = kGgufRopeFactors};

}  // namespace

const WeightTable& gguf_table(const ModelSpec&) { return kGgufTable; }
const WeightTable& gguf_table_by_pairs(const ModelSpec&) { return kGgufPairTable; }
const WeightTable& gguf_table_stacked(const ModelSpec&) { return kGgufStackedTable; }

nlohmann::json gguf_number(const GgufFile& file, std::string_view key, GgufKey::Kind kind) {
  const GgufValue* const value = file.find(key);
  if (!value) return nullptr;
  const auto same = [](const auto& all) {
    return !all.empty() && std::all_of(all.begin(), all.end(), [&](auto each) { return each == all.front(); });
  };
  if (kind == GgufKey::Kind::integer) {
    const std::vector<int64_t> numbers = value->integers();
    if (same(numbers)) return numbers.front();
  } else {
    const std::vector<double> numbers = value->reals();
    if (same(numbers)) return numbers.front();
  }
  const bool differs = value->is_array() && !value->reals().empty();
  fail(ExitCode::model_file, "{}: {}: found {}, expected {}{}", file.path().string(), key, value->text(),
       kind == GgufKey::Kind::integer ? "an integer" : "a number", differs ? " that is the same for all layers" : "");
}

}  // namespace paceline
