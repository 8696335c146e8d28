// tokenizer.json, and what it makes of a text.

#include "engine/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const fuzz::InputFile file(fuzz::text_of(data, size));
  fuzz::expect_answer([&] {
    const auto tokenizer = Tokenizer::load(file.path());
    tokenizer->decode(tokenizer->encode("The tower \xf0\x9f\x97\xbc was built in 1871.\n"));
  });
  return 0;
}
