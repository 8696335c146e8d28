// What configurations of families mean, and which are refused; their numbers are checked by goldens
// (tests/engine/transformer/golden_test.cpp).

#include "engine/model/families.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::expect_error;

json llama_like(const char* architecture, const json& changes) {
  json config = {{"architectures", {architecture}},
                 {"hidden_size", 32},
                 {"intermediate_size", 64},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"vocab_size", 100},
                 {"max_position_embeddings", 64}};
  config.merge_patch(changes);
  return config;
}

ModelSpec parse(const json& config) { return parse_model_spec(config, "x/config.json"); }

std::vector<int> windows(const ModelSpec& spec) {
  std::vector<int> found;
  for (const LayerSpec& layer : spec.layers) found.push_back(layer.attention.window);
  return found;
}

void refuses(const json& config, std::vector<std::string> pieces) {
  expect_error(ExitCode::usage, pieces, [&] { parse(config); });
}

TEST(Families, WindowsStandWhereTheConfigurationSays) {
  const json qwen2 = {{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 3}};
  EXPECT_EQ(windows(parse(llama_like("Qwen2ForCausalLM", qwen2))), (std::vector<int>{0, 0, 0, 9}));
  json typed = qwen2;
  typed["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(windows(parse(llama_like("Qwen3ForCausalLM", typed))), (std::vector<int>{9, 0, 9, 0}));
  typed["use_sliding_window"] = false;
  EXPECT_EQ(windows(parse(llama_like("Qwen2ForCausalLM", typed))), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(windows(parse(llama_like("Gemma2ForCausalLM", {{"sliding_window", 9}}))), (std::vector<int>{9, 0, 9, 0}));
  EXPECT_EQ(windows(parse(llama_like("Gemma3ForCausalLM", {{"sliding_window", 9}, {"sliding_window_pattern", 3}}))),
            (std::vector<int>{9, 9, 0, 9}));
  const std::vector<std::string> types = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(windows(parse(llama_like("MistralForCausalLM", {{"sliding_window", 9}, {"layer_types", types}}))),
            (std::vector<int>{0, 9, 0, 9}));  // as AutoConfig of transformers 5 takes it: a Ministral
  EXPECT_EQ(windows(parse(llama_like("MinistralForCausalLM", {{"sliding_window", 9}, {"layer_types", types}}))),
            (std::vector<int>{0, 9, 0, 9}));
  json without = llama_like("Qwen2ForCausalLM", qwen2);
  without["sliding_window"] = nullptr;
  EXPECT_EQ(windows(parse(without)), (std::vector<int>{0, 0, 0, 0}));
  without["architectures"] = {"MistralForCausalLM"};
  EXPECT_EQ(windows(parse(without)), (std::vector<int>{0, 0, 0, 0}));
  without.erase("sliding_window");
  EXPECT_EQ(windows(parse(without)), (std::vector<int>{4096, 4096, 4096, 4096}));
}

TEST(Families, Gemma3TurnsLayersWithAWindowAtTheirOwnBase) {
  const json old = {
      {"rope_theta", 5e5}, {"rope_local_base_freq", 2e4}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  const ModelSpec spec = parse(llama_like("Gemma3ForCausalLM", old));
  EXPECT_EQ(spec.rope.theta, 5e5);
  EXPECT_EQ(spec.rope.scaling, RopeScaling::linear);
  EXPECT_EQ(spec.window_rope.theta, 2e4);
  EXPECT_EQ(spec.window_rope.scaling, RopeScaling::none);
  EXPECT_EQ(spec.layer(0).attention.rope, RopeUse::window);
  EXPECT_EQ(parse(llama_like("Gemma3ForCausalLM", json::object())).rope.theta, 1e6);
  const json inside = {{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", llama_like("", old)}};
  EXPECT_EQ(parse(inside).rope.theta, 5e5);
  refuses({{"architectures", {"Gemma3ForConditionalGeneration"}}}, {"text_config is missing"});

  const auto nested = [](const json& ropes) {
    return parse(llama_like("Gemma3ForCausalLM", {{"rope_theta", 7e5}, {"rope_parameters", ropes}}));
  };
  const ModelSpec full = nested({{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  EXPECT_EQ(full.rope.theta, 7e5);
  EXPECT_EQ(full.window_rope.theta, 1e4) << "not that of the other layers";
  EXPECT_EQ(full.window_rope.scaling, RopeScaling::none);
  const ModelSpec both =
      nested({{"full_attention", {{"rope_theta", 6e5}}}, {"sliding_attention", {{"rope_theta", 3e4}}}});
  EXPECT_EQ(both.rope.theta, 6e5);
  EXPECT_EQ(both.window_rope.theta, 3e4);
}

// The text part of gemma-3-4b: what equals the defaults of its class is not written.
TEST(Families, ATextConfigOfGemma3LeavesOutWhatIsUsual) {
  json config = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                 {"text_config",
                  {{"hidden_size", 2560},
                   {"intermediate_size", 10240},
                   {"model_type", "gemma3_text"},
                   {"num_hidden_layers", 34},
                   {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                   {"sliding_window", 1024}}}};
  const ModelSpec spec = parse(config);
  EXPECT_EQ(spec.num_heads, 8);
  EXPECT_EQ(spec.num_kv_heads, 4);
  EXPECT_EQ(spec.head_dim, 256);
  EXPECT_EQ(spec.vocab_size, 262208);
  EXPECT_EQ(spec.max_position, 131072);
  EXPECT_EQ(spec.rope.theta, 1e6);
  EXPECT_EQ(spec.rope.factor, 8.0);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.layer(4).attention.window, 1024);
  EXPECT_EQ(spec.layer(5).attention.window, 0);
  config["tie_word_embeddings"] = false;
  refuses(config, {"x/config.json: tie_word_embeddings: false", "expected true"});
  config.erase("tie_word_embeddings");
  config["text_config"]["tie_word_embeddings"] = false;
  refuses(config, {"text_config.tie_word_embeddings: false", "expected true"});
  config["tie_word_embeddings"] = true;
  refuses(config, {"text_config.tie_word_embeddings: false", "expected true"});
  config["text_config"].erase("tie_word_embeddings");
  config["text_config"]["head_dim"] = nullptr;
  EXPECT_EQ(parse(config).head_dim, 256) << "null is absent";
  config["text_config"].erase("num_hidden_layers");
  config["text_config"]["num_hiden_layers"] = 34;
  ::testing::internal::CaptureStdout();
  parse(config);
  EXPECT_TRUE(test::holds(::testing::internal::GetCapturedStdout(),
                          "text_config.num_hiden_layers is not known (did you mean \"num_hidden_layers\"?)"));
}

// As in Hugging Face: of 1,152 values 34 and not 33.94, where embeddings are bfloat16.
TEST(Families, GemmaScalesEmbeddingsInTheirOwnType) {
  const ModelSpec spec = parse(llama_like("Gemma3ForCausalLM", {{"hidden_size", 1152}}));
  EXPECT_EQ(spec.embed_scale_in(DType::f32), std::sqrt(1152.0f));
  EXPECT_EQ(spec.embed_scale_in(DType::bf16), 34.0f);
  EXPECT_EQ(spec.embed_scale_in(DType::f16), 33.9375f);
}

TEST(Families, Gemma3CapsNoScores) {
  EXPECT_EQ(parse(llama_like("Gemma3ForCausalLM", {{"attn_logit_softcapping", 5.0}})).layer(0).attention.softcap, 0.0f);
}

TEST(Families, TheBaseOfARopeMayLieInItsScaling) {
  const json scaling = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}};
  EXPECT_EQ(parse(llama_like("LlamaForCausalLM", {{"rope_scaling", scaling}})).rope.theta, 5e5);
  EXPECT_EQ(parse(llama_like("LlamaForCausalLM",
                             {{"rope_theta", 7e5}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}}))
                .rope.theta,
            7e5);
}

TEST(Families, AbsentKeysMeanWhatTheFamilyMeans) {
  const ModelSpec gemma = parse(llama_like("Gemma2ForCausalLM", json::object()));
  EXPECT_EQ(gemma.logit_softcap, 30.0f);
  EXPECT_EQ(gemma.layer(0).attention.softcap, 50.0f);
  json without = llama_like("Gemma2ForCausalLM", json::object());
  without["attn_logit_softcapping"] = nullptr;
  without["final_logit_softcapping"] = nullptr;
  EXPECT_EQ(parse(without).logit_softcap, 0.0f);
  EXPECT_EQ(parse(without).layer(1).attention.softcap, 0.0f);
  EXPECT_EQ(parse(llama_like("Gemma3ForCausalLM", json::object())).logit_softcap, 0.0f);
  json phi3 = llama_like("Phi3ForCausalLM", json::object());
  phi3.erase("rms_norm_eps");
  EXPECT_EQ(parse(phi3).norm.eps, 1e-5f);
  const ModelSpec yarn =
      parse(llama_like("LlamaForCausalLM", {{"original_max_position_embeddings", 16},
                                            {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}}));
  EXPECT_EQ(yarn.rope.original_max_position, 16);
  json no_factor = llama_like(
      "LlamaForCausalLM",
      {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 16}}}});
  EXPECT_EQ(parse(no_factor).rope.factor, double(parse(no_factor).max_position) / 16);
  const ModelSpec llama3 = parse(llama_like(
      "LlamaForCausalLM",
      {{"original_max_position_embeddings", 16},
       {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 2}, {"low_freq_factor", 0.5}, {"high_freq_factor", 4}}}}));
  EXPECT_EQ(llama3.rope.original_max_position, 16);
}

// As in Hugging Face, whatever files of older versions hold besides.
TEST(Families, NeoxKnowsItsOwnNamesOfRotaryPositions) {
  const auto rope = [](json changes) { return parse(llama_like("GPTNeoXForCausalLM", std::move(changes))).rope; };
  const int head_dim = parse(llama_like("GPTNeoXForCausalLM", json::object())).head_dim;
  EXPECT_EQ(rope({{"rotary_emb_base", 20000}, {"rope_theta", 5e5}}).theta, 20000);
  EXPECT_EQ(rope({{"rope_theta", 5e5}}).theta, 10000);
  EXPECT_EQ(rope({{"rotary_pct", 1.0}, {"partial_rotary_factor", 0.5}}).rotary_dim, head_dim);
  EXPECT_EQ(rope({{"partial_rotary_factor", 0.5}}).rotary_dim, head_dim / 4);
  const json parameters = {{"rope_type", "default"}, {"rope_theta", 5e5}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(rope({{"rope_parameters", parameters}}).theta, 5e5);
  EXPECT_EQ(rope({{"rope_parameters", parameters}}).rotary_dim, head_dim / 2);
}

TEST(Families, FactorsOfSinglePairsAreAsManyAsTurnAndMayLieBelowOne) {
  const json config = llama_like("StableLmForCausalLM", json::object());
  const size_t pairs = size_t(parse(config).rope.rotary_dim) / 2;
  json scaled = config;
  scaled["rope_scaling"] = {{"rope_type", "longrope"},
                            {"short_factor", std::vector<double>(pairs, 0.99)},
                            {"long_factor", std::vector<double>(pairs, 2.0)}};
  EXPECT_EQ(parse(scaled).rope.short_factor, std::vector<double>(pairs, 0.99));
}

TEST(Families, LayoutsFollowTheConfiguration) {
  const json gpt2 = {{"architectures", {"GPT2LMHeadModel"}},
                     {"n_embd", 32},
                     {"n_layer", 2},
                     {"n_head", 4},
                     {"n_positions", 64},
                     {"vocab_size", 99}};
  EXPECT_EQ(parse(gpt2).intermediate_size, 128);
  EXPECT_TRUE(parse(gpt2).tied_head);
  json scaled = gpt2;
  scaled["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_FLOAT_EQ(parse(scaled).layer(1).attention.scale, parse(gpt2).layer(1).attention.scale / 2);
  const json falcon = {{"architectures", {"FalconForCausalLM"}},
                       {"hidden_size", 32},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4},
                       {"vocab_size", 99}};
  EXPECT_EQ(parse(falcon).num_kv_heads, 1);
  EXPECT_TRUE(parse(falcon).layer(0).shares_norm);
  json grouped = falcon;
  grouped.update({{"new_decoder_architecture", true}, {"num_kv_heads", 2}});
  EXPECT_EQ(parse(grouped).num_kv_heads, 2);
  EXPECT_FALSE(parse(grouped).layer(0).shares_norm);
}

TEST(Families, RefuseHeadsThatDraft) {
  refuses(llama_like("LlamaForCausalLMEagle3", json::object()),
          {"\"LlamaForCausalLMEagle3\" is an EAGLE-3 head", "speculation.eagle3.path"});
}

TEST(Families, RefuseWhatTheForwardPassLacks) {
  json falcon = {{"architectures", {"FalconForCausalLM"}}, {"alibi", true}};
  refuses(falcon, {"x/config.json: alibi: true: ALiBi is not supported; expected false"});
  refuses({{"architectures", {"GPT2LMHeadModel"}}, {"add_cross_attention", true}},
          {"add_cross_attention: true: cross-attention is not supported"});
  refuses(llama_like("Gemma2ForCausalLM", {{"attention_bias", true}}), {"attention_bias", "expected false"});
  refuses(llama_like("Gemma3ForCausalLM", {{"use_bidirectional_attention", true}}),
          {"use_bidirectional_attention: true", "not supported"});
  refuses(llama_like("LlamaForCausalLM", {{"rope_scaling", {{"rope_type", "mrope"}}}}),
          {"unsupported rope type 'mrope'", "yarn, longrope"});
  refuses(llama_like("LlamaForCausalLM",
                     {{"rope_scaling",
                       {{"rope_type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0, 2.0, 3.0, 4.0}}}}}),
          {"rope_scaling.short_factor: found 1 factors, expected 4"});
  refuses(llama_like("LlamaForCausalLM", {{"rope_scaling", {{"rope_type", "longrope"}, {"short_factor", {1.0, "x"}}}}}),
          {"rope_scaling.short_factor: found", "expected an array of numbers"});
  refuses(llama_like("Gemma2ForCausalLM", {{"layer_types", {"full_attention"}}}),
          {"layer_types: found 1 types, expected 4"});
  refuses(
      llama_like("Gemma2ForCausalLM", {{"layer_types", {"full_attention", "x", "full_attention", "full_attention"}}}),
      {"layer_types: layer 1: unsupported type 'x'"});
  refuses(llama_like("LlamaForCausalLM", {{"hidden_act", "mish"}}), {"hidden_act: unsupported activation 'mish'"});
}

}  // namespace
}  // namespace paceline
