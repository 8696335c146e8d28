// CSV with a header (RFC 4180): columns "prompt" (or "text"), and "id", "category", "max_tokens" where they are there.

#include <algorithm>
#include <charconv>
#include <map>

#include "engine/text/utf8.h"
#include "engine/util/counted.h"
#include "experiments/workload/records.h"

namespace paceline {

namespace {

/// One record; `problem` says what is wrong with its quotes.
struct CsvRecord {
  std::vector<std::string> fields;
  int64_t line = 0;  // where it begins
  std::string problem;
};

class CsvReader {
 public:
  CsvReader(std::string_view text, Place place) : text_(text), place_(std::move(place)) { place_.line = 1; }

  /// The next record that is not blank, or nothing at the end. Throws Error(model_file) where the file ends inside
  /// quotes or a record is over kMaxDatasetLineBytes: what follows cannot be told from it.
  std::optional<CsvRecord> next() {
    while (at_ < text_.size()) {
      const size_t begin = at_;
      CsvRecord record = read();
      const bool blank = record.fields.size() == 1 && is_blank(text_.substr(begin, at_ - begin));
      if (!blank) return record;
    }
    return std::nullopt;
  }

 private:
  CsvRecord read() {
    CsvRecord record{.fields = {}, .line = place_.line, .problem = {}};
    const size_t begin = at_;
    do {
      record.fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted(record) : plain(record));
      if (static_cast<int64_t>(at_ - begin) > kMaxDatasetLineBytes) too_long(record.line);
    } while (take(','));
    take('\r');
    take('\n');
    ++place_.line;
    return record;
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string plain(CsvRecord& record) {
    const size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    std::string field(text_.substr(at_, end - at_));
    at_ = end;
    if (field.ends_with('\r') && (end >= text_.size() || text_[end] == '\n')) field.pop_back();
    if (field.find('"') != std::string::npos && record.problem.empty())
      record.problem = fmt::format("field {} holds a quote: put the whole field in quotes and double those inside",
                                   record.fields.size() + 1);
    return field;
  }

  std::string quoted(CsvRecord& record) {
    const int64_t line = place_.line;
    const size_t begin = at_++;
    std::string field;
    while (true) {
      if (at_ >= text_.size()) {
        place_.line = line;
        place_.fail("field {} begins with a quote that is never closed", record.fields.size() + 1);
      }
      if (static_cast<int64_t>(at_ - begin) > kMaxDatasetLineBytes) too_long(record.line);
      const char c = text_[at_++];
      if (c == '"' && !take('"')) break;
      if (c == '\n') ++place_.line;
      field += c;
    }
    if (at_ < text_.size() && std::string_view(",\r\n").find(text_[at_]) == std::string_view::npos) {
      if (record.problem.empty())
        record.problem = fmt::format("field {} goes on behind its closing quote: double the quotes inside it",
                                     record.fields.size() + 1);
      at_ = std::min(text_.find_first_of(",\n", at_), text_.size());
    }
    return field;
  }

  [[noreturn]] void too_long(int64_t line) {
    place_.line = line;
    place_.fail("the record is longer than {} bytes: is a quote not closed?", kMaxDatasetLineBytes);
  }

  std::string_view text_;
  Place place_;
  size_t at_ = 0;
};

/// Where the columns that are read stand, "text" as "prompt".
std::map<std::string, size_t> columns_of(const CsvRecord& header, const Place& place) {
  std::map<std::string, size_t> columns;
  if (!header.problem.empty()) place.fail("the header: {}", header.problem);
  for (size_t i = 0; i < header.fields.size(); ++i) {
    const std::string name = header.fields[i] == "text" ? "prompt" : header.fields[i];
    const bool is_read = name == "prompt" || name == "id" || name == "category" || name == "max_tokens";
    if (is_read && !columns.emplace(name, i).second)
      place.fail("the header has two columns for \"{}\": keep one", header.fields[i]);
  }
  if (!columns.contains("prompt"))
    place.fail(
        "the header has no column \"prompt\", its first is \"{}\": expected prompt, and id, category and "
        "max_tokens as wanted",
        header.fields.front().substr(0, 40));
  return columns;
}

Prompt read_record(const CsvRecord& record, size_t num_columns, const std::map<std::string, size_t>& columns,
                   const Place& place) {
  if (!record.problem.empty()) place.fail("{}", record.problem);
  if (record.fields.size() != num_columns)
    place.fail("has {}, the header has {}: put fields with commas in quotes",
               counted(int64_t(record.fields.size()), "field"), num_columns);
  const auto field = [&](const char* name) {
    const auto at = columns.find(name);
    return at == columns.end() ? std::string() : record.fields[at->second];
  };
  Prompt prompt;
  prompt.text = field("prompt");
  if (prompt.text.empty()) place.fail("field \"prompt\" is empty: expected text");
  if (!utf8_valid(prompt.text)) place.fail("field \"prompt\" is not UTF-8: save the file as UTF-8");
  prompt.id = utf8_repair(field("id"));
  prompt.category = utf8_repair(field("category"));
  if (const std::string text = field("max_tokens"); !text.empty()) {
    int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
    prompt.max_tokens = checked_tokens(whole ? nlohmann::json(value) : nlohmann::json(text), "max_tokens", place);
  }
  return prompt;
}

}  // namespace

bool is_csv_header(std::string_view header) {
  CsvReader reader(header, {});
  try {
    const std::optional<CsvRecord> record = reader.next();
    return record && std::any_of(record->fields.begin(), record->fields.end(),
                                 [](const std::string& name) { return name == "prompt" || name == "text"; });
  } catch (const Error&) {
    return false;
  }
}

void read_csv(std::string_view text, PromptCollector& out) {
  CsvReader reader(text, out.at(1));
  const std::optional<CsvRecord> header = reader.next();
  if (!header) return;
  const auto columns = columns_of(*header, out.at(header->line));
  while (const std::optional<CsvRecord> record = reader.next())
    out.add(record->line,
            [&](const Place& place) { return read_record(*record, header->fields.size(), columns, place); });
}

}  // namespace paceline
