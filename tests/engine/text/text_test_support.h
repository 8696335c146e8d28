#pragma once
// Shared by the tests of engine/text: where data lies, temporary files, and the CPU time of this thread.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <time.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/tokenizer.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/paths.h"

namespace paceline::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;  // several times slower: time limits do not hold
#else
inline constexpr bool kSanitized = false;
#endif

using paceline::shared_dir;

/// A folder that goes with the object, for files of a few lines.
class TemporaryFolder : public TempDir {
 public:
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    write_file(*this / name, text);
    return *this / name;
  }
};

/// From now on this process gets at most `bytes` of memory more than it has. For a child of a test only.
void limit_further_memory(size_t bytes);

inline double thread_cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

/// A text of pieces that have broken tokenizers before, and random characters.
std::string random_text(uint64_t seed);

/// Encodes and decodes the texts of shared tokenizers/vectors/NAME.inp (llama.cpp's: texts between separator lines, one
/// line of ids for each) and expects what NAME.out says.
void check_vectors(const Tokenizer& tokenizer, const std::string& name);

/// About `num_bytes` of prose, program text, numbers, blanks and several scripts, the same each time.
std::string mixed_text(size_t num_bytes);

/// A byte-level tokenizer.json of 256 byte tokens, three merges and three added tokens; tests change parts of it.
nlohmann::json small_tokenizer_json();

}  // namespace paceline::test
