#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "engine/util/suggest.h"
#include "experiments/config/file/load_steps.h"

namespace paceline {

namespace {

constexpr int kMaxLevels = 16;
constexpr size_t kMaxStringBytes = 64 << 10;
constexpr int kMaxSubstitutions = 100'000;

/// The substitution at hand cannot be done; the complaint is recorded.
struct Given {};

class Substituter {
 public:
  Substituter(const ConfigNode& root, Diagnostics& diagnostics) : diagnostics_(diagnostics) {
    if (const ConfigNode* vars = root.find("vars")) vars_ = *vars;
  }

  const std::map<std::string, std::string>& taken() const { return taken_; }

  void walk(ConfigNode& node) {
    if (node.kind == NodeKind::string && node.text.find("${") != std::string::npos) {
      ConfigNode value;
      value.unreadable = true;
      try {
        value = resolve(node, 0);
      } catch (const Given&) {
      }
      value.origin = node.origin;
      node = std::move(value);
    }
    for (ConfigNode& item : node.items) walk(item);
    for (ConfigMember& member : node.members) walk(member.value);
  }

 private:
  [[noreturn]] void give_up(const ConfigNode& node, std::string message) {
    diagnostics_.add(node.origin, std::move(message));
    throw Given{};
  }

  /// Offset of the '}' that closes the "${" at `begin`; substitutions nest in defaults.
  size_t closing(const ConfigNode& node, size_t begin) {
    int depth = 0;
    for (size_t i = begin; i < node.text.size(); ++i) {
      if (node.text.compare(i, 2, "${") == 0) {
        ++depth;
        ++i;
      } else if (node.text[i] == '}' && --depth == 0) {
        return i;
      }
    }
    give_up(node, fmt::format("\"{}\": this ${{ is never closed", node.text));
  }

  ConfigNode resolve(const ConfigNode& node, int level) {
    if (node.kind != NodeKind::string || node.text.find("${") == std::string::npos) return node;
    if (level > kMaxLevels) give_up(node, "variables refer to each other more than 16 levels deep: is there a circle?");
    ConfigNode result = ConfigNode::make_string("", node.origin);
    result.path_base = node.path_base ? node.path_base : node.origin.source;
    const std::string& text = node.text;
    for (size_t i = 0; i < text.size();) {
      if (text.compare(i, 3, "$${") == 0) {
        result.text += "${";
        i += 3;
      } else if (text.compare(i, 2, "${") == 0) {
        const size_t end = closing(node, i);
        ConfigNode value = lookup(node, text.substr(i + 2, end - i - 2), level);
        if (i == 0 && end + 1 == text.size()) return value;
        if (i == 0 && value.path_base) result.path_base = value.path_base;
        result.text += value.kind == NodeKind::boolean ? value.describe() : value.text;
        i = end + 1;
      } else {
        result.text += text[i++];
      }
      if (result.text.size() > kMaxStringBytes) give_up(node, "substitution gives a string longer than 64 KiB");
    }
    return result;
  }

  ConfigNode lookup(const ConfigNode& node, const std::string& inside, int level) {
    if (++num_substitutions_ > kMaxSubstitutions) give_up(node, "more than 100,000 substitutions");
    if (inside.starts_with("env:")) return environment(node, inside.substr(4), level);
    const ConfigNode* var = vars_.find(inside);
    if (!var) {
      std::vector<std::string> names;
      for (const ConfigMember& member : vars_.members) names.push_back(member.key);
      give_up(node, fmt::format("unknown variable \"{}\" in \"{}\"{}", inside, node.text, did_you_mean(inside, names)));
    }
    ConfigNode value = resolve(*var, level + 1);
    if (!value.path_base) value.path_base = var->origin.source;
    return value;
  }

  ConfigNode environment(const ConfigNode& node, const std::string& inside, int level) {
    const size_t split = inside.find(":-");
    const std::string name = inside.substr(0, split);
    ConfigNode value = ConfigNode::make_string("", node.origin);
    value.path_base = node.path_base;
    if (const char* found = std::getenv(name.c_str()); found && *found) {
      value.text = found;
      taken_[name] = found;
      return value;
    }
    if (split == std::string::npos) {
      give_up(node,
              fmt::format("the environment variable {0} is not set: set it, or write ${{env:{0}:-default}}", name));
    }
    value.text = inside.substr(split + 2);
    return resolve(value, level + 1);
  }

  Diagnostics& diagnostics_;
  ConfigNode vars_;
  std::map<std::string, std::string> taken_;  // from the environment
  int num_substitutions_ = 0;
};

}  // namespace

std::map<std::string, std::string> substitute_variables(ConfigNode& root, Diagnostics& diagnostics) {
  Substituter substituter(root, diagnostics);
  for (ConfigMember& member : root.members) {
    if (member.key != "vars" && member.key != "profiles") substituter.walk(member.value);
  }
  return substituter.taken();
}

}  // namespace paceline
