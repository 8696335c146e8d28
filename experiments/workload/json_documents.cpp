// Forms that are one JSON document: SQuAD, ShareGPT. The elements of the array that holds the records are cut out first
// and parsed one by one, so that memory does not grow with the file and an error has a line.

#include <algorithm>

#include "experiments/workload/records.h"

namespace paceline {

using nlohmann::json;

namespace {

/// Walks over a JSON text by its brackets and strings; the text of a value is checked when it is parsed.
class Scanner {
 public:
  Scanner(std::string_view text, Place place) : text_(text), place_(std::move(place)) { place_.line = 1; }

  int64_t line() const { return place_.line; }
  const Place& place() const { return place_; }
  bool at_end() {
    skip_space();
    return at_ >= text_.size();
  }
  /// The next character behind white space; '\0' at the end.
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void expect(char wanted, const char* what) {
    if (peek() != wanted) place_.fail("expected '{}' {}, found {}", wanted, what, found());
    ++at_;
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  /// The text of the next value.
  std::string_view value() {
    skip_space();
    const size_t begin = at_;
    const Place start = place_;
    int depth = 0;
    do {
      if (at_ >= text_.size()) start.fail("the file ends inside this value: is it whole?");
      const char c = text_[at_];
      if (c == '"') {
        skip_string(start);
      } else if (c == '[' || c == '{') {
        ++depth;
        ++at_;
      } else if (c == ']' || c == '}') {
        if (depth-- == 0) place_.fail("expected a value, found {}", found());
        ++at_;
      } else if (depth == 0) {
        at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
      } else {
        if (c == '\n') ++place_.line;
        ++at_;
      }
    } while (depth > 0);
    return text_.substr(begin, at_ - begin);
  }

 private:
  void skip_space() {
    for (; at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos; ++at_)
      if (text_[at_] == '\n') ++place_.line;
  }
  void skip_string(const Place& start) {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\n') ++place_.line;
      if (text_[at_] == '\\') ++at_;
    }
    if (at_ >= text_.size()) start.fail("the file ends inside a string of this value: is it whole?");
    ++at_;
  }
  std::string found() const { return at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : "the end of the file"; }

  std::string_view text_;
  Place place_;
  size_t at_ = 0;
};

/// Calls each(text, line) for every element of the array that the scanner stands at.
template <class Each>
void for_each_element(Scanner& scanner, const char* what, Each&& each) {
  scanner.expect('[', what);
  if (scanner.take(']')) return;
  while (true) {
    scanner.peek();
    const int64_t line = scanner.line();
    each(scanner.value(), line);
    if (scanner.take(']')) return;
    scanner.expect(',', "or ']' behind an element");
  }
}

/// The questions of one article: {"title", "paragraphs": [{"context", "qas": [{"id", "question"}]}]}. A question that
/// is wrong is one bad record, as is a paragraph or an article that cannot be read at all.
void read_article(std::string_view text, int64_t line, size_t number, PromptCollector& out) {
  const Place place = out.at(line);
  const std::string name = fmt::format("data[{}]", number);
  json article;
  std::string title;
  const bool is_whole = out.guard([&] {
    Place whole = place;
    whole.record = name;  // of the fields in it the path begins so
    article = parse_record(text, whole);
    if (article.contains("title")) title = string_field(article, "title", name + ".title", place);
    array_field(article, "paragraphs", name + ".paragraphs", place);
  });
  if (!is_whole) return;
  for (size_t p = 0; p < article["paragraphs"].size(); ++p) {
    const json& paragraph = article["paragraphs"][p];
    const std::string at = fmt::format("{}.paragraphs[{}]", name, p);
    std::string context;
    const bool has_questions = out.guard([&] {
      check_object(paragraph, at, place);
      context = filled_field(paragraph, "context", at + ".context", place);
      const bool is_empty = paragraph.contains("qas") && paragraph["qas"] == json::array();
      if (!is_empty) array_field(paragraph, "qas", at + ".qas", place);
    });
    for (size_t q = 0; has_questions && q < paragraph["qas"].size(); ++q) {
      out.add(line, [&](const Place&) {
        const json& row = paragraph["qas"][q];
        const std::string where = fmt::format("{}.qas[{}]", at, q);
        check_object(row, where, place);
        const std::string& question = filled_field(row, "question", where + ".question", place);
        Prompt prompt;
        prompt.id = filled_field(row, "id", where + ".id", place);
        prompt.category = title;
        prompt.messages = {{.role = "user", .content = fmt::format("{}\n\nPassage:\n{}", question, context)}};
        return prompt;
      });
    }
  }
}

/// The role of a ShareGPT turn; empty: not known.
std::string role_of(const std::string& from) {
  if (from == "human" || from == "user") return "user";
  if (from == "system") return "system";
  if (from == "gpt" || from == "assistant" || from == "chatgpt" || from == "bing" || from == "bard") return "assistant";
  return "";
}

/// {"id", "conversations": [{"from", "value"}]}: the first user turn, behind a system turn where one is first. `number`
/// counts the records from 0: files without line breaks are usual.
Prompt read_conversation(std::string_view text, size_t number, Place place) {
  place.record = fmt::format("record [{}]", number);
  const json row = parse_record(text, place);
  Prompt prompt;
  prompt.id = id_field(row, "id", place).value_or("");
  if (!prompt.id.empty()) place.record += fmt::format(", id \"{}\"", prompt.id.substr(0, 40));
  const json& turns = array_field(row, "conversations", "conversations", place);
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string name = fmt::format("conversations[{}]", i);
    check_object(turns[i], name, place);
    const std::string& from = string_field(turns[i], "from", name + ".from", place);
    const std::string role = role_of(from);
    if (role.empty())
      place.fail("field \"{}.from\" is \"{}\": expected human, gpt or system", name, from.substr(0, 40));
    if (role == "assistant" || (role == "system" && i > 0)) continue;
    prompt.messages.push_back({.role = role, .content = filled_field(turns[i], "value", name + ".value", place)});
    if (role == "user") break;
  }
  if (prompt.messages.empty() || prompt.messages.back().role != "user")
    place.fail("field \"conversations\" has no turn of a user: expected one from \"human\"");
  return prompt;
}

}  // namespace

void read_squad(std::string_view text, PromptCollector& out) {
  Scanner scanner(text, out.at(1));
  scanner.expect('{', "at the start of a SQuAD document");
  bool has_data = false;
  if (!scanner.take('}')) {
    do {
      const std::string_view key = scanner.value();
      scanner.expect(':', "behind a key");
      if (key == "\"data\"") {
        has_data = true;
        size_t number = 0;
        for_each_element(scanner, "of \"data\"",
                         [&](std::string_view article, int64_t line) { read_article(article, line, number++, out); });
      } else {
        scanner.value();
      }
    } while (scanner.take(','));
    scanner.expect('}', "at the end of the document");
  }
  if (!has_data) scanner.place().fail("field \"data\" is missing: expected an array of articles");
  if (!scanner.at_end()) scanner.place().fail("text behind the end of the document");
}

void read_sharegpt(std::string_view text, PromptCollector& out) {
  Scanner scanner(text, out.at(1));
  size_t number = 0;
  for_each_element(scanner, "at the start of a ShareGPT document", [&](std::string_view element, int64_t line) {
    out.add(line, [&](const Place& place) { return read_conversation(element, number, place); });
    ++number;
  });
  if (!scanner.at_end()) scanner.place().fail("text behind the end of the document");
}

}  // namespace paceline
