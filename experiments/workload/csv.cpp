// CSV with a header (RFC 4180): columns "prompt" (or "text"), and "id", "category", "max_tokens" where they are there.

#include <algorithm>
#include <charconv>

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

struct Columns {
  size_t num_columns = 0;
  std::optional<size_t> text, id, category, max_tokens;
};

Columns columns_of(const CsvRecord& header, const Place& place) {
  Columns columns{.num_columns = header.fields.size(), .text = {}, .id = {}, .category = {}, .max_tokens = {}};
  if (!header.problem.empty()) place.fail("the header: {}", header.problem);
  for (size_t i = 0; i < header.fields.size(); ++i) {
    const std::string& name = header.fields[i];
    std::optional<size_t>* column = name == "prompt" || name == "text" ? &columns.text
                                    : name == "id"                     ? &columns.id
                                    : name == "category"               ? &columns.category
                                    : name == "max_tokens"             ? &columns.max_tokens
                                                                       : nullptr;
    if (!column) continue;
    if (*column) place.fail("the header has two columns for \"{}\": keep one", name);
    *column = i;
  }
  if (!columns.text)
    place.fail(
        "the header has no column \"prompt\", its first is \"{}\": expected prompt, and id, category and "
        "max_tokens as wanted",
        header.fields.front().substr(0, 40));
  return columns;
}

Prompt read_record(const CsvRecord& record, const Columns& columns, const Place& place) {
  if (!record.problem.empty()) place.fail("{}", record.problem);
  if (record.fields.size() != columns.num_columns)
    place.fail("has {}, the header has {}: put fields with commas in quotes",
               counted(int64_t(record.fields.size()), "field"), columns.num_columns);
  Prompt prompt;
  prompt.text = record.fields[*columns.text];
  if (prompt.text.empty()) place.fail("field \"prompt\" is empty: expected text");
  if (!utf8_valid(prompt.text)) place.fail("field \"prompt\" is not UTF-8: save the file as UTF-8");
  if (columns.id) prompt.id = utf8_repair(record.fields[*columns.id]);
  if (columns.category) prompt.category = utf8_repair(record.fields[*columns.category]);
  if (columns.max_tokens && !record.fields[*columns.max_tokens].empty()) {
    const std::string& text = record.fields[*columns.max_tokens];
    int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
    prompt.max_tokens = checked_max_tokens(whole ? nlohmann::json(value) : nlohmann::json(text), place);
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
  const Columns columns = columns_of(*header, out.at(header->line));
  while (const std::optional<CsvRecord> record = reader.next())
    out.add(record->line, [&](const Place& place) { return read_record(*record, columns, place); });
}

}  // namespace paceline
