#include "experiments/config/file/tree.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "engine/util/printable.h"
#include "engine/util/suggest.h"
#include "engine/util/utf8_chars.h"

namespace paceline {

namespace {

constexpr size_t kMaxPrintedDiagnostics = 20;
constexpr size_t kMaxShownColumns = 160;

/// The source line and a caret under code point `column`; a window of a line that is too long for a terminal.
std::string snippet(std::string_view line, int column) {
  std::vector<std::string> glyphs;
  for (char c : line) {
    if (is_utf8_continuation(c) && !glyphs.empty()) {
      glyphs.back() += c;
    } else {
      glyphs.emplace_back(1, static_cast<unsigned char>(c) < 0x20 && c != '\t' ? '?' : c);
    }
  }
  const size_t caret = static_cast<size_t>(std::max(column, 1)) - 1;
  const size_t begin = caret >= kMaxShownColumns ? caret - kMaxShownColumns / 2 : 0;
  std::string shown, below;
  for (size_t i = begin; i < std::min(glyphs.size(), begin + kMaxShownColumns); ++i) shown += glyphs[i];
  for (size_t i = begin; i < caret; ++i) below += i < glyphs.size() && glyphs[i] == "\t" ? '\t' : ' ';
  return shown + "\n" + below + "^";
}

std::string join_diagnostics(const std::vector<Diagnostic>& diagnostics, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(diagnostics.size(), most); ++i) {
    if (i > 0) text += "\n";
    text += diagnostics[i].str();
  }
  if (diagnostics.size() > most) {
    text += fmt::format("\n... and {} more; `runexp config validate` prints all", diagnostics.size() - most);
  }
  return text;
}

ConfigNode node_of_kind(NodeKind kind, Origin where) {
  ConfigNode node;
  node.kind = kind;
  node.origin = std::move(where);
  return node;
}

}  // namespace

std::string_view line_of(std::string_view text, int line) {
  size_t begin = 0;
  for (int n = 1; n < line; ++n) {
    const size_t newline = text.find('\n', begin);
    if (newline == std::string_view::npos) return {};
    begin = newline + 1;
  }
  std::string_view rest = text.substr(begin);
  rest = rest.substr(0, rest.find('\n'));
  if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
  return rest;
}

std::string Diagnostic::headline() const {
  if (!origin.source) return message_text("error: " + message);
  if (origin.source->is_argument || origin.line <= 0) {
    return message_text(fmt::format("{}: error: {}", origin.source->name, message));
  }
  return message_text(fmt::format("{}:{}:{}: error: {}", origin.source->name, origin.line, origin.column, message));
}

std::string Diagnostic::str() const {
  if (!origin.source || origin.line <= 0) return headline();
  return headline() + "\n" + snippet(line_of(origin.source->text, origin.line), origin.column);
}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : Error(ExitCode::usage, join_diagnostics(diagnostics, kMaxPrintedDiagnostics)),
      diagnostics_(std::move(diagnostics)) {}

std::string ConfigError::full_text() const { return join_diagnostics(diagnostics_, diagnostics_.size()); }

void Diagnostics::add(const Origin& origin, std::string message) { list_.push_back({origin, std::move(message)}); }

void Diagnostics::add(const std::vector<Diagnostic>& others) {
  list_.insert(list_.end(), others.begin(), others.end());
}

void Diagnostics::throw_if_any() const {
  if (list_.empty()) return;
  std::map<const SourceText*, size_t> order;  // files in the order of their first complaint
  for (const Diagnostic& d : list_) order.emplace(d.origin.source.get(), order.size());
  std::vector<Diagnostic> sorted;
  std::set<std::tuple<const SourceText*, int, int, std::string_view>> said;
  for (const Diagnostic& d : list_) {
    if (said.insert({d.origin.source.get(), d.origin.line, d.origin.column, d.message}).second) sorted.push_back(d);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Diagnostic& a, const Diagnostic& b) {
    return std::tuple(order[a.origin.source.get()], a.origin.line, a.origin.column) <
           std::tuple(order[b.origin.source.get()], b.origin.line, b.origin.column);
  });
  throw ConfigError(std::move(sorted));
}

void fail_at(const Origin& origin, std::string message) { throw ConfigError({{origin, std::move(message)}}); }

const ConfigMember* ConfigNode::find_member(std::string_view key) const {
  for (const ConfigMember& member : members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

const ConfigNode* ConfigNode::find(std::string_view key) const {
  const ConfigMember* member = find_member(key);
  return member ? &member->value : nullptr;
}

ConfigNode* ConfigNode::find(std::string_view key) { return const_cast<ConfigNode*>(std::as_const(*this).find(key)); }

void ConfigNode::set(ConfigMember member) {
  for (ConfigMember& existing : members) {
    if (existing.key == member.key) {
      existing = std::move(member);
      return;
    }
  }
  members.push_back(std::move(member));
}

void ConfigNode::erase(std::string_view key) {
  std::erase_if(members, [&](const ConfigMember& member) { return member.key == key; });
}

std::string ConfigNode::describe() const {
  switch (kind) {
    case NodeKind::null: return "null";
    case NodeKind::boolean: return boolean ? "true" : "false";
    case NodeKind::integer:
    case NodeKind::number: return text;
    case NodeKind::string: return fmt::format("\"{}\"", text.size() <= 60 ? text : text.substr(0, 57) + "...");
    case NodeKind::list: return "a list";
    case NodeKind::object: return "an object";
  }
  return {};
}

ConfigNode ConfigNode::make_string(std::string value, Origin where) {
  ConfigNode node = node_of_kind(NodeKind::string, std::move(where));
  node.text = std::move(value);
  return node;
}

ConfigNode ConfigNode::make_boolean(bool value, Origin where) {
  ConfigNode node = node_of_kind(NodeKind::boolean, std::move(where));
  node.boolean = value;
  return node;
}

ConfigNode ConfigNode::make_number(double value, Origin where) {
  const bool is_integer = value == std::floor(value) && std::abs(value) < 0x1p53;
  ConfigNode node = node_of_kind(is_integer ? NodeKind::integer : NodeKind::number, std::move(where));
  node.integer = is_integer ? static_cast<int64_t>(value) : 0;
  node.number = value;
  node.text = is_integer ? fmt::format("{}", node.integer) : fmt::format("{}", value);
  return node;
}

ConfigNode ConfigNode::make_object(Origin where, std::vector<ConfigMember> members) {
  ConfigNode node = node_of_kind(NodeKind::object, std::move(where));
  node.members = std::move(members);
  return node;
}

const ConfigNode* find_path(const ConfigNode& root, std::string_view path) {
  const ConfigNode* node = &root;
  while (node && !path.empty()) {
    const size_t dot = path.find('.');
    node = node->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return node;
}

void merge_config(ConfigNode& base, const ConfigNode& overlay, Diagnostics& diagnostics, MergeMarks marks) {
  for (const auto& [written, at, value] : overlay.members) {
    const char mark = marks == MergeMarks::keep || written.empty() ? '\0' : written[0];
    const std::string key = mark == '+' || mark == '-' ? written.substr(1) : written;
    ConfigNode* inherited = base.find(key);
    if (mark == '+' && value.kind != NodeKind::list) {
      diagnostics.add(value.origin, fmt::format("\"{}\" appends to an inherited list: expected a list, found {}",
                                                written, value.describe()));
    } else if (mark == '+' && !inherited) {
      base.members.push_back({key, at, value});
    } else if (mark == '+' && inherited->kind != NodeKind::list) {
      diagnostics.add(at, fmt::format("\"{}\" appends to a list, but the inherited \"{}\" is {}", written, key,
                                      inherited->describe()));
    } else if (mark == '+') {
      inherited->items.insert(inherited->items.end(), value.items.begin(), value.items.end());
    } else if (mark == '-' && !value.boolean) {
      diagnostics.add(value.origin, fmt::format("\"{}\" deletes an inherited key: expected true, found {}", written,
                                                value.describe()));
    } else if (mark == '-' && !inherited) {
      std::vector<std::string> names;
      for (const ConfigMember& member : base.members) names.push_back(member.key);
      diagnostics.add(at, fmt::format("\"{}\": no such key is inherited{}", written, did_you_mean(key, names)));
    } else if (mark == '-') {
      base.erase(key);
    } else if (value.kind == NodeKind::object) {
      if (!inherited || inherited->kind != NodeKind::object) {
        base.set({key, at, ConfigNode::make_object(value.origin, {})});
        inherited = base.find(key);
      }
      merge_config(*inherited, value, diagnostics, marks);
      if (!value.members.empty()) inherited->origin = value.origin;
    } else {
      base.set({key, at, value});
    }
  }
}

}  // namespace paceline
