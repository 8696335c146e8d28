// A .gguf file as a model on the command line: verify-model, plan, convert, and files that cannot be.

#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "engine/weights/checkpoint.h"
#include "tests/cli/runexp.h"
#include "tests/support/family_gguf.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;

/// m.gguf, of a folder of tests/data, with that folder's golden.json beside it.
class GgufCommand : public ::testing::Test {
 protected:
  void make(const std::string& name) {
    write_file(file(), llama_gguf(kSource / "tests/data" / name).bytes());
    fs::copy_file(kSource / "tests/data" / name / "golden.json", dir_ / "golden.json",
                  fs::copy_options::overwrite_existing);
  }
  void SetUp() override { make("llama"); }
  fs::path file() const { return dir_ / "m.gguf"; }

  TempDir dir_;
};

TEST_F(GgufCommand, VerifiesAgainstTheGoldenOfTheFolder) {
  for (const char* const name : {"llama", "llama-gqa-tied", "llama-linear-rope-bias", "llama3-rope-scaling"}) {
    make(name);
    for (const auto& [tp, pp] : {std::pair{"1", "1"}, std::pair{"2", "1"}, std::pair{"1", "2"}}) {
      const ProcessResult result = runexp({"verify-model", file().string(), "--tp", tp, "--pp", pp});
      EXPECT_EQ(result.exit_code, 0) << name << " tp " << tp << " pp " << pp << "\n" << described(result);
    }
  }
}

TEST_F(GgufCommand, ServesFamiliesFromTheFileAndFromConvertsFolder) {
  for (const char* const name : {"phi3", "phi3-longrope", "gpt-neox-no-bias", "stablelm-parallel", "falcon-new"}) {
    write_file(file(), family_gguf(kSource / "tests/data" / name).bytes());
    const std::string golden = (kSource / "tests/data" / name / "golden.json").string(), out = (dir_ / name).string();
    const ProcessResult verified = runexp({"verify-model", file().string(), "--golden", golden, "--tp", "2"});
    EXPECT_EQ(verified.exit_code, 0) << name << "\n" << described(verified);
    const ProcessResult result = runexp({"convert", file().string(), out, "--dtype", "float32"});
    ASSERT_EQ(result.exit_code, 0) << name << "\n" << described(result);
    const ProcessResult again = runexp({"verify-model", out, "--golden", golden});
    EXPECT_EQ(again.exit_code, 0) << name << "\n" << described(again);
  }
}

TEST_F(GgufCommand, PlansByMetadata) {
  const ProcessResult result = runexp(
      {"plan", "configs/ngram_tp2.json", "--set", "engine.target.path=" + file().string(), "--set",
       "engine.scheduler.max_model_len=128", "--set", "sampling.max_tokens=8", "--only", "proposer!=\"eagle3\""});
  EXPECT_TRUE(holds(result.out, "m.gguf")) << described(result);
  EXPECT_FALSE(holds(result.out, "config.json")) << described(result);
}

TEST_F(GgufCommand, ConvertWritesAFolderOfTheSameModel) {
  for (const char* const name : {"llama", "llama-gqa-tied", "llama-linear-rope-bias", "llama3-rope-scaling"}) {
    make(name);
    const fs::path out = dir_ / name;
    const ProcessResult result = runexp({"convert", file().string(), out.string(), "--dtype", "float32"});
    ASSERT_EQ(result.exit_code, 0) << described(result);
    const paceline::Checkpoint found = paceline::Checkpoint::open(out),
                               wanted = paceline::Checkpoint::open(kSource / "tests/data" / name);
    EXPECT_EQ(found.names(), wanted.names());
    for (const std::string& tensor : wanted.names()) {
      ASSERT_NE(found.find(tensor), nullptr) << tensor;
      EXPECT_EQ(std::memcmp(found.weight(tensor).data, wanted.weight(tensor).data, wanted.find(tensor)->bytes), 0)
          << tensor;
    }
    const ProcessResult verified = runexp({"verify-model", out.string(), "--golden", (dir_ / "golden.json").string()});
    EXPECT_EQ(verified.exit_code, 0) << described(verified);
  }
}

TEST_F(GgufCommand, ModelsListsItsFiles) {
  const ProcessResult result = runexp({"models"}, {.environment = {"PACELINE_MODELS=" + dir_.path().string()}});
  EXPECT_TRUE(holds(result.out, file().string())) << described(result);
}

TEST_F(GgufCommand, ConvertRefusesWhatItCannotDo) {
  expect_failure(runexp({"convert", (dir_ / "golden.json").string(), (dir_ / "out").string()}), 2,
                 {"FILE: found", "expected a .gguf file"});
  expect_failure(runexp({"convert", (dir_ / "none.gguf").string(), (dir_ / "out").string()}), 3,
                 {"none.gguf", "No such file"});
  expect_failure(runexp({"convert", file().string(), dir_.path().string()}), 2, {"exists, expected a new folder"});
  expect_failure(runexp({"inflate", file().string(), "llama-3-8b", (dir_ / "out").string()}), 2,
                 {"a GGUF file cannot be inflated", "runexp convert"});
}

TEST_F(GgufCommand, BadFilesEndInOneLine) {
  const std::string good = read_file(file());
  const auto refused = [&](const std::string& bytes, const std::vector<std::string>& pieces) {
    write_file(file(), bytes);
    expect_failure(runexp({"verify-model", file().string()}), 3, pieces);
  };
  refused(good.substr(0, good.size() - 1), {"m.gguf: tensor", "end beyond the file", "truncated"});
  refused(good.substr(0, 1000), {"m.gguf: byte", "truncated or damaged"});
  std::string big = good;
  std::swap(big[4], big[7]);
  refused(big, {"m.gguf: is big-endian"});
  GgufWriter other;
  other.add("general.architecture", "mamba");
  refused(other.bytes(), {"general.architecture \"mamba\" is not supported; supported: llama"});
  GgufWriter split;
  split.add("split.no", 0u);
  split.add("split.count", 2u);
  const fs::path part = dir_ / "m-00001-of-00002.gguf";
  write_file(part, split.bytes());
  expect_failure(runexp({"verify-model", part.string()}), 3,
                 {"part 2 of 2 is missing: found no m-00002-of-00002.gguf"});
  write_file(file(), good);
  expect_failure(runexp({"verify-model", file().string(), "--tp", "3"}), 2,
                 {"num_attention_heads 4 is not divisible by tp 3"});
}

}  // namespace
}  // namespace paceline::test
