#pragma once
// The forms in which data sets are read.

#include <cstdint>
#include <string_view>
#include <vector>

namespace paceline {

enum class DatasetFormat : uint8_t {
  automatic,  // by content
  paceline,
  spec_bench,
  mt_bench,
  humaneval,
  gsm8k,
  squad,
  sharegpt,
  jsonl,
  csv
};

/// What a record that cannot be used does: ends the run, or is counted and left out.
enum class BadRecords : uint8_t { refuse, skip };

/// Spelling in files, indexed by the enumerator's value.
inline std::vector<std::string_view> names_of(DatasetFormat) {
  return {"auto", "paceline", "spec_bench", "mt_bench", "humaneval", "gsm8k", "squad", "sharegpt", "jsonl", "csv"};
}

inline std::string_view name_of(DatasetFormat format) { return names_of(format)[static_cast<size_t>(format)]; }

}  // namespace paceline
