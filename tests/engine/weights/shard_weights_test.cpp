#include "engine/weights/shard_weights.h"

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "engine/weights/checkpoint.h"
#include "kernels/host_weight.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/made_rows.h"
#include "tests/support/paths.h"
#include "tests/support/recording_backend.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::expect_error;
using test::recorded;
using test::RecordedWeight;
using test::RecordingBackend;
using test::TestTensor;

/// A tiny Llama on disk, and its tensors in the open.
class TinyLlama {
 public:
  explicit TinyLlama(const json& changes = json::object()) {
    config = test::tiny_llama_config();
    config.merge_patch(changes);
    write(test::llama_tensors(config));
  }
  void write(const std::vector<TestTensor>& all) {
    tensors.clear();
    for (const TestTensor& tensor : all) tensors[tensor.name] = tensor;
    test::write_file(dir.path() / "config.json", config.dump());
    test::write_safetensors(dir.path() / "model.safetensors", all);
  }
  ModelSpec spec() const { return load_model_spec(dir.path()); }
  Checkpoint open() const { return Checkpoint::open(dir.path()); }
  ShardWeights load(const ShardPlan& plan) {
    const Checkpoint checkpoint = open();
    return load_shard(checkpoint, spec(), plan, backend);
  }
  ShardPlan whole(int tp_rank, int tp_size) const {
    return {.tp_rank = tp_rank, .tp_size = tp_size, .layer_end = config["num_hidden_layers"], .dtype = DType::f32};
  }
  float at(const std::string& name, int64_t row, int64_t col) const {
    const TestTensor& tensor = tensors.at(name);
    return tensor.values[size_t(row * tensor.shape.back() + col)];
  }

  test::TempDir dir;
  json config;
  std::map<std::string, TestTensor> tensors;
  RecordingBackend backend;
};

/// Rows [begin, begin + count) of `name` lie at `first` of the packed matrix.
void expect_rows(const TinyLlama& model, const Weight& weight, int64_t first, const std::string& name, int64_t begin,
                 int64_t count) {
  const RecordedWeight& packed = recorded(weight);
  ASSERT_LE(first + count, packed.n);
  ASSERT_EQ(packed.k, model.tensors.at(name).shape[1]);
  for (int64_t row = 0; row < count; ++row)
    for (int64_t col = 0; col < packed.k; ++col)
      ASSERT_EQ(packed.at(first + row, col), model.at(name, begin + row, col)) << name << row << "," << col;
}

/// The packed matrix is columns [begin, begin + count) of `name`.
void expect_cols(const TinyLlama& model, const Weight& weight, const std::string& name, int64_t begin, int64_t count) {
  const RecordedWeight& packed = recorded(weight);
  ASSERT_EQ(packed.n, model.tensors.at(name).shape[0]);
  ASSERT_EQ(packed.k, count);
  for (int64_t row = 0; row < packed.n; ++row)
    for (int64_t col = 0; col < count; ++col) ASSERT_EQ(packed.at(row, col), model.at(name, row, begin + col)) << name;
}

class ShardSlices : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Tp, ShardSlices, ::testing::Values(1, 2, 4));

TEST_P(ShardSlices, EveryRankHoldsItsPart) {
  const int tp = GetParam();
  TinyLlama model(json{{"attention_bias", true}, {"mlp_bias", true}});
  const int heads = 4 / tp, kv_heads = tp == 4 ? 1 : 2 / tp, ffn = 32 / tp, head_dim = 4;
  const int vocab_rows = tp == 1 ? 21 : tp == 2 ? 11 : 6;
  for (int rank = 0; rank < tp; ++rank) {
    SCOPED_TRACE(rank);
    const ShardWeights shard = model.load(model.whole(rank, tp));
    EXPECT_EQ(shard.num_heads, heads);
    EXPECT_EQ(shard.num_kv_heads, kv_heads);
    EXPECT_EQ(shard.intermediate, ffn);
    EXPECT_EQ(shard.vocab_begin, rank * vocab_rows);
    EXPECT_EQ(shard.vocab_rows, vocab_rows);
    ASSERT_EQ(shard.layers.size(), 2u);
    const int q = heads * head_dim, kv = kv_heads * head_dim;
    const int kv_begin = (tp == 4 ? rank / 2 : rank * kv_heads) * head_dim;  // tp 4: heads 0 0 1 1
    for (int l = 0; l < 2; ++l) {
      const LayerWeights& layer = shard.layers[size_t(l)];
      const std::string prefix = "model.layers." + std::to_string(l) + ".";
      ASSERT_EQ(layer.qkv->n, q + 2 * kv);
      EXPECT_EQ(layer.qkv->k_chunks, 8);
      expect_rows(model, layer.qkv, 0, prefix + "self_attn.q_proj.weight", rank * q, q);
      expect_rows(model, layer.qkv, q, prefix + "self_attn.k_proj.weight", kv_begin, kv);
      expect_rows(model, layer.qkv, q + kv, prefix + "self_attn.v_proj.weight", kv_begin, kv);
      ASSERT_EQ(int(layer.qkv_bias.size()), q + 2 * kv);
      EXPECT_EQ(layer.qkv_bias[0], model.at(prefix + "self_attn.q_proj.bias", 0, rank * q));
      EXPECT_EQ(layer.qkv_bias[size_t(q)], model.at(prefix + "self_attn.k_proj.bias", 0, kv_begin));
      EXPECT_EQ(layer.qkv_bias.back(), model.at(prefix + "self_attn.v_proj.bias", 0, kv_begin + kv - 1));

      expect_cols(model, layer.o, prefix + "self_attn.o_proj.weight", rank * q, q);
      EXPECT_EQ(layer.o->k_chunks, 8 / tp);
      EXPECT_EQ(layer.o_bias, model.tensors.at(prefix + "self_attn.o_proj.bias").values);

      ASSERT_EQ(layer.gate_up->n, 2 * ffn);
      EXPECT_TRUE(layer.gate_up->pair_panels);
      expect_rows(model, layer.gate_up, 0, prefix + "mlp.gate_proj.weight", rank * ffn, ffn);
      expect_rows(model, layer.gate_up, ffn, prefix + "mlp.up_proj.weight", rank * ffn, ffn);
      EXPECT_EQ(layer.gate_up_bias[0], model.at(prefix + "mlp.gate_proj.bias", 0, rank * ffn));
      EXPECT_EQ(layer.gate_up_bias[size_t(ffn)], model.at(prefix + "mlp.up_proj.bias", 0, rank * ffn));
      expect_cols(model, layer.down, prefix + "mlp.down_proj.weight", rank * ffn, ffn);
      EXPECT_EQ(layer.down->k_chunks, 8 / tp);
      EXPECT_EQ(layer.down_bias, model.tensors.at(prefix + "mlp.down_proj.bias").values);
      EXPECT_EQ(layer.attn_norm, model.tensors.at(prefix + "input_layernorm.weight").values);
      EXPECT_EQ(layer.mlp_norm, model.tensors.at(prefix + "post_attention_layernorm.weight").values);
    }
    EXPECT_EQ(shard.final_norm, model.tensors.at("model.norm.weight").values);
    const int real_rows = std::min(vocab_rows, 21 - rank * vocab_rows);
    for (const auto& [weight, name] :
         {std::pair{shard.embed, "model.embed_tokens.weight"}, std::pair{shard.head, "lm_head.weight"}}) {
      ASSERT_EQ(weight->n, vocab_rows);
      expect_rows(model, weight, 0, name, rank * vocab_rows, real_rows);
      for (int64_t row = real_rows; row < vocab_rows; ++row) EXPECT_EQ(recorded(weight).at(row, 0), 0.0f);
    }
    EXPECT_EQ(shard.bytes, weight_bytes(model.spec(), model.whole(rank, tp)));
  }
}

TEST(ShardWeights, AVocabularyShardMayBePaddingOnly) {
  TinyLlama model(json{{"vocab_size", 5}, {"num_key_value_heads", 1}});  // 4 ranks of 2 rows: the last has none
  const ShardWeights shard = model.load(model.whole(3, 4));
  EXPECT_EQ(shard.vocab_begin, 6);
  EXPECT_EQ(shard.embed->n, 2);
  EXPECT_EQ(recorded(shard.embed).part_rows, std::vector<int64_t>{0});
  for (const float value : recorded(shard.embed).values) EXPECT_EQ(value, 0.0f);
}

TEST(ShardWeights, ATiedHeadIsTheEmbeddingItself) {
  TinyLlama model(json{{"tie_word_embeddings", true}});
  const ShardWeights both = model.load(model.whole(0, 1));
  EXPECT_EQ(both.head, both.embed);
  EXPECT_EQ(both.bytes, weight_bytes(model.spec(), model.whole(0, 1)));
  ShardPlan last = model.whole(1, 2);
  last.first_stage = false;
  last.layer_begin = 1;
  const ShardWeights alone = model.load(last);
  EXPECT_EQ(alone.embed, nullptr);
  expect_rows(model, alone.head, 0, "model.embed_tokens.weight", 11, 10);
  EXPECT_EQ(alone.bytes, weight_bytes(model.spec(), last));
}

TEST(ShardWeights, AStageHoldsItsLayersOnly) {
  TinyLlama model;
  ShardPlan first = model.whole(0, 1);
  first.layer_end = 1;
  first.last_stage = false;
  const ShardWeights shard = model.load(first);
  EXPECT_EQ(shard.layers.size(), 1u);
  EXPECT_NE(shard.embed, nullptr);
  EXPECT_EQ(shard.head, nullptr);
  EXPECT_TRUE(shard.final_norm.empty());
  ShardPlan second = model.whole(0, 1);
  second.layer_begin = 1;
  second.first_stage = false;
  EXPECT_EQ(model.load(second).layers[0].attn_norm, model.tensors.at("model.layers.1.input_layernorm.weight").values);
  EXPECT_EQ(shard.bytes, weight_bytes(model.spec(), first));
}

TEST(ShardWeights, FastNumericsCopyWhatIsMultiplied) {
  for (const char* const name : {"configs/models/target-7m", "tests/data/llama-gqa-tied", "tests/data/llama"})
    for (const auto& [first_stage, last_stage] : {std::pair{true, true}, {true, false}, {false, true}}) {
      const ModelSpec spec = load_model_spec(source_dir() / name);
      const ShardPlan plan{
          .layer_end = spec.num_layers, .first_stage = first_stage, .last_stage = last_stage, .dtype = DType::bf16};
      RecordingBackend backend;
      const ShardWeights shard = load_shard(Checkpoint::open(source_dir() / name), spec, plan, backend);
      size_t copies = 0;
      for (const auto& weight : backend.packed) copies += row_copy_bytes(weight->n, weight->k, weight->spec);
      EXPECT_GT(copies, 0u);
      EXPECT_EQ(weight_bytes(spec, plan, Numerics::fast), weight_bytes(spec, plan) + copies) << name;
      if (shard.embed) {
        EXPECT_EQ(recorded(shard.embed).spec.looked_up_only, shard.embed != shard.head);
      }
      if (shard.head) {
        EXPECT_FALSE(recorded(shard.head).spec.looked_up_only);
      }
    }
}

TEST(ShardWeights, NothingIsCopiedBeforePacking) {
  TinyLlama model;
  const Checkpoint checkpoint = model.open();
  const ShardWeights shard = load_shard(checkpoint, model.spec(), model.whole(1, 2), model.backend);
  const auto* down = static_cast<const float*>(checkpoint.weight("model.layers.1.mlp.down_proj.weight").data);
  EXPECT_EQ(recorded(shard.layers[1].down).part_data[0], down + 16);
}

TEST(ShardWeights, Bf16IsReadAsItIs) {
  TinyLlama model;
  std::vector<TestTensor> tensors = test::llama_tensors(model.config);
  for (TestTensor& tensor : tensors) {
    tensor.dtype = "BF16";
    for (size_t i = 0; i < tensor.values.size(); ++i) tensor.values[i] = float(int(i % 200)) - 100.0f;
  }
  model.write(tensors);
  ShardPlan plan = model.whole(0, 2);
  plan.dtype = DType::bf16;
  const ShardWeights shard = model.load(plan);
  EXPECT_EQ(shard.layers[0].qkv->dtype, DType::bf16);
  expect_rows(model, shard.layers[0].qkv, 0, "model.layers.0.self_attn.q_proj.weight", 0, 8);
  EXPECT_EQ(shard.layers[0].attn_norm, model.tensors.at("model.layers.0.input_layernorm.weight").values);
}

TEST(ShardWeights, TheCommittedModelsLoadAndTheEstimateIsExact) {
  for (const auto& [name, tp_sizes] :
       std::vector<std::pair<std::string, std::vector<int>>>{{"tests/data/llama", {1, 2, 4}},
                                                             {"tests/data/llama-gqa-tied", {1, 2, 4, 8}},
                                                             {"tests/data/llama3-rope-scaling", {1, 2, 4}},
                                                             {"tests/data/llama-linear-rope-bias", {1, 3}},
                                                             {"configs/models/target-7m", {1, 2, 4, 8}},
                                                             {"configs/models/draft-600k", {1, 2}}}) {
    SCOPED_TRACE(name);
    const ModelSpec spec = load_model_spec(source_dir() / name);
    const Checkpoint checkpoint = Checkpoint::open(source_dir() / name);
    EXPECT_TRUE(check_tensors(checkpoint, spec).empty());
    for (const int tp : tp_sizes) {
      validate_parallel(spec, tp, 1);
      RecordingBackend backend;
      const ShardPlan plan{
          .tp_rank = tp - 1, .tp_size = tp, .layer_end = spec.num_layers, .dtype = spec.checkpoint_dtype};
      const ShardWeights shard = load_shard(checkpoint, spec, plan, backend);
      EXPECT_EQ(shard.bytes, weight_bytes(spec, plan));
      size_t packed_bytes = 0;
      for (const auto& weight : backend.packed) packed_bytes += weight->bytes;
      EXPECT_LT(packed_bytes, shard.bytes);
    }
  }
}

TEST(CheckTensors, F9_ListsAllThatIsWrong) {
  TinyLlama model;
  std::vector<TestTensor> tensors = test::llama_tensors(model.config);
  std::erase_if(tensors, [](const TestTensor& tensor) { return tensor.name.ends_with("v_proj.weight"); });
  tensors[0].shape = {16, 21};
  model.write(tensors);
  expect_error(ExitCode::model_file,
               {"3 tensors are not as config.json says", "\"model.embed_tokens.weight\" is [16, 21], expected [21, 16]",
                "\"model.layers.0.self_attn.v_proj.weight\" is missing, expected [8, 16]",
                "\"model.layers.1.self_attn.v_proj.weight\" is missing"},
               [&] { model.load(model.whole(0, 1)); });
  // A stage notices what only other stages need: the checkpoint is wrong as a whole.
  ShardPlan first = model.whole(0, 1);
  first.layer_end = 1;
  first.last_stage = false;
  expect_error(ExitCode::model_file, {"model.layers.1.self_attn.v_proj.weight"}, [&] { model.load(first); });
}

TEST(CheckTensors, F9_ListsAtMostTwenty) {
  TinyLlama model(json{{"num_hidden_layers", 4}});
  model.write({{"model.norm.weight", {16}, std::vector<float>(16)}});
  expect_error(ExitCode::model_file, {"38 tensors are not", "model.layers.2.input_layernorm.weight", "and 18 more"},
               [&] { model.load(model.whole(0, 1)); });
}

TEST(CheckTensors, F9_UnusedTensorsAreNamed) {
  TinyLlama model(json{{"tie_word_embeddings", true}});
  std::vector<TestTensor> tensors = test::llama_tensors(model.config);
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}, {1, 2}});
  const TestTensor embedding = model.tensors.at("model.embed_tokens.weight");
  tensors.push_back({"lm_head.weight", embedding.shape, embedding.values});
  tensors.push_back({"vision.patch", {1}, {1}});
  model.write(tensors);
  EXPECT_EQ(check_tensors(model.open(), model.spec()), std::vector<std::string>{"vision.patch"});
  EXPECT_NO_THROW(model.load(model.whole(0, 1)));
}

TEST(ShardWeights, AHeadBesideATiedEmbeddingIsItsCopy) {
  TinyLlama model(json{{"tie_word_embeddings", true}});
  std::vector<TestTensor> tensors = test::llama_tensors(model.config);
  TestTensor head = model.tensors.at("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  const auto refuses = [&] {
    std::vector<TestTensor> all = tensors;
    all.push_back(head);
    model.write(all);
    expect_error(ExitCode::model_file,
                 {"\"lm_head.weight\" differs in values or type from \"model.embed_tokens.weight\"",
                  "tie_word_embeddings to false"},
                 [&] { model.load(model.whole(0, 1)); });
  };
  head.values.back() += 1.0f;
  refuses();
  head = {"lm_head.weight", {1}, {1}};
  refuses();
}

TEST(ShardWeights, F10_NonFiniteWeightsAreNamedWithTheirPlaceInTheWholeTensor) {
  TinyLlama model;
  std::vector<TestTensor> tensors = test::llama_tensors(model.config);
  const auto poison = [&](const std::string& name, size_t index, float value) {
    std::vector<TestTensor> bad = tensors;
    for (TestTensor& tensor : bad)
      if (tensor.name == name) tensor.values[index] = value;
    model.write(bad);
  };
  poison("model.layers.1.mlp.down_proj.weight", 3 * 32 + 20, std::numeric_limits<float>::quiet_NaN());
  expect_error(ExitCode::model_file, {"\"model.layers.1.mlp.down_proj.weight\" at [3, 20]: found NaN"},
               [&] { model.load(model.whole(1, 2)); });
  EXPECT_NO_THROW(model.load(model.whole(0, 2)));  // the other rank's columns
  expect_error(ExitCode::model_file, {"\"model.layers.1.mlp.down_proj.weight\" at [3, 20]: found NaN"}, [&] {
    const Checkpoint checkpoint = model.open();
    load_shard(test::MakesRows(checkpoint), model.spec(), model.whole(1, 2), model.backend);
  });
  poison("model.layers.0.self_attn.q_proj.weight", 9 * 16 + 2, -std::numeric_limits<float>::infinity());
  expect_error(ExitCode::model_file, {"\"model.layers.0.self_attn.q_proj.weight\" at [9, 2]: found Inf"},
               [&] { model.load(model.whole(1, 2)); });
  poison("model.norm.weight", 5, std::numeric_limits<float>::infinity());
  expect_error(ExitCode::model_file, {"\"model.norm.weight\" at [5]: found Inf"},
               [&] { model.load(model.whole(0, 1)); });
  poison("model.layers.0.mlp.up_proj.weight", 0, 70000.0f);
  ShardPlan half = model.whole(0, 1);
  EXPECT_NO_THROW(model.load(half));
  half.dtype = DType::f16;
  expect_error(ExitCode::model_file,
               {"up_proj.weight\" at [0, 0]: found 70000, too large for float16; use dtype bfloat16"},
               [&] { model.load(half); });
}

TEST(Values, HalfPrecisionBitsAsFloats) {
  const uint16_t f16[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x0400, 0x8000};
  const HostWeight weight{.data = f16, .dtype = DType::f16, .rows = 1, .cols = 6, .row_stride = 6};
  EXPECT_EQ(to_floats(weight),
            (std::vector<float>{1.0f, -2.0f, std::ldexp(1.0f, -24), 65504.0f, std::ldexp(1.0f, -14), 0.0f}));
  EXPECT_TRUE(std::signbit(to_floats(weight)[5]));
}

TEST(Values, TheFirstUnstorableElement) {
  const auto find_bits = [](auto bits, DType dtype, DType storage) {
    std::vector<decltype(bits)> data(70, 1);
    data[3 * 10 + 7] = bits;
    data[5 * 10 + 1] = bits;
    const auto bad =
        find_unstorable({.data = data.data(), .dtype = dtype, .rows = 7, .cols = 9, .row_stride = 10}, storage);
    return bad && bad->row == 3 && bad->col == 7;
  };
  EXPECT_TRUE(find_bits(uint16_t{0x7f80}, DType::bf16, DType::bf16));
  EXPECT_TRUE(find_bits(uint16_t{0xff81}, DType::bf16, DType::f32));
  EXPECT_FALSE(find_bits(uint16_t{0xff7f}, DType::bf16, DType::bf16));
  EXPECT_TRUE(find_bits(uint16_t{0x4780}, DType::bf16, DType::f16));   // 65536
  EXPECT_FALSE(find_bits(uint16_t{0x477f}, DType::bf16, DType::f16));  // 65280
  EXPECT_TRUE(find_bits(uint16_t{0x7c00}, DType::f16, DType::f32));
  EXPECT_FALSE(find_bits(uint16_t{0xfbff}, DType::f16, DType::f16));
  EXPECT_TRUE(find_bits(std::bit_cast<uint32_t>(65520.0f), DType::f32, DType::f16));
  EXPECT_FALSE(find_bits(std::bit_cast<uint32_t>(65519.0f), DType::f32, DType::f16));
  EXPECT_TRUE(find_bits(uint32_t{0x7f7f8000}, DType::f32, DType::bf16));
  EXPECT_FALSE(find_bits(uint32_t{0x7f7f7fff}, DType::f32, DType::bf16));
  EXPECT_FALSE(find_bits(uint32_t{0x7f7fffff}, DType::f32, DType::f32));
  EXPECT_TRUE(find_bits(uint32_t{0xff800000}, DType::f32, DType::f32));
  // The gap between the rows belongs to another shard.
  std::vector<uint16_t> data(70, 1);
  data[9] = 0x7f80;
  EXPECT_FALSE(find_unstorable({.data = data.data(), .dtype = DType::bf16, .rows = 7, .cols = 9, .row_stride = 10},
                               DType::bf16));
}

TEST(ValidateParallel, C3_NamesTheSizesThatWork) {
  ModelSpec spec{.num_layers = 4,
                 .hidden_size = 5120,
                 .num_heads = 40,
                 .num_kv_heads = 40,
                 .head_dim = 128,
                 .intermediate_size = 40 * 320};
  expect_error(ExitCode::usage, {"num_attention_heads 40 is not divisible by tp 6; use tp 1, 2, 4, 5, 8"},
               [&] { validate_parallel(spec, 6, 1); });
  for (const int tp : {1, 2, 4, 5, 8, 10, 20, 40}) EXPECT_NO_THROW(validate_parallel(spec, tp, 4));
  expect_error(ExitCode::usage, {"tp is 0"}, [&] { validate_parallel(spec, 0, 1); });
  expect_error(ExitCode::usage, {"pp 5 does not fit num_hidden_layers 4; use pp 1 to 4"},
               [&] { validate_parallel(spec, 1, 5); });
  expect_error(ExitCode::usage, {"pp 0"}, [&] { validate_parallel(spec, 1, 0); });
  spec.intermediate_size = 13824 + 8;  // 8 * 1729: not divisible by 5
  expect_error(ExitCode::usage, {"intermediate_size 13832 is not divisible by tp 5; use tp 1, 2, 4, 8"},
               [&] { validate_parallel(spec, 5, 1); });
  spec.intermediate_size = 100;
  expect_error(ExitCode::usage, {"intermediate_size 100 is not divisible by 8", "use tp 1, 5, 10, 20"},
               [&] { validate_parallel(spec, 4, 1); });
}

TEST(ShardShape, C5_ARankHoldsEveryKvHeadThatItsHeadsRead) {
  struct Case {
    int num_heads, num_kv_heads, tp;
  };
  for (const Case& c : {Case{8, 2, 8}, {8, 2, 4}, {8, 8, 2}, {6, 3, 2}, {12, 4, 6}, {12, 4, 2}, {9, 3, 9}, {4, 1, 4}}) {
    const ModelSpec spec{.num_layers = 1,
                         .hidden_size = 96,
                         .num_heads = c.num_heads,
                         .num_kv_heads = c.num_kv_heads,
                         .head_dim = 16,
                         .intermediate_size = 144};
    validate_parallel(spec, c.tp, 1);
    const int group = c.num_heads / c.num_kv_heads;
    for (int rank = 0; rank < c.tp; ++rank) {
      SCOPED_TRACE(fmt::format("{} heads, {} KV heads, tp {}, rank {}", c.num_heads, c.num_kv_heads, c.tp, rank));
      const ShardShape shape = shard_shape(spec, {.tp_rank = rank, .tp_size = c.tp, .layer_end = 1});
      EXPECT_EQ(shape.heads_per_kv, group);
      for (int local = 0; local < shape.num_heads; ++local) {
        const int kv_head = (rank * shape.num_heads + local) / group;
        EXPECT_EQ((local + shape.head_offset) / group, kv_head - shape.kv_head_begin);
        EXPECT_LT(kv_head, shape.kv_head_begin + shape.num_kv_heads);
      }
      EXPECT_EQ((shape.num_heads - 1 + shape.head_offset) / group, shape.num_kv_heads - 1) << "a head nobody reads";
    }
  }
}

TEST(ShardShape, C4_AVocabularyThatTpDoesNotDivideIsPadded) {
  const ModelSpec spec{.num_heads = 2, .num_kv_heads = 2, .intermediate_size = 8, .vocab_size = 49953};
  const ShardShape last = shard_shape(spec, {.tp_rank = 1, .tp_size = 2});
  EXPECT_EQ(last.vocab_rows, 24977);
  EXPECT_EQ(last.vocab_begin, 24977);
  EXPECT_EQ(last.real_vocab_rows, 24976);
}

}  // namespace
}  // namespace paceline
