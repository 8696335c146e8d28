#include "engine/grammar/grammar_builder.h"

#include <algorithm>
#include <array>
#include <map>

#include "kernels/error.h"

namespace paceline {

namespace {

constexpr int kMostFactoring = 64;  // levels

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

/// What of sorted ranges lies within [first, last].
std::vector<CodeRange> ranges_within(std::span<const CodeRange> ranges, char32_t first, char32_t last) {
  std::vector<CodeRange> within;
  auto it = std::lower_bound(ranges.begin(), ranges.end(), first,
                             [](const CodeRange& range, char32_t code) { return range[1] < code; });
  for (; it != ranges.end() && (*it)[0] <= last; ++it) {
    within.push_back({std::max((*it)[0], first), std::min((*it)[1], last)});
  }
  return within;
}

}  // namespace

GrammarBuilder::GrammarBuilder(const GrammarLimits& limits) : limits_(limits) {}

void GrammarBuilder::check_time() const {
  if (1e3 * (thread_cpu_seconds() - began_) > limits_.max_ms) {
    throw GrammarError("", "compiling the grammar takes longer than " + std::to_string(limits_.max_ms) + " ms");
  }
}

void GrammarBuilder::check_size() {
  const size_t bytes = nodes_.size() * (sizeof(Node) + 32) + parts_.size() * sizeof(Expr) + sets_.size() * 64;
  if (bytes > limits_.max_bytes) {
    throw GrammarError("", "the grammar takes more than " + std::to_string(limits_.max_bytes >> 20) + " MiB");
  }
  if (nodes_.size() % 256 == 0) check_time();
}

GrammarBuilder::Expr GrammarBuilder::intern(const Node& node, std::span<const Expr> parts) {
  uint64_t hash = mixed(uint64_t(node.kind) + 1, uint64_t(uint32_t(node.part)) << 32 | uint32_t(node.begin));
  hash = mixed(hash, uint64_t(uint32_t(node.least)) << 32 | uint32_t(node.most));
  for (const Expr part : parts) hash = mixed(hash, uint64_t(uint32_t(part)));
  for (auto [it, end] = seen_.equal_range(hash); it != end; ++it) {
    const Node& known = nodes_[size_t(it->second)];
    if (known.kind == node.kind && known.part == node.part && known.least == node.least && known.most == node.most &&
        (node.kind != Kind::bytes || known.begin == node.begin) && size_t(known.count) == parts.size() &&
        (parts.empty() || std::equal(parts.begin(), parts.end(), parts_.begin() + known.begin))) {
      return it->second;
    }
  }
  const Expr expr = Expr(nodes_.size());
  nodes_.push_back(node);
  if (node.kind != Kind::bytes) {
    nodes_.back().begin = int32_t(parts_.size());
    nodes_.back().count = int32_t(parts.size());
    parts_.insert(parts_.end(), parts.begin(), parts.end());
  }
  seen_.emplace(hash, expr);
  check_size();
  return expr;
}

int32_t GrammarBuilder::set_index(const ByteSet& set) {
  uint64_t hash = 1;
  for (int byte = 0; byte < 256; ++byte) hash = set.contains(uint8_t(byte)) ? mixed(hash, uint64_t(byte)) : hash;
  for (auto [it, end] = seen_sets_.equal_range(hash); it != end; ++it) {
    if (sets_[size_t(it->second)] == set) return it->second;
  }
  seen_sets_.emplace(hash, int32_t(sets_.size()));
  sets_.push_back(set);
  return int32_t(sets_.size()) - 1;
}

GrammarBuilder::Expr GrammarBuilder::bytes(const ByteSet& set) {
  if (set.empty()) return any_of({});
  return intern({.kind = Kind::bytes, .begin = set_index(set)}, {});
}

GrammarBuilder::Expr GrammarBuilder::text(std::string_view exactly) {
  std::vector<Expr> parts;
  for (const char c : exactly) parts.push_back(bytes(ByteSet::range(uint8_t(c), uint8_t(c))));
  return sequence(parts);
}

GrammarBuilder::Expr GrammarBuilder::continuation(std::span<const CodeRange> ranges, char32_t begin, int level) {
  const char32_t child_size = char32_t(1) << (6 * (level - 1));
  if (ranges.front()[0] == begin && ranges.front()[1] == begin + child_size * 64 - 1) {
    const std::vector<Expr> any(size_t(level), bytes(ByteSet::range(0x80, 0xBF)));
    return sequence(any);
  }
  std::unordered_map<Expr, ByteSet> leads_of;  // what follows -> the bytes that it follows
  std::vector<Expr> order;
  for (char32_t child = 0; child < 64; ++child) {
    const char32_t first = begin + child * child_size;
    const std::vector<CodeRange> within = ranges_within(ranges, first, first + child_size - 1);
    if (within.empty()) continue;
    const Expr rest = level == 1 ? sequence({}) : continuation(within, first, level - 1);
    if (!leads_of.count(rest)) order.push_back(rest);
    leads_of[rest].add(uint8_t(0x80 | child));
  }
  std::vector<Expr> alternatives;
  for (const Expr rest : order) {
    const std::array<Expr, 2> parts = {bytes(leads_of[rest]), rest};
    alternatives.push_back(sequence(parts));
  }
  return any_of(alternatives);
}

GrammarBuilder::Expr GrammarBuilder::characters(std::span<const CodeRange> of_ranges) {
  const std::vector<CodeRange> ranges = tidy_ranges(of_ranges);
  std::vector<Expr> alternatives;
  ByteSet ascii;
  for (const auto& [first, last] : ranges_within(ranges, 0, 0x7F)) {
    for (char32_t code = first; code <= last; ++code) ascii.add(uint8_t(code));
  }
  if (!ascii.empty()) alternatives.push_back(bytes(ascii));
  struct Length {
    char32_t first, last;
    int more;      // bytes behind the first
    uint8_t lead;  // of the first byte, with its bits at zero
  };
  for (const Length& length : {Length{0x80, 0x7FF, 1, 0xC0}, {0x800, 0xFFFF, 2, 0xE0}, {0x10000, kLastCode, 3, 0xF0}}) {
    std::unordered_map<Expr, ByteSet> leads_of;
    std::vector<Expr> order;
    const char32_t per_lead = char32_t(1) << (6 * length.more);
    for (char32_t lead = length.first / per_lead; lead <= length.last / per_lead; ++lead) {
      const char32_t first = lead * per_lead;
      const std::vector<CodeRange> within =
          ranges_within(ranges, std::max(first, length.first), std::min<char32_t>(first + per_lead - 1, length.last));
      if (within.empty()) continue;
      const Expr rest = continuation(within, first, length.more);
      if (!leads_of.count(rest)) order.push_back(rest);
      leads_of[rest].add(uint8_t(length.lead | lead));
    }
    for (const Expr rest : order) {
      const std::array<Expr, 2> parts = {bytes(leads_of[rest]), rest};
      alternatives.push_back(sequence(parts));
    }
  }
  return any_of(alternatives);
}

GrammarBuilder::Expr GrammarBuilder::sequence(std::span<const Expr> parts) {
  if (parts.size() == 1) return parts.front();
  const Expr empty = intern({.kind = Kind::sequence}, {});
  std::vector<Expr> kept;
  for (const Expr part : parts) {
    if (part != empty) kept.push_back(part);
  }
  if (kept.empty()) return empty;
  return kept.size() == 1 ? kept.front() : intern({.kind = Kind::sequence}, kept);
}

std::vector<GrammarBuilder::Expr> GrammarBuilder::parts_of(Expr expr) const {
  const Node& node = nodes_[size_t(expr)];
  if (node.kind != Kind::sequence) return {expr};
  return {parts_.begin() + node.begin, parts_.begin() + node.begin + node.count};
}

// Alternatives that begin alike share what they have in common, so that a matcher follows one place instead of many: a
// list of texts becomes a tree of them.
GrammarBuilder::Expr GrammarBuilder::any_of(std::span<const Expr> parts, int depth) {
  ByteSet together;  // bytes that are the whole of an alternative
  std::vector<Expr> kept;
  std::map<Expr, std::vector<Expr>> by_first;
  for (const Expr part : parts) {
    const Node& node = nodes_[size_t(part)];
    if (node.kind == Kind::bytes) {
      for (int byte = 0; byte < 256; ++byte) {
        if (sets_[size_t(node.begin)].contains(uint8_t(byte))) together.add(uint8_t(byte));
      }
    } else if (node.kind == Kind::sequence && node.count > 0 && depth < kMostFactoring) {
      by_first[parts_[size_t(node.begin)]].push_back(part);
    } else {
      kept.push_back(part);
    }
  }
  for (const auto& [first, alike] : by_first) {
    std::vector<Expr> common = parts_of(alike.front());
    for (const Expr part : alike) {
      const std::vector<Expr> of = parts_of(part);
      const size_t most = std::min(common.size(), of.size());
      const auto differs = std::mismatch(common.begin(), common.begin() + std::ptrdiff_t(most), of.begin()).first;
      common.erase(differs, common.end());
    }
    std::vector<Expr> rests;
    for (const Expr part : alike) {
      const std::vector<Expr> of = parts_of(part);
      rests.push_back(sequence(std::span(of).subspan(common.size())));
    }
    if (alike.size() > 1) common.push_back(any_of(rests, depth + 1));
    kept.push_back(alike.size() > 1 ? sequence(common) : alike.front());
  }
  if (!together.empty()) kept.push_back(bytes(together));
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept.size() == 1 ? kept.front() : intern({.kind = Kind::any_of}, kept);
}

GrammarBuilder::Expr GrammarBuilder::repeat(Expr part, int least, int most) {
  PACELINE_CHECK(least >= 0 && (most == kUnbounded || most >= 0), "a repetition has bounds of at least 0, or no bound");
  if (most != kUnbounded && least > most) return any_of({});
  if (most == 0) return sequence({});
  if (least == 1 && most == 1) return part;
  if (size_t(std::max(least, most)) > limits_.max_bytes / sizeof(ByteGrammar::Item)) {
    throw GrammarError("", "a repetition of " + std::to_string(std::max(least, most)) + " takes more than " +
                               std::to_string(limits_.max_bytes >> 20) + " MiB");
  }
  return intern({.kind = Kind::repeat, .part = part, .least = least, .most = most}, {});
}

GrammarBuilder::Expr GrammarBuilder::declare(std::string_view name) {
  names_.emplace_back(name);
  nodes_.push_back({.kind = Kind::declared, .begin = int32_t(names_.size()) - 1});
  check_size();
  return Expr(nodes_.size()) - 1;
}

void GrammarBuilder::define(Expr declared, Expr body) {
  Node& node = nodes_[size_t(declared)];
  PACELINE_CHECK(node.kind == Kind::declared && node.part < 0, "an expression is defined once, after declare()");
  node.part = body;
}

}  // namespace paceline
