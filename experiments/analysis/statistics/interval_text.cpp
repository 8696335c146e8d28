#include "experiments/analysis/statistics/interval_text.h"

#include <fmt/format.h>

namespace paceline {

std::string bound_text(double bound, int digits) {
  constexpr int kMoreDigits = 3;
  std::string text;
  for (int shown = digits; shown <= digits + kMoreDigits; ++shown) {
    text = fmt::format("{:.{}f}", bound, shown);
    if (bound == 1 || text != fmt::format("{:.{}f}", 1.0, shown)) break;
  }
  return text;
}

std::string interval_range_text(const std::optional<double>& low, const std::optional<double>& high, int digits) {
  if (!low || !high) return "";
  return fmt::format("{}–{}", bound_text(*low, digits), bound_text(*high, digits));
}

std::string interval_text(double ratio, const std::optional<double>& low, const std::optional<double>& high,
                          int digits) {
  const std::string text = fmt::format("{:.{}f}×", ratio, digits);
  if (!low || !high) return text;
  return fmt::format("{} [{}, {}]", text, bound_text(*low, digits), bound_text(*high, digits));
}

std::string interval_text(const RatioInterval& interval, int digits) {
  return interval_text(interval.ratio, interval.low, interval.high, digits);
}

}  // namespace paceline
