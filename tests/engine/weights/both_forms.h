#pragma once
// A tiny Llama as a folder and as a .gguf file, and the weights that ranks load of it.

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/weights/shard_weights.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/recording_backend.h"

namespace paceline::test {

inline nlohmann::json config_with(const nlohmann::json& changes) {
  nlohmann::json config = tiny_llama_config();
  config.merge_patch(changes);
  return config;
}

/// The same model as a folder and as a .gguf file.
class BothForms {
 public:
  explicit BothForms(const nlohmann::json& changes) : config_(config_with(changes)) {
    write_llama(dir_ / "folder", config_);
    write_file(file(), llama_gguf(config_, llama_tensors(config_)).bytes());
  }
  std::filesystem::path folder() const { return dir_ / "folder"; }
  std::filesystem::path file() const { return dir_ / "m.gguf"; }

 private:
  TempDir dir_;
  nlohmann::json config_;
};

inline void expect_same(const Weight& found, const Weight& wanted) {
  ASSERT_EQ(found == nullptr, wanted == nullptr);
  if (found) {
    EXPECT_EQ(recorded(found).values, recorded(wanted).values);
  }
}

inline void expect_same(const ShardWeights& found, const ShardWeights& wanted) {
  expect_same(found.embed, wanted.embed);
  expect_same(found.positions, wanted.positions);
  expect_same(found.head, wanted.head);
  EXPECT_EQ(found.final_norm, wanted.final_norm);
  EXPECT_EQ(found.final_norm_bias, wanted.final_norm_bias);
  EXPECT_EQ(found.bytes, wanted.bytes);
  ASSERT_EQ(found.layers.size(), wanted.layers.size());
  for (size_t i = 0; i < found.layers.size(); ++i) {
    const LayerWeights &a = found.layers[i], &b = wanted.layers[i];
    expect_same(a.qkv, b.qkv);
    expect_same(a.o, b.o);
    expect_same(a.gate_up, b.gate_up);
    expect_same(a.down, b.down);
    EXPECT_EQ(a.qkv_bias, b.qkv_bias);
    EXPECT_EQ(a.o_bias, b.o_bias);
    EXPECT_EQ(a.gate_up_bias, b.gate_up_bias);
    EXPECT_EQ(a.down_bias, b.down_bias);
    EXPECT_EQ(a.attn_norm, b.attn_norm);
    EXPECT_EQ(a.mlp_norm, b.mlp_norm);
    EXPECT_EQ(a.attn_norm_bias, b.attn_norm_bias);
    EXPECT_EQ(a.mlp_norm_bias, b.mlp_norm_bias);
    EXPECT_EQ(a.attn_out_norm, b.attn_out_norm);
    EXPECT_EQ(a.mlp_out_norm, b.mlp_out_norm);
    EXPECT_EQ(a.q_norm, b.q_norm);
    EXPECT_EQ(a.k_norm, b.k_norm);
  }
}

}  // namespace paceline::test
