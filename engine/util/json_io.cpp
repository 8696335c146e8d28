#include "engine/util/json_io.h"

#include <algorithm>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/util/json_io_sax.h"
#include "engine/util/mapped_file.h"

namespace paceline {
namespace {

using nlohmann::json;

constexpr size_t kMaxMessageText = 100;

std::string position_text(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n');  // npos + 1 == 0: the first line
  return fmt::format("{}:{}", line, std::max<size_t>(1, offset - (line_start + 1)));
}

/// Builds the document; nlohmann's own builder neither limits depth nor sees duplicate keys.
template <class Json>
class DomBuilder : public nlohmann::json_sax<json> {  // both kinds have the same events
 public:
  DomBuilder(std::string_view text, const std::string& source, ExitCode code, int max_depth)
      : text_(text), source_(source), code_(code), max_depth_(max_depth) {}

  Json build() {
    sax_parse_counted(text_, this, &furthest_);
    return std::move(root_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    if (is_known(value)) reject(fmt::format("duplicate key {}; expected each key once", json_literal(value)));
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    reject("invalid JSON: " + json_error_text(error.what()));
    return false;  // not reached: GCC does not see that in a template
  }

 private:
  [[noreturn]] void reject(const std::string& reason) const {
    fail(code_, "{}:{}: {}", source_, position_text(text_, size_t(furthest_ - text_.data())), reason);
  }
  bool is_known(const std::string& key) {
    if constexpr (kOrdered)
      return !keys_.back().insert(key).second;
    else
      return open_.back()->contains(key);
  }
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    if constexpr (kOrdered) {  // a look for the key would go through all of them
      auto& object = open_.back()->template get_ref<typename Json::object_t&>();
      return &object.emplace_back(key_, std::move(value)).second;
    } else {
      return &((*open_.back())[key_] = std::move(value));
    }
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (int(open_.size()) >= max_depth_) reject(fmt::format("nested deeper than {} levels", max_depth_));
    open_.push_back(place(std::move(value)));
    if constexpr (kOrdered) keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    if constexpr (kOrdered) keys_.pop_back();
    return true;
  }

  static constexpr bool kOrdered = std::is_same_v<Json, nlohmann::ordered_json>;

  std::string_view text_;
  const std::string& source_;
  ExitCode code_;
  int max_depth_;
  const char* furthest_ = nullptr;
  Json root_;
  // A parent is never extended while a child is open, so the pointers stay valid.
  std::vector<Json*> open_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the open ones, where order is kept
  std::string key_;
};

template <class Json>
Json parse_as(std::string_view text, const std::string& source, ExitCode code, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    fail(code, "{}: {} bytes of JSON; expected at most {}", source, text.size(), limits.max_bytes);
  // The parser takes a raw NUL for the end of its input and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != text.npos)
    fail(code, "{}:{}: invalid JSON: NUL byte", source, position_text(text, nul + 1));
  return DomBuilder<Json>(text, source, code, limits.max_depth).build();
}

json parse_mapped(const MappedFile& file, ExitCode code, const JsonLimits& limits) {
  const auto bytes = file.bytes();
  return parse_as<json>({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.path().string(), code,
                        limits);
}

}  // namespace

json parse_json(std::string_view text, const std::string& source, ExitCode code, const JsonLimits& limits) {
  return parse_as<json>(text, source, code, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& source, ExitCode code,
                                          const JsonLimits& limits) {
  return parse_as<nlohmann::ordered_json>(text, source, code, limits);
}

json read_json_file(const std::filesystem::path& path, ExitCode code, const JsonLimits& limits) {
  return parse_mapped(MappedFile(path, code, limits.max_bytes), code, limits);
}

json read_model_config(const std::filesystem::path& path) {
  return parse_mapped(MappedFile(path, ExitCode::model_file), ExitCode::usage, {});
}

std::string json_error_text(const std::string& what) {
  size_t start = what.find("syntax error");
  if (start == what.npos) start = what.find("] ") == what.npos ? 0 : what.find("] ") + 2;
  std::string text = what.substr(start, 2 * kMaxMessageText);
  for (char& c : text)
    if (c < 0x20 || c > 0x7e) c = '?';
  return text;
}

const nlohmann::json* find_value(const nlohmann::json& tree, std::string_view path) {
  const nlohmann::json* node = &tree;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    if (!node->is_object()) return nullptr;
    const auto found = node->find(path.substr(0, dot));
    if (found == node->end()) return nullptr;
    node = &*found;
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return node;
}

std::string json_literal(std::string_view text) {
  const bool cut = text.size() > kMaxMessageText;
  std::string literal =
      json(std::string(text.substr(0, kMaxMessageText))).dump(-1, ' ', true, json::error_handler_t::replace);
  return cut ? literal + "…" : literal;
}

std::string short_dump(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() <= kMaxMessageText) return text;
  return text.substr(0, kMaxMessageText) + "…";
}

}  // namespace paceline
