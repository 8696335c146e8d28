// experiments/convert_pickle.py, which the refusal of pickles names.

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "engine/weights/checkpoint.h"
#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;

/// The Python of PACELINE_PYTHON, else python3.
std::string python() {
  const char* const named = std::getenv("PACELINE_PYTHON");
  return named ? named : "/usr/bin/env";
}

ProcessResult run_python(std::vector<std::string> args) {
  if (python() == "/usr/bin/env") args.insert(args.begin(), "python3");
  args.insert(args.begin(), python());
  ProcessOptions options;
  options.timeout_s = 120 * time_factor();
  return run_process(args, options);
}

/// Pickles the tensors of model.safetensors: the last two in a shard of their own where asked for, a matrix that does
/// not lie in rows, and a head that is the embedding.
constexpr const char* kMakePickle = R"(
import json, sys, torch
folder, shards = sys.argv[1], int(sys.argv[2])
data = open(folder + "/model.safetensors", "rb").read()
length = int.from_bytes(data[:8], "little")
tensors = {}
for name, entry in json.loads(data[8:8 + length]).items():
    if name == "__metadata__": continue
    begin, end = entry["data_offsets"]
    raw = bytearray(data[8 + length + begin:8 + length + end])
    tensors[name] = torch.frombuffer(raw, dtype=torch.float32).reshape(entry["shape"])
tensors["model.layers.0.self_attn.q_proj.weight"] = tensors["model.layers.0.self_attn.q_proj.weight"].t().contiguous().t()
tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
if shards == 1:
    torch.save(tensors, folder + "/pytorch_model.bin")
else:
    names = list(tensors)
    weight_map = {}
    for i, part in enumerate((names[:-2], names[-2:])):
        file = f"pytorch_model-{i + 1:05}-of-00002.bin"
        torch.save({name: tensors[name] for name in part}, folder + "/" + file)
        weight_map.update({name: file for name in part})
    json.dump({"weight_map": weight_map}, open(folder + "/pytorch_model.bin.index.json", "w"))
)";

class ConvertPickle : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (run_python({"-c", "import torch"}).exit_code != 0) GTEST_SKIP() << "no torch for " << python();
  }
};

TEST_P(ConvertPickle, ABinWithTiedWeightsVerifies) {
  const fs::path original = kSource / "tests/data/llama-gqa-tied", script = kSource / "experiments/convert_pickle.py";
  const TempDir dir;
  const fs::path model = dir / "model";
  fs::copy(original, model);
  const ProcessResult made = run_python({"-c", kMakePickle, model.string(), std::to_string(GetParam())});
  ASSERT_EQ(made.exit_code, 0) << described(made);
  fs::remove(model / "model.safetensors");

  const ProcessResult refused = runexp({"verify-model", model.string()});
  expect_failure(refused, 3, {"pickle checkpoints are refused", "experiments/convert_pickle.py"});
  const ProcessResult converted = run_python({script.string(), model.string()});
  ASSERT_EQ(converted.exit_code, 0) << described(converted);
  const paceline::Checkpoint found = paceline::Checkpoint::open(model), wanted = paceline::Checkpoint::open(original);
  for (const std::string& name : wanted.names()) {
    ASSERT_NE(found.find(name), nullptr) << name;
    ASSERT_EQ(found.find(name)->shape, wanted.find(name)->shape) << name;
    EXPECT_EQ(std::memcmp(found.weight(name).data, wanted.weight(name).data, wanted.find(name)->bytes), 0) << name;
  }
  if (GetParam() == 1) {
    EXPECT_EQ(found.find("lm_head.weight"), nullptr);
  }
  const ProcessResult verified = runexp({"verify-model", model.string()});
  EXPECT_EQ(verified.exit_code, 0) << described(verified);
}

TEST_P(ConvertPickle, CodeInAPickleIsNotRun) {
  const TempDir dir;
  const fs::path trace = dir / "ran";
  const ProcessResult made = run_python(
      {"-c",
       "import os, pickle, sys, torch\nclass Bad:\n  def __reduce__(self): return (os.mkdir, (sys.argv[2],))\n"
       "torch.save({'w': Bad()}, sys.argv[1])",
       (dir / "pytorch_model.bin").string(), trace.string()});
  ASSERT_EQ(made.exit_code, 0) << described(made);
  EXPECT_NE(run_python({(kSource / "experiments/convert_pickle.py").string(), dir.path().string()}).exit_code, 0);
  EXPECT_FALSE(fs::exists(trace));
  EXPECT_FALSE(fs::exists(dir / "model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Shards, ConvertPickle, ::testing::Values(1, 2));

}  // namespace
}  // namespace paceline::test
