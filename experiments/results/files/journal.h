#pragma once
// The journal of a run: an append-only file of records that survives what kills the process. One line a record:
//
//   <CRC-32C of the JSON, 8 hex digits> <JSON on one line>\n
//
// A record is written with one write() and fdatasync'ed before append() returns, so whoever has seen append() return
// finds the record again after a crash of the process or the machine. What a crash may leave is a prefix of one more
// line.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline {

inline constexpr const char* kJournalFile = "journal.log";
inline constexpr const char* kRequestsFile = "requests.jsonl";
inline constexpr const char* kJournalSchema = "paceline.journal";
inline constexpr int kJournalVersion = 1;
// Of manifest.json.
inline constexpr const char* kManifestSchema = "paceline.manifest";
inline constexpr int kManifestVersion = 1;

/// CRC-32C (Castagnoli, reflected 0x82f63b78, RFC 3720 appendix B.4) of `bytes`.
uint32_t crc32c(std::string_view bytes);

/// `record` as a line of a journal.
std::string journal_line(const nlohmann::json& record);

struct JournalContent {
  std::vector<nlohmann::json> records;
  int64_t whole_bytes = 0;  // length of the prefix that holds whole records
  int64_t torn_bytes = 0;   // after it: a line that was cut while it was written
};

/// Records of `text`, the content of `file`. A last line that is cut (no newline, or a checksum that does not fit what
/// little stands there) is left out and counted. Throws Error(store) for damage before it, naming file and line.
JournalContent parse_journal(std::string_view text, const std::filesystem::path& file);

}  // namespace paceline
