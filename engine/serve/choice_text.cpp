#include "engine/serve/choice_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace paceline {
namespace {

struct FoundStop {
  size_t begin = 0;
  size_t end = std::string::npos;  // npos: none
};

/// The one that ends first, of these the longest.
FoundStop first_stop(std::string_view text, const std::vector<std::string>& stops) {
  FoundStop first;
  for (const std::string& stop : stops) {
    const size_t begin = text.find(stop);
    if (begin == text.npos) continue;
    const size_t end = begin + stop.size();
    if (end < first.end || (end == first.end && begin < first.begin)) first = {begin, end};
  }
  return first;
}

/// Where a suffix of `text` begins that may become a stop string; its size where none does.
size_t possible_stop(std::string_view text, const std::vector<std::string>& stops) {
  size_t begin = text.size();
  for (const std::string& stop : stops) {
    for (size_t length = std::min(text.size(), stop.size() - 1); length > text.size() - begin; --length) {
      if (!text.ends_with(std::string_view(stop).substr(0, length))) continue;
      begin = text.size() - length;
      break;
    }
  }
  return begin;
}

}  // namespace

ChoiceText::ChoiceText(std::shared_ptr<const Tokenizer> tokenizer, DecodeOptions options, StopStrings stop)
    : decoder_(std::move(tokenizer), options), stop_(std::move(stop)) {}

ChoiceText::After ChoiceText::push(int32_t token, std::string& out) { return take(decoder_.push(token), out); }

ChoiceText::After ChoiceText::flush(std::string& out) {
  const After after = take(decoder_.flush(), out);
  if (after == After::goes_on) out += std::exchange(held_, {});
  return after;
}

ChoiceText::After ChoiceText::take(const std::string& text, std::string& out) {
  if (stop_.texts.empty()) {
    out += text;
    return After::goes_on;
  }
  held_ += text;
  if (const FoundStop stop = first_stop(held_, stop_.texts); stop.end != held_.npos) {
    out.append(held_, 0, stop_.include ? stop.end : stop.begin);
    held_.clear();
    return After::stopped;
  }
  const size_t certain = possible_stop(held_, stop_.texts);
  out.append(held_, 0, certain);
  held_.erase(0, certain);
  return After::goes_on;
}

}  // namespace paceline
