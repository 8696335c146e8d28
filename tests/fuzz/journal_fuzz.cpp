// A run folder whose journal is any bytes: what is read back, and the lines of requests.jsonl.

#include <fstream>

#include "experiments/results/files/journal.h"
#include "experiments/results/files/read.h"
#include "experiments/results/results.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

/// A run folder of this process; removed at its end.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / fmt::format("paceline-fuzz-{}", ::getpid());
  Folder() {
    std::filesystem::create_directories(path);
    std::ofstream(path / "manifest.json") << R"({"schema": "paceline.manifest", "schema_version": 1})";
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  static const Folder folder;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::expect_answer([&] { parse_journal(text, "journal.log"); });
  // Lines with a right checksum get further: each line of the input becomes one.
  std::string journal;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    journal += fmt::format("{:08x} {}\n", crc32c(line), line);
    const nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
    try {
      if (!value.is_discarded()) request_from_json(value);
    } catch (const nlohmann::json::exception&) {  // as results.h says
    }
    at = end + 1;
  }
  std::ofstream(folder.path / kJournalFile, std::ios::binary) << journal;
  fuzz::expect_answer([&] { read_record(folder.path); });
  return 0;
}
