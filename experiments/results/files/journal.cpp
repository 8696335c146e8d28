#include "experiments/results/files/journal.h"

#include <charconv>
#include <optional>

#include <boost/crc.hpp>
#include <fmt/format.h>

#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr size_t kPrefix = 9;  // eight digits and a space

/// The record of a line without its newline; none where the checksum or the JSON is wrong.
std::optional<json> record_of(std::string_view line) {
  if (line.size() <= kPrefix || line[kPrefix - 1] != ' ') return std::nullopt;
  uint32_t expected = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + kPrefix - 1, expected, 16);
  if (error != std::errc() || end != line.data() + kPrefix - 1) return std::nullopt;
  const std::string_view text = line.substr(kPrefix);
  if (crc32c(text) != expected) return std::nullopt;
  json record = json::parse(text, nullptr, false);
  if (record.is_discarded()) return std::nullopt;
  return record;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xffffffff, 0xffffffff, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::string journal_line(const json& record) {
  const std::string text = record.dump(-1, ' ', false, json::error_handler_t::replace);
  return fmt::format("{:08x} {}\n", crc32c(text), text);
}

JournalContent parse_journal(std::string_view text, const std::filesystem::path& file) {
  JournalContent content;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    ++number;
    const size_t end = text.find('\n', at);
    std::optional<json> record;
    if (end != std::string_view::npos) record = record_of(text.substr(at, end - at));
    if (!record) {
      // Records are acknowledged one after the other: only the last line can be one that was cut.
      if (end != std::string_view::npos && end + 1 < text.size())
        fail(ExitCode::store,
             "{}:{}: this line is damaged, and others follow: the file was changed from outside, or the "
             "disk lost data; what stands before it can be had by cutting the file there",
             file.string(), number);
      content.torn_bytes = static_cast<int64_t>(text.size() - at);
      break;
    }
    content.records.push_back(std::move(*record));
    at = end + 1;
    content.whole_bytes = static_cast<int64_t>(at);
  }
  return content;
}

}  // namespace paceline
