// Checkpoint files: every address that comes from a file.

#include "engine/weights/safetensors.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const fuzz::InputFile file(fuzz::text_of(data, size));
  fuzz::expect_answer([&] { const SafetensorsFile checkpoint(file.path()); });
  return 0;
}
