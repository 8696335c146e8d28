// Data sets of every form that is told from the content.

#include "experiments/workload/dataset.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const fuzz::InputFile file(fuzz::text_of(data, size));
  fuzz::expect_answer([&] { read_dataset(file.path()); });
  return 0;
}
