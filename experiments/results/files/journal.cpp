#include "experiments/results/files/journal.h"

#include <array>
#include <charconv>

#include <fmt/format.h>

#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr uint32_t kCastagnoli = 0x82f63b78;
constexpr size_t kPrefix = 9;  // eight digits and a space

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? kCastagnoli : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

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

uint32_t crc32c(std::string_view bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
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
