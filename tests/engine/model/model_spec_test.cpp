#include "engine/model/model_spec.h"

#include <ctime>
#include <string>

#include <gtest/gtest.h>

#include "engine/model/model_spec_reader.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::expect_error;

const fs::path kSource = source_dir();

class ModelSpecTest : public ::testing::Test {
 protected:
  ModelSpec load(const json& config) {
    test::write_file(dir_ / "config.json", config.dump(2));
    return load_model_spec(dir_.path());
  }
  ModelSpec load_with(const json& changes) {
    json config = test::tiny_llama_config();
    config.merge_patch(changes);  // null removes a key
    return load(config);
  }
  void refuses(std::vector<std::string> pieces, const json& changes) {
    pieces.push_back("config.json");
    expect_error(ExitCode::usage, pieces, [&] { load_with(changes); });
  }
  void refuses_value(std::vector<std::string> pieces, const std::string& key, const json& value) {
    json config = test::tiny_llama_config();
    config[key] = value;
    pieces.push_back("config.json: " + key);
    expect_error(ExitCode::usage, pieces, [&] { load(config); });
  }

  test::TempDir dir_;
};

TEST(ConfigReaderKeys, ThoseThatAreNearlyRightAreNamed) {
  const json object = {
      {"rope_tetha", 5e5}, {"_rope_theta", 1}, {"eos_token_id", 1}, {"n_hade", 3}, {"rms_norm_eps", 1e-5}};
  const ConfigReader config(object, "x/config.json");
  EXPECT_EQ(config.misspelled(), std::vector<std::string>{}) << "nobody has asked";
  config.real("rope_theta", {0, 1e9}, 1e4), config.has("rms_norm_eps"), config.has("n_head");
  config.has("eos_token_id"), config.has("bos_token_id");
  EXPECT_EQ(config.misspelled(),
            std::vector<std::string>{"x/config.json: rope_tetha is not known (did you mean \"rope_theta\"?)"});
  const json heads = {{"num_atention_heads", 4}};
  expect_error(ExitCode::usage,
               {"num_attention_heads is missing; expected an integer", "; found \"num_atention_heads\""}, [&] {
                 ConfigReader(heads, "x").integer("num_attention_heads", {1, 9});
               });
}

TEST_F(ModelSpecTest, DefaultsAreThoseOfTheFamily) {
  const ModelSpec spec = load(test::tiny_llama_config());
  EXPECT_EQ(spec.family, "llama");
  EXPECT_EQ(spec.num_layers, 2);
  EXPECT_EQ(spec.hidden_size, 16);
  EXPECT_EQ(spec.num_heads, 4);
  EXPECT_EQ(spec.num_kv_heads, 2);
  EXPECT_EQ(spec.head_dim, 4);
  EXPECT_EQ(spec.intermediate_size, 32);
  EXPECT_EQ(spec.vocab_size, 21);
  EXPECT_EQ(spec.max_position, 64);
  EXPECT_FLOAT_EQ(spec.norm.eps, 1e-6f);
  EXPECT_EQ(spec.layer(0).mlp.activation, Activation::silu);
  EXPECT_EQ(spec.rope.theta, 10000.0);
  EXPECT_EQ(spec.rope.rotary_dim, 4);
  EXPECT_EQ(spec.rope.scaling, RopeScaling::none);
  EXPECT_FLOAT_EQ(spec.layer(0).attention.scale, 0.5f);
  EXPECT_EQ(spec.layer(0).attention.window, 0);
  const LayerSpec& layer = spec.layer(0);
  EXPECT_FALSE(layer.attention.has_bias || layer.attention.has_out_bias || layer.mlp.has_bias || spec.tied_head);
  EXPECT_EQ(spec.checkpoint_dtype, DType::f32);
  EXPECT_TRUE(spec.eos_token_ids.empty());
  EXPECT_EQ(spec.bos_token_id, -1);
  EXPECT_EQ(load_with({{"num_key_value_heads", nullptr}}).num_kv_heads, 4);
}

TEST_F(ModelSpecTest, ReadsTheGoldens) {
  const ModelSpec llama = load_model_spec(kSource / "tests/data/llama");
  EXPECT_EQ(llama.vocab_size, 515);
  EXPECT_EQ(llama.intermediate_size, 176);
  EXPECT_EQ(llama.checkpoint_dtype, DType::f32);
  EXPECT_EQ(llama.eos_token_ids, std::vector<int32_t>{2});
  EXPECT_EQ(llama.bos_token_id, 1);
  EXPECT_EQ(llama.pad_token_id, -1);
  const ModelSpec tied = load_model_spec(kSource / "tests/data/llama-gqa-tied");
  EXPECT_TRUE(tied.tied_head);
  EXPECT_EQ(tied.num_kv_heads, 2);
  const ModelSpec scaled = load_model_spec(kSource / "tests/data/llama3-rope-scaling");
  EXPECT_EQ(scaled.rope.scaling, RopeScaling::llama3);
  EXPECT_EQ(scaled.rope.theta, 500000.0);
  EXPECT_EQ(scaled.rope.factor, 8.0);
  EXPECT_EQ(scaled.rope.low_freq_factor, 1.0);
  EXPECT_EQ(scaled.rope.high_freq_factor, 4.0);
  EXPECT_EQ(scaled.rope.original_max_position, 32);
  const ModelSpec biased = load_model_spec(kSource / "tests/data/llama-linear-rope-bias");
  EXPECT_EQ(biased.rope.scaling, RopeScaling::linear);
  EXPECT_EQ(biased.rope.factor, 4.0);
  const LayerSpec& layer = biased.layer(1);
  EXPECT_TRUE(layer.attention.has_bias && layer.attention.has_out_bias && layer.mlp.has_bias);
  EXPECT_EQ(biased.head_dim, 16);  // not 48 / 6
}

TEST_F(ModelSpecTest, ReadsTheBuiltInModels) {
  const ModelSpec target = load_model_spec(kSource / "configs/models/target-7m");
  EXPECT_EQ(target.checkpoint_dtype, DType::bf16);
  EXPECT_EQ(target.vocab_size, 8193);
  EXPECT_EQ(target.eos_token_ids, std::vector<int32_t>{3});
  EXPECT_EQ(target.bos_token_id, 0);
  EXPECT_EQ(target.pad_token_id, 0);
  EXPECT_FLOAT_EQ(target.norm.eps, 1e-5f);
  // 8193 x 256 + 6 x (2 x 256 + 256 x (512 + 256) + 3 x 256 x 768) + 256
  EXPECT_EQ(target.num_parameters(), 6819328);
  EXPECT_EQ(load_model_spec(kSource / "configs/models/draft-600k").vocab_size, 8193);
}

TEST_F(ModelSpecTest, OldAndNewKeysMeanTheSame) {
  const json scaling = {
      {"factor", 2.0}, {"original_max_position_embeddings", 16}, {"low_freq_factor", 1}, {"high_freq_factor", 2}};
  json with_type = scaling, with_rope_type = scaling, parameters = scaling;
  with_type["type"] = "llama3";
  with_rope_type["rope_type"] = "llama3";
  parameters["rope_type"] = "llama3";
  parameters["rope_theta"] = 5000;
  for (const json& changes :
       {json{{"rope_theta", 5000}, {"rope_scaling", with_type}, {"torch_dtype", "float16"}},
        json{{"rope_theta", 5000.0}, {"rope_scaling", with_rope_type}, {"torch_dtype", "torch.float16"}},
        json{{"rope_parameters", parameters}, {"dtype", "float16"}}}) {
    const ModelSpec spec = load_with(changes);
    EXPECT_EQ(spec.rope.theta, 5000.0);
    EXPECT_EQ(spec.rope.scaling, RopeScaling::llama3);
    EXPECT_EQ(spec.rope.factor, 2.0);
    EXPECT_EQ(spec.rope.original_max_position, 16);
    EXPECT_EQ(spec.checkpoint_dtype, DType::f16);
  }
  const ModelSpec dynamic = load_with({{"rope_scaling", {{"type", "dynamic"}, {"factor", 4}}}});
  EXPECT_EQ(dynamic.rope.scaling, RopeScaling::dynamic);
  EXPECT_EQ(dynamic.rope.original_max_position, 64);
}

TEST_F(ModelSpecTest, CollectsEosIdsFromBothFiles) {
  test::write_file(dir_ / "generation_config.json", R"({"eos_token_id": [7, 5], "temperature": 0.6})");
  EXPECT_EQ(load_with({{"eos_token_id", {2, 5}}}).eos_token_ids, (std::vector<int32_t>{2, 5, 7}));
  EXPECT_EQ(load_with({{"eos_token_id", 2}}).eos_token_ids, (std::vector<int32_t>{2, 7, 5}));
  test::write_file(dir_ / "generation_config.json", R"({"eos_token_id": "end"})");
  expect_error(ExitCode::usage, {"generation_config.json: eos_token_id", "\"end\""},
               [&] { load(test::tiny_llama_config()); });
}

TEST_F(ModelSpecTest, OtherFamilies) {
  json mistral = test::tiny_llama_config();
  mistral["architectures"] = {"MistralForCausalLM"};
  mistral["sliding_window"] = 12;
  EXPECT_EQ(load(mistral).layer(0).attention.window, 12);
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(load(mistral).layer(0).attention.window, 0);
  mistral.erase("sliding_window");
  EXPECT_EQ(load(mistral).layer(0).attention.window, 4096);
  json qwen2 = test::tiny_llama_config();
  qwen2["architectures"] = {"Qwen2ForCausalLM"};
  const ModelSpec spec = load(qwen2);
  EXPECT_TRUE(spec.layer(1).attention.has_bias);
  EXPECT_FALSE(spec.layer(1).attention.has_out_bias);
}

TEST_F(ModelSpecTest, C1_MissingFields) {
  for (const std::string key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                                "vocab_size", "max_position_embeddings"})
    refuses({"config.json: " + key + " is missing", "expected an integer in [1, "}, {{key, nullptr}});
  refuses({"architectures is missing"}, {{"architectures", nullptr}});
}

TEST_F(ModelSpecTest, C1_WrongTypesAndRanges) {
  const json bad_values = {
      "16", -1, 0, 1e18, 1000000000000000000, 18446744073709551615u, 2.5, true, json::array({1}), json::object()};
  for (const std::string key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                                "head_dim", "intermediate_size", "vocab_size", "max_position_embeddings"})
    for (const json& value : bad_values)
      refuses_value({"found " + value.dump(), "expected an integer in ["}, key, value);
  refuses_value({"found \"x\"", "a number in"}, "rms_norm_eps", "x");
  refuses_value({"found 0", "a number in"}, "rms_norm_eps", 0);
  refuses_value({"a number in"}, "rope_theta", -10000.0);
  refuses_value({"found 1", "true or false"}, "tie_word_embeddings", 1);
  refuses_value({"unsupported activation 'swiglu'", "supported: silu"}, "hidden_act", "swiglu");
  refuses_value({"unsupported dtype \"float64\"", "supported: float32"}, "torch_dtype", "float64");
  refuses_value({"found -2"}, "bos_token_id", -2);
  refuses_value({"found [1,-1]"}, "eos_token_id", json::array({1, -1}));
  refuses_value({"found []"}, "architectures", json::array());
}

TEST_F(ModelSpecTest, C1_NumbersThatContradictEachOther) {
  refuses({"hidden_size: 18 is not divisible by num_attention_heads 4"}, {{"hidden_size", 18}});
  refuses({"num_attention_heads: 4 is not divisible by num_key_value_heads 3"}, {{"num_key_value_heads", 3}});
  refuses({"num_key_value_heads", "found 8", "[1, 4]"}, {{"num_key_value_heads", 8}});
  refuses({"3 rotary dimensions of head_dim 3"}, {{"head_dim", 3}});
}

TEST_F(ModelSpecTest, C1_IdsBeyondTheVocabulary) {
  EXPECT_TRUE(load_with({{"eos_token_id", 100000}}).eos_token_ids.empty());
  EXPECT_EQ(load_with({{"eos_token_id", {2, 100000}}}).eos_token_ids, std::vector<int32_t>{2});
  test::write_file(dir_ / "generation_config.json", R"({"eos_token_id": 100000})");
  EXPECT_EQ(load_with({{"eos_token_id", 2}}).eos_token_ids, std::vector<int32_t>{2});
}

TEST_F(ModelSpecTest, C1_TwoScalings) {
  const json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  refuses({"rope_scaling", "beside rope_parameters"},
          {{"rope_parameters", {{"rope_theta", 5000}}}, {"rope_scaling", linear}});
  EXPECT_EQ(load_with({{"rope_parameters", linear}, {"rope_scaling", linear}}).rope.factor, 2.0);
  EXPECT_EQ(load_with({{"rope_parameters", linear}, {"rope_scaling", nullptr}}).rope.factor, 2.0);
}

TEST_F(ModelSpecTest, ManyEosIdsTakeLinearTime) {
  json ids = json::array();
  for (int i = 0; i < 300'000; ++i) ids.push_back(i);
  const std::clock_t begin = std::clock();
  EXPECT_EQ(load_with({{"vocab_size", 300'000}, {"eos_token_id", ids}}).eos_token_ids.size(), ids.size());
  EXPECT_LE(double(std::clock() - begin) / CLOCKS_PER_SEC, 5.0) << "13 s when each was looked for among all";
}

TEST_F(ModelSpecTest, C1_NotJson) {
  const auto refuses_text = [&](const std::string& text, const std::vector<std::string>& pieces) {
    test::write_file(dir_ / "config.json", text);
    expect_error(ExitCode::usage, pieces, [&] { load_model_spec(dir_.path()); });
  };
  refuses_text("{\"hidden_size\": NaN}", {"config.json:1:", "invalid JSON"});
  refuses_text("[]", {"config.json", "expected an object"});
  refuses_text("", {"config.json:1:", "invalid JSON"});
  refuses_text("{\"hidden_size\": 1, \"hidden_size\": 2}", {"duplicate key \"hidden_size\""});
}

TEST_F(ModelSpecTest, C2_WhatIsNotSupported) {
  refuses({"unknown architecture \"GPT5ForCausalLM\"", "supported: LlamaForCausalLM, MistralForCausalLM"},
          {{"architectures", {"GPT5ForCausalLM"}}});
  for (const auto& [found, nearest] : {std::pair{"Qwen2MoeForCausalLM", "Qwen2ForCausalLM"},
                                       {"MixtralForCausalLM", "MistralForCausalLM"},
                                       {"GPTJForCausalLM", "GPT2LMHeadModel"}})
    refuses({fmt::format("unknown architecture \"{}\" (the nearest is {}); supported: ", found, nearest),
             "; docs/adding.md says how to add one"},
            {{"architectures", {found}}});
  refuses({"unknown architecture \"BloomForCausalLM\"; supported: "}, {{"architectures", {"BloomForCausalLM"}}});
  refuses({"config.json: quantization_config", "\"gptq\""}, {{"quantization_config", {{"quant_method", "gptq"}}}});
  refuses({"config.json: rope_scaling.type", "unsupported rope type 'mrope'", "llama3, yarn, longrope"},
          {{"rope_scaling", {{"type", "mrope"}, {"factor", 2}}}});
  refuses({"rope_scaling.factor is missing"}, {{"rope_scaling", {{"type", "linear"}}}});
  refuses({"rope_scaling.factor: found \"2\"", "a number in [1, "},
          {{"rope_scaling", {{"type", "linear"}, {"factor", "2"}}}});
  refuses({"rope_parameters.original_max_position_embeddings is missing"},
          {{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 2}}}});
  refuses({"rope_scaling.high_freq_factor: found 1", "more than low_freq_factor 1"},
          {{"rope_scaling",
            {{"type", "llama3"},
             {"factor", 2},
             {"original_max_position_embeddings", 8},
             {"low_freq_factor", 1},
             {"high_freq_factor", 1}}}});
  EXPECT_EQ(load_with({{"auto_map", {{"AutoModel", "evil.py"}}}}).num_layers, 2);
}

TEST_F(ModelSpecTest, C2_LoraAdapter) {
  test::write_file(dir_ / "adapter_config.json", "{}");
  expect_error(ExitCode::usage, {"adapter_config.json", "LoRA"}, [&] { load_model_spec(dir_.path()); });
}

TEST_F(ModelSpecTest, AFolderOfGgufFilesNamesTheFileToPass) {
  test::write_file(dir_ / "b.gguf", "GGUF");
  const std::string folder = dir_.path().string();
  expect_error(ExitCode::model_file, {folder + ": found no config.json, but a GGUF file; pass " + folder + "/b.gguf"},
               [&] { load_model_spec(dir_.path()); });
  test::write_file(dir_ / "a.gguf", "GGUF");
  expect_error(ExitCode::model_file, {"but 2 GGUF files; pass one of them, such as " + folder + "/a.gguf"},
               [&] { load_model_spec(dir_.path()); });
}

TEST_F(ModelSpecTest, AbsentConfigIsAModelFileError) {
  expect_error(ExitCode::model_file, {"config.json", "No such file"}, [&] { load_model_spec(dir_.path()); });
}

}  // namespace
}  // namespace paceline
