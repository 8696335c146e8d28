// SentencePiece's and tiktoken's .model, and what they make of a text.

#include "engine/tokenizer/tokenizer_parts.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const std::string_view bytes = fuzz::text_of(data, size);
  fuzz::expect_answer([&] {
    TokenTable table =
        is_tiktoken_model(bytes) ? read_tiktoken_model(bytes, "fuzz") : read_sentencepiece_model(bytes, "fuzz");
    table.pre = "llama-bpe";
    const Tokenizer tokenizer(assemble(read_token_table(std::move(table))));
    tokenizer.decode(tokenizer.encode("The tower \xf0\x9f\x97\xbc was built  in <s>1871.\n", {.parse_special = true}));
  });
  return 0;
}
