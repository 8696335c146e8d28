#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include "experiments/config/file/parse.h"

namespace paceline {

namespace {

class YamlReader {
 public:
  YamlReader(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics)
      : source_(std::move(source)), diagnostics_(diagnostics) {}

  /// False when a bound was hit: the complaint is recorded and reading ends.
  bool convert(const YAML::Node& yaml, ConfigNode& node, int depth) {
    node.origin = at(yaml.Mark());
    if (depth > kMaxConfigDepth) {
      diagnostics_.add(node.origin, fmt::format("nested more than {} levels deep", kMaxConfigDepth));
      return false;
    }
    if (++num_nodes_ > kMaxConfigNodes) {
      diagnostics_.add(node.origin, fmt::format("more than {} values once aliases are copied", kMaxConfigNodes));
      return false;
    }
    if (yaml.IsSequence()) {
      node.kind = NodeKind::list;
      for (const YAML::Node& item : yaml) {
        node.items.emplace_back();
        if (!convert(item, node.items.back(), depth + 1)) return false;
      }
    } else if (yaml.IsMap()) {
      node.kind = NodeKind::object;
      std::map<std::string, int> line_of;
      for (const auto& entry : yaml) {
        const Origin key_origin = at(entry.first.Mark());
        if (!entry.first.IsScalar()) {
          diagnostics_.add(key_origin, "a key must be a plain string");
          continue;
        }
        ConfigMember member{entry.first.Scalar(), key_origin, {}};
        if (!convert(entry.second, member.value, depth + 1)) return false;
        const auto [first, is_new] = line_of.emplace(member.key, key_origin.line);
        if (is_new) {
          node.members.push_back(std::move(member));
        } else {
          diagnostics_.add(key_origin,
                           fmt::format("duplicate key \"{}\" (first on line {})", member.key, first->second));
        }
      }
    } else if (yaml.IsScalar()) {
      scalar(yaml, node);
    }
    return true;
  }

  /// Some mistakes stand nowhere: they are put at the top.
  Origin at(const YAML::Mark& mark) const {
    return {source_, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
  }

 private:
  void scalar(const YAML::Node& yaml, ConfigNode& node) {
    node.text = yaml.Scalar();
    node.kind = NodeKind::string;
    if (yaml.Tag() == "!" || yaml.Tag() == "tag:yaml.org,2002:str") return;  // quoted, or !!str
    const std::string& text = node.text;
    const char* const end = text.data() + text.size();
    if (text == "true" || text == "false") {
      node.kind = NodeKind::boolean;
      node.boolean = text == "true";
    } else if (text == "null" || text == "~" || text.empty()) {
      node.kind = NodeKind::null;
    } else if (const auto whole = std::from_chars(text.data(), end, node.integer);
               whole.ec == std::errc() && whole.ptr == end) {
      node.kind = NodeKind::integer;
      node.number = static_cast<double>(node.integer);
    } else if (const auto real = std::from_chars(text.data(), end, node.number);
               real.ec == std::errc() && real.ptr == end && std::isfinite(node.number)) {
      node.kind = NodeKind::number;
    }
    if (node.kind == NodeKind::integer || node.kind == NodeKind::number) refuse_leading_zero(node);
  }

  /// 012 is 10 in YAML 1.1 and 12 in YAML 1.2, so whoever writes it may mean either.
  void refuse_leading_zero(const ConfigNode& node) {
    const size_t sign = node.text.starts_with('-') ? 1 : 0;
    const auto is_digit = [&](size_t i) { return i < node.text.size() && node.text[i] >= '0' && node.text[i] <= '9'; };
    if (node.text.substr(sign, 1) != "0" || !is_digit(sign + 1)) return;
    size_t first = sign;  // digit that stays
    while (node.text[first] == '0' && is_digit(first + 1)) ++first;
    diagnostics_.add(node.origin, fmt::format("{} has a leading zero: write {}{}", node.text, node.text.substr(0, sign),
                                              node.text.substr(first)));
  }

  std::shared_ptr<const SourceText> source_;
  Diagnostics& diagnostics_;
  size_t num_nodes_ = 0;
};

/// Where the content of a second document stands; none: there is one document. Not YAML::LoadAll, which finds documents
/// without end in some damaged texts.
std::optional<Origin> second_document(const std::shared_ptr<const SourceText>& source) {
  const auto is_marker = [](std::string_view line, std::string_view marker) {
    return line.starts_with(marker) && (line.size() == 3 || line.find_first_of(" \t\r") == 3);
  };
  bool has_first = false, is_second = false;
  std::istringstream lines(source->text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const bool begins = is_marker(line, "---"), ends = is_marker(line, "...");
    if (begins || ends) is_second |= has_first;
    const size_t content = line.find_first_not_of(" \t\r", begins ? 3 : 0);
    if (ends || content == std::string::npos || line[content] == '#' || line[content] == '%') continue;
    if (is_second) return Origin{source, number, static_cast<int>(content) + 1};
    has_first = true;
  }
  return std::nullopt;
}

}  // namespace

ConfigNode parse_yaml(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics) {
  ConfigNode root;
  root.origin = {source, 1, 1};
  if (source->text.size() > kMaxConfigBytes) {
    diagnostics.add(root.origin, fmt::format("the text is {} bytes long: at most {} are read", source->text.size(),
                                             kMaxConfigBytes));
    return root;
  }
  YamlReader reader(source, diagnostics);
  try {
    reader.convert(YAML::Load(source->text), root, 0);
    if (const std::optional<Origin> second = second_document(source))
      diagnostics.add(*second, "a second document: one document expected");
  } catch (const YAML::DeepRecursion& error) {
    diagnostics.add(reader.at(error.mark), fmt::format("nested more than {} levels deep", kMaxConfigDepth));
  } catch (const YAML::Exception& error) {
    const Origin at = reader.at(error.mark);
    const std::string_view line = line_of(source->text, at.line);
    const bool tab = line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
    diagnostics.add(at, tab ? "YAML is indented with blanks, found a tab" : error.msg);
  } catch (const std::exception& error) {
    diagnostics.add({source, 1, 1}, fmt::format("this is not YAML: {}", error.what()));
  }
  return root;
}

}  // namespace paceline
