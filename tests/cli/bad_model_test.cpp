// Model folders that are damaged, hostile or of another kind, through `runexp verify-model`.

#include <cstring>
#include <functional>
#include <limits>
#include <sys/stat.h>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

using Json = nlohmann::ordered_json;
using std::filesystem::path;

struct Safetensors {
  Json header;
  std::string data;
};

Safetensors read_safetensors(const path& file) {
  const std::string bytes = read_file(file);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return {Json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
}

/// Spaces up to the alignment of the data.
std::string padded(std::string header) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

struct BadModel {
  std::string name;
  std::function<void(const path&)> damage;  // of a copy of tests/data/llama
  int exit_code;
  std::vector<std::string> pieces;
};

void PrintTo(const BadModel& model, std::ostream* out) { *out << model.name; }

BadModel with_weights(const std::string& name, std::vector<std::string> pieces,
                      const std::function<void(Safetensors&)>& damage) {
  return {name,
          [damage](const path& dir) {
            Safetensors file = read_safetensors(dir / "model.safetensors");
            damage(file);
            write_file(dir / "model.safetensors", safetensors_bytes(padded(file.header.dump()), file.data));
          },
          3, std::move(pieces)};
}

BadModel with_bytes(const std::string& name, std::vector<std::string> pieces,
                    const std::function<void(std::string&)>& damage) {
  return {name,
          [damage](const path& dir) {
            std::string bytes = read_file(dir / "model.safetensors");
            damage(bytes);
            write_file(dir / "model.safetensors", bytes);
          },
          3, std::move(pieces)};
}

BadModel with_config(const std::string& name, std::vector<std::string> pieces, const std::function<void(Json&)>& damage,
                     int exit_code = 2) {
  return {name,
          [damage](const path& dir) {
            Json config = Json::parse(read_file(dir / "config.json"));
            damage(config);
            write_file(dir / "config.json", config.dump(2));
          },
          exit_code, std::move(pieces)};
}

BadModel with_golden(const std::string& name, std::vector<std::string> pieces,
                     const std::function<void(Json&)>& damage) {
  return {name,
          [damage](const path& dir) {
            Json golden = Json::parse(read_file(dir / "golden.json"));
            damage(golden);
            write_file(dir / "golden.json", golden.dump());
          },
          3, std::move(pieces)};
}

/// The weights replaced by a file of another kind.
BadModel instead_of_weights(const std::string& name, const std::string& file, const std::string& bytes,
                            std::vector<std::string> pieces) {
  return {name,
          [=](const path& dir) {
            std::filesystem::remove(dir / "model.safetensors");
            if (!file.empty()) write_file(dir / file, bytes);
          },
          3, std::move(pieces)};
}

BadModel with_fifo(const std::string& file) {
  return {"fifo_" + file.substr(0, file.find('.')),
          [file](const path& dir) {
            std::filesystem::remove(dir / file);
            ASSERT_EQ(mkfifo((dir / file).c_str(), 0644), 0);
          },
          3,
          {file, "FIFO", "regular file"}};
}

const char* const kQuery = "model.layers.0.self_attn.q_proj.weight";
const char* const kNorm = "model.norm.weight";

std::vector<BadModel> bad_models() {
  return {
      with_bytes("header_of_2_to_63", {"model.safetensors", "header length 9223372036854775808", "100000000"},
                 [](std::string& bytes) { bytes.replace(0, 8, std::string("\0\0\0\0\0\0\0\x80", 8)); }),
      with_bytes("five_bytes", {"need 8 bytes", "5"}, [](std::string& bytes) { bytes.resize(5); }),
      with_bytes("empty", {"need 8 bytes", "0"}, [](std::string& bytes) { bytes.clear(); }),
      with_bytes("truncated_by_a_byte", {"truncated", "holds"}, [](std::string& bytes) { bytes.pop_back(); }),
      with_bytes("a_byte_too_many", {"model.safetensors", "data"}, [](std::string& bytes) { bytes.push_back('x'); }),
      with_weights("overlapping", {kNorm, "overlap"},
                   [](Safetensors& file) {
                     for (auto& at : file.header[kNorm]["data_offsets"]) at = at.get<int64_t>() - 4;
                   }),
      with_weights("outside_the_file", {kNorm, "1152921504606846976", "needs 256"},
                   [](Safetensors& file) { file.header[kNorm]["data_offsets"][1] = int64_t{1} << 60; }),
      with_weights("unknown_dtype", {kQuery, "\"F33\"", "supported: F32"},
                   [](Safetensors& file) { file.header[kQuery]["dtype"] = "F33"; }),
      with_weights("integer_weights", {kQuery, "I32", "F32, F16, BF16"},
                   [](Safetensors& file) { file.header[kQuery]["dtype"] = "I32"; }),
      with_weights("wrong_shape", {kQuery, "[32, 128]", "[64, 64]"},
                   [](Safetensors& file) {
                     file.header[kQuery]["shape"] = {32, 128};
                   }),
      with_weights("missing_tensor", {kNorm, "missing"},
                   [](Safetensors& file) {
                     file.header["other.weight"] = file.header[kNorm];
                     file.header.erase(kNorm);
                   }),
      with_weights("nan", {kNorm, "NaN", "at [2]"},
                   [](Safetensors& file) {
                     const float nan = std::numeric_limits<float>::quiet_NaN();
                     std::memcpy(file.data.data() + file.header[kNorm]["data_offsets"][0].get<size_t>() + 8, &nan,
                                 sizeof nan);
                   }),
      instead_of_weights("no_weights", "", "", {"model.safetensors"}),
      instead_of_weights("pickle", "pytorch_model.bin", "\x80\x02",
                         {"pytorch_model.bin", "pickle checkpoints are refused", "convert to safetensors"}),
      instead_of_weights("zip_named_safetensors", "model.safetensors", "PK\x03\x04 and more bytes",
                         {"pickle checkpoints are refused"}),
      instead_of_weights("gguf", "model.gguf", "GGUF\x03", {"model.gguf", "is a GGUF file", "in place of its folder"}),
      {"gguf_alone",
       [](const path& dir) {
         std::filesystem::remove(dir / "config.json");
         write_file(dir / "m.gguf", "GGUF");
       },
       3,
       {"found no config.json, but a GGUF file; pass ", "model/m.gguf"}},
      instead_of_weights("gguf_named_safetensors", "model.safetensors", "GGUF\x03 and more bytes", {"is a GGUF file"}),
      with_fifo("model.safetensors"),
      with_fifo("config.json"),
      {"no_config",
       [](const path& dir) { std::filesystem::remove(dir / "config.json"); },
       3,
       {"config.json", "No such file"}},
      {"config_is_not_json",
       [](const path& dir) { write_file(dir / "config.json", "{\"a\": 1,,}"); },
       2,
       {"config.json:1:9", "invalid JSON"}},
      with_config("no_hidden_size", {"config.json", "hidden_size is missing", "expected"},
                  [](Json& config) { config.erase("hidden_size"); }),
      with_config("word_for_number", {"num_hidden_layers", "\"two\"", "integer"},
                  [](Json& config) { config["num_hidden_layers"] = "two"; }),
      with_config("negative_layers", {"num_hidden_layers", "-1", "[1,"},
                  [](Json& config) { config["num_hidden_layers"] = -1; }),
      with_config("too_many_layers", {"num_hidden_layers", "1000000000000000000"},
                  [](Json& config) { config["num_hidden_layers"] = 1000000000000000000; }),
      with_config("unknown_architecture", {"\"MambaForCausalLM\"", "supported: LlamaForCausalLM"},
                  [](Json& config) { config["architectures"] = {"MambaForCausalLM"}; }),
      with_config("quantised", {"quantization_config", "\"gptq\"", "supported:"},
                  [](Json& config) {
                    config["quantization_config"] = {{"quant_method", "gptq"}};
                  }),
      with_golden("golden_of_another_vocabulary", {"golden.json", "case 0", "1000000", "vocabulary of 515"},
                  [](Json& golden) { golden["prompts"][0][0] = 1000000; }),
      with_golden("golden_negative_id", {"golden.json", "case 0", "-5"},
                  [](Json& golden) { golden["greedy"][0][0] = -5; }),
      with_golden("golden_empty_prompt", {"golden.json", "case 1", "expected a prompt"},
                  [](Json& golden) { golden["prompts"][1] = Json::array(); }),
      with_golden("golden_short_logits", {"golden.json", "case 0", "1 logits"},
                  [](Json& golden) { golden["last_logits"][0] = {1.0}; }),
      {"golden_is_not_json",
       [](const path& dir) { write_file(dir / "golden.json", "{"); },
       3,
       {"golden.json:1:", "invalid JSON"}},
      {"golden_is_a_list",
       [](const path& dir) { write_file(dir / "golden.json", "[]"); },
       3,
       {"golden.json", "no entry"}},
  };
}

class BadModelTest : public testing::TestWithParam<BadModel> {};

TEST_P(BadModelTest, IsOneErrorWithItsExitCode) {
  const Workspace workspace;
  const path model = workspace.copy_model(kSource / "tests/data/llama", "model");
  GetParam().damage(model);
  expect_failure(runexp({"verify-model", model.string()}), GetParam().exit_code, GetParam().pieces);
}

INSTANTIATE_TEST_SUITE_P(Folder, BadModelTest, testing::ValuesIn(bad_models()),
                         [](const testing::TestParamInfo<BadModel>& each) { return each.param.name; });

/// Tokenizers that are not ours to read, through `runexp tokenize`.
TEST(BadTokenizer, AnUnknownTypeAndDamageAreNamed) {
  const Workspace workspace;
  const Json good = Json::parse(read_file(kSource / "configs/models/draft-600k/tokenizer.json"));
  const path file = workspace.folder() / "tokenizer.json";
  const auto expect = [&](const std::string& text, const std::vector<std::string>& pieces) {
    write_file(file, text);
    expect_failure(runexp({"tokenize", "--tokenizer", file.string(), "--file", workspace.config().string()}), 3,
                   pieces);
  };
  Json unigram = good;
  unigram["model"]["type"] = "Unigram";
  expect(unigram.dump(), {"tokenizer.json", "Unigram", "BPE"});
  expect("{\"model\":", {"tokenizer.json:1:", "invalid JSON"});
  expect("{}", {"tokenizer.json", "model"});
  Json gap = good;
  gap["model"]["vocab"]["a"] = 1 << 30;
  expect(gap.dump(), {"tokenizer.json", "1073741824"});
  Json merge = good;
  merge["model"]["merges"][0] = {"qqqq", "zzzz"};
  expect(merge.dump(), {"tokenizer.json", "qqqq"});
}

}  // namespace
}  // namespace paceline::test
