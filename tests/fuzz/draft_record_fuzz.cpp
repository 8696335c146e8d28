// Recorded drafts: any bytes, and any lines behind a right first one. What is read is written as it is read again.

#include "speculative/draft_record.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const std::string bytes(fuzz::text_of(data, size));
  for (const std::string& text : {bytes, draft_record_text({}) + bytes}) {
    fuzz::expect_answer([&] {
      const std::string written = draft_record_text(read_draft_record(fuzz::InputFile(text).path(), 1000));
      if (draft_record_text(read_draft_record(fuzz::InputFile(written).path(), 1000)) != written) ::abort();
    });
  }
  return 0;
}
