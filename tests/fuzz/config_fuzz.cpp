// Experiment files: JSON with comments and YAML, from scanning to a checked configuration.

#include "experiments/config/file/load.h"
#include "experiments/config/file/tree.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  if (size == 0) return 0;
  const bool is_yaml = data[0] == 'y';  // the first byte chooses
  const std::string text(fuzz::text_of(data + 1, size - 1));
  fuzz::expect_answer([&] {
    auto source = std::make_shared<SourceText>(SourceText{is_yaml ? "x.yaml" : "x.json", text, "/nowhere", false});
    Diagnostics diagnostics;
    if (is_yaml)
      parse_yaml(source, diagnostics);
    else
      parse_jsonc(source, diagnostics);
    diagnostics.throw_if_any();
  });
  if (!is_yaml) {
    const fuzz::InputFile file(text);
    fuzz::expect_answer([&] { load_config(file.path(), {}); });
  }
  return 0;
}
