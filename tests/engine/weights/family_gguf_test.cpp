// GGUF files of families: what they say and hold is what the folder says and holds that they were made from.

#include "tests/support/family_gguf.h"

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "engine/model/families.h"
#include "engine/model/gguf_family.h"
#include "engine/model/gguf_model.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/gguf_checkpoint.h"
#include "engine/weights/renamed_checkpoint.h"
#include "tests/engine/weights/both_forms.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::expect_same;
using test::RecordingBackend;
using test::TempDir;

struct FamilyCase {
  std::string name;
  json config;
};

void PrintTo(const FamilyCase& each, std::ostream* out) { *out << each.name; }

/// Llama's keys; `changes` over them.
json llama_keys(const char* architecture, const json& changes) {
  json config = {{"architectures", {architecture}}, {"hidden_size", 32},    {"intermediate_size", 48},
                 {"num_hidden_layers", 3},          {"vocab_size", 21},     {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},        {"rms_norm_eps", 1e-5}, {"max_position_embeddings", 64}};
  config.merge_patch(changes);
  return config;
}

json gpt2_keys(const char* architecture, const json& changes) {
  json config = {{"architectures", {architecture}},
                 {"n_embd", 32},
                 {"n_layer", 2},
                 {"n_head", 4},
                 {"n_positions", 64},
                 {"vocab_size", 21}};
  config.merge_patch(changes);
  return config;
}

json falcon_keys(const json& changes) {
  json config = llama_keys("FalconForCausalLM", {{"ffn_hidden_size", 48}, {"layer_norm_epsilon", 1e-6}});
  config.merge_patch(changes);
  return config;
}

json gemma_keys(const char* architecture, const json& changes) {
  json config = llama_keys(architecture, {{"head_dim", 12},
                                          {"query_pre_attn_scalar", 12},
                                          {"sliding_window", 9},
                                          {"layer_types", {"full_attention", "sliding_attention", "full_attention"}}});
  config.merge_patch(changes);
  return config;
}

std::vector<FamilyCase> family_cases() {
  return {
      {"llama", llama_keys("LlamaForCausalLM", {{"attention_bias", true}, {"rope_theta", 5e5}})},
      {"qwen2", llama_keys("Qwen2ForCausalLM", {{"tie_word_embeddings", true}})},
      {"qwen3", llama_keys("Qwen3ForCausalLM", {{"head_dim", 12}})},
      {"qwen3_bias", llama_keys("Qwen3ForCausalLM", {{"attention_bias", true}, {"rope_theta", 1e6}})},
      {"gemma2",
       gemma_keys("Gemma2ForCausalLM", {{"attn_logit_softcapping", 40.0}, {"final_logit_softcapping", 20.0}})},
      {"gemma2_27b", gemma_keys("Gemma2ForCausalLM", {{"num_hidden_layers", 46},
                                                      {"query_pre_attn_scalar", 8},
                                                      {"layer_types", nullptr},
                                                      {"attn_logit_softcapping", 50.0},
                                                      {"final_logit_softcapping", 30.0}})},
      {"gemma3", gemma_keys("Gemma3ForCausalLM", {{"rope_theta", 1e6},
                                                  {"rope_local_base_freq", 2e4},
                                                  {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}})},
      {"gemma3_27b",
       gemma_keys(
           "Gemma3ForCausalLM",
           {{"num_hidden_layers", 62}, {"query_pre_attn_scalar", 8}, {"layer_types", nullptr}, {"rope_theta", 1e6}})},
      {"gemma3_no_window",
       gemma_keys("Gemma3ForCausalLM",
                  {{"rope_theta", 1e6}, {"layer_types", {"full_attention", "full_attention", "full_attention"}}})},
      {"phi3", llama_keys("Phi3ForCausalLM", {{"sliding_window", 11}, {"partial_rotary_factor", 0.75}})},
      {"phi3_longrope",
       llama_keys(
           "Phi3ForCausalLM",
           {{"tie_word_embeddings", true},
            {"original_max_position_embeddings", 16},
            {"rope_scaling",
             {{"type", "longrope"}, {"short_factor", {1.0, 1.25, 1.5, 2.0}}, {"long_factor", {1.0, 2.0, 3.0, 4.0}}}}})},
      {"gpt2", gpt2_keys("GPT2LMHeadModel", {{"n_inner", 48}})},
      {"gpt2_head", gpt2_keys("GPT2LMHeadModel", {{"tie_word_embeddings", false}})},
      {"starcoder", gpt2_keys("GPTBigCodeForCausalLM", {{"layer_norm_epsilon", 1e-6}})},
      {"gptneox", llama_keys("GPTNeoXForCausalLM", {{"layer_norm_eps", 1e-6}})},
      {"gptneox_sequential", llama_keys("GPTNeoXForCausalLM", {{"use_parallel_residual", false},
                                                               {"attention_bias", false},
                                                               {"rotary_pct", 1.0},
                                                               {"rotary_emb_base", 5e4}})},
      {"stablelm", llama_keys("StableLmForCausalLM", {{"use_qkv_bias", true}})},
      {"stablelm_parallel",
       llama_keys("StableLmForCausalLM",
                  {{"use_parallel_residual", true}, {"qk_layernorm", true}, {"partial_rotary_factor", 1.0}})},
      {"stablelm_one_key_head",
       llama_keys("StableLmForCausalLM", {{"num_key_value_heads", 1}, {"qk_layernorm", true}})},
      {"falcon_multi_query", falcon_keys(json::object())},
      {"falcon_two_norms", falcon_keys({{"new_decoder_architecture", true}, {"num_kv_heads", 2}})},
      {"falcon_one_norm",
       falcon_keys({{"new_decoder_architecture", true}, {"num_kv_heads", 2}, {"num_ln_in_parallel_attn", 1}})},
  };
}

class FamilyGguf : public ::testing::TestWithParam<FamilyCase> {
 protected:
  void SetUp() override {
    test::write_numbered_model(folder(), GetParam().config);
    test::write_file(file(), test::family_gguf(folder()).bytes());
  }
  std::filesystem::path folder() const { return dir_ / "folder"; }
  std::filesystem::path file() const { return dir_ / "m.gguf"; }
  /// The folder's, as a GGUF file's differs in nothing else.
  ModelSpec wanted() const {
    ModelSpec spec = load_model_spec(folder());
    spec.checkpoint_dtype = DType::bf16;
    return spec;
  }

  TempDir dir_;
};

TEST_P(FamilyGguf, SaysWhatTheFolderSays) {
  ModelSpec found = load_model_spec(file());
  EXPECT_NE(found.table, wanted().table);
  found.table = wanted().table;
  EXPECT_EQ(found, wanted()) << gguf_config(GgufFile(file())).dump(1);
}

TEST_P(FamilyGguf, EveryRankLoadsWhatTheFolderHolds) {
  const ModelSpec of_folder = load_model_spec(folder()), of_file = load_model_spec(file());
  const Checkpoint checkpoint = Checkpoint::open(folder());
  const GgufCheckpoint gguf(GgufFile(file()), DType::f32);
  EXPECT_EQ(check_tensors(gguf, of_file), std::vector<std::string>{});
  for (const int tp : {1, 2}) {
    for (int rank = 0; rank < tp; ++rank) {
      SCOPED_TRACE(fmt::format("rank {} of {}", rank, tp));
      const ShardPlan plan{.tp_rank = rank, .tp_size = tp, .layer_end = of_folder.num_layers, .dtype = DType::f32};
      RecordingBackend backend;
      expect_same(load_shard(gguf, of_file, plan, backend), load_shard(checkpoint, of_folder, plan, backend));
    }
  }
}

/// What `runexp convert` writes.
TEST_P(FamilyGguf, GivesTheFoldersTensorsBack) {
  const ModelSpec from = load_model_spec(file()), to = parse_model_spec(gguf_config(GgufFile(file())), "config.json");
  EXPECT_EQ(to, wanted());
  const GgufCheckpoint gguf(GgufFile(file()), DType::f32);
  const Checkpoint checkpoint = Checkpoint::open(folder());
  const RenamedCheckpoint renamed(gguf, from, to);
  EXPECT_EQ(renamed.names(), checkpoint.names());
  for (const std::string& name : checkpoint.names()) {
    ASSERT_NE(renamed.find(name), nullptr) << name;
    EXPECT_EQ(renamed.find(name)->shape, checkpoint.find(name)->shape) << name;
    const TensorRange range = whole_range(*checkpoint.find(name));
    const TensorPart found = renamed.part(name, range), wanted = checkpoint.part(name, range);
    EXPECT_EQ(std::memcmp(found.view.data, wanted.view.data, checkpoint.find(name)->bytes), 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyGguf, testing::ValuesIn(family_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(RoleWeightsOfGguf, NormsOfHeadsThatLieAsRowsAreOneVector) {
  const TempDir dir;
  test::write_numbered_model(dir / "folder", llama_keys("StableLmForCausalLM", {{"qk_layernorm", true}}));
  test::write_file(dir / "m.gguf", test::family_gguf(dir / "folder").bytes());
  const ModelSpec spec = load_model_spec(dir / "m.gguf");
  const GgufCheckpoint gguf(GgufFile(dir / "m.gguf"), DType::f32);
  EXPECT_EQ(gguf.find("blk.1.attn_q_norm.weight")->shape, (std::vector<int64_t>{4, 8}));
  const RoleWeights weights(gguf, spec);
  EXPECT_EQ(weights.where(TensorRole::q_norm, TensorPiece::weight, 1, 0, 11),
            "tensor \"blk.1.attn_q_norm.weight\" at [1, 3]");
  const TensorPart whole = weights.part(TensorRole::q_norm, TensorPiece::weight, 1, {.num_rows = 1, .num_cols = 32});
  const TensorPart some =
      weights.part(TensorRole::q_norm, TensorPiece::weight, 1, {.num_rows = 1, .col_begin = 3, .num_cols = 20});
  EXPECT_EQ(std::memcmp(some.owned.floats(), static_cast<const float*>(whole.view.data) + 3, 20 * sizeof(float)), 0);
}

/// Architectures of files, each once.
TEST(GgufFamilies, EachIsTested) {
  for (const Family& family : families()) {
    if (!family.gguf) continue;
    const std::vector<FamilyCase> cases = family_cases();
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const FamilyCase& each) {
      return find_family(each.config["architectures"][0].get<std::string>())->gguf == family.gguf;
    })) << family.architecture;
  }
}

}  // namespace
}  // namespace paceline
