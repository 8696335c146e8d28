#include <gtest/gtest.h>

#include "experiments/config/config.h"
#include "experiments/config/keys/key_help.h"

namespace paceline {
namespace {

using nlohmann::json;

TEST(KeyEffect, SettingsAreTakenByWhatTheyChange) {
  ExperimentConfig config;
  config.engine.target.path = "/somewhere/models/my-8b";
  const json resolved = json::parse(config_to_json(config).dump());
  const auto text = settings_that_change(KeyEffect::text, resolved);
  const auto steps = settings_that_change(KeyEffect::steps, resolved);
  const auto all = settings_that_change(KeyEffect::times, resolved);
  EXPECT_EQ(text.at("engine.target.path"), "my-8b") << "the folder differs between machines";
  for (const char* const key :
       {"sampling.temperature", "sampling.max_tokens", "sampling.stop_token_ids", "workload.dataset",
        "workload.requests", "engine.kv_cache.dtype", "engine.numerics", "engine.scheduler.max_model_len"})
    EXPECT_TRUE(text.contains(key)) << key;
  for (const char* const key : {"engine.kv_cache.block_size", "engine.scheduler.max_num_seqs", "load.concurrency",
                                "speculation.ngram.max", "measure.warmup_requests"}) {
    EXPECT_FALSE(text.contains(key)) << key;
    EXPECT_TRUE(steps.contains(key)) << key;
  }
  for (const char* const key : {"engine.backend", "engine.devices", "engine.cuda_graphs", "measure.repetitions",
                                "engine.parallel.threads_per_rank"}) {
    EXPECT_FALSE(steps.contains(key)) << key;
    EXPECT_TRUE(all.contains(key)) << key;
  }
  for (const auto& [key, value] : all) EXPECT_FALSE(key.starts_with("sweep.") || key.starts_with("report.")) << key;
}

TEST(KeyEffect, WhatIsNotThereIsLeftOut) {
  EXPECT_TRUE(settings_that_change(KeyEffect::times, json()).empty());
  EXPECT_EQ(settings_that_change(KeyEffect::times, {{"sampling", {{"seed", 3}, {"unknown", 4}}}}).size(), 1u);
}

}  // namespace
}  // namespace paceline
