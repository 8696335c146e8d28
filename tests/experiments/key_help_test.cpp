#include "experiments/config/keys/key_help.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(KeyHelp, AKeySaysWhatTheTableSays) {
  EXPECT_EQ(describe_key(*find_key("engine.kv_cache.memory_fraction")),
            "engine.kv_cache.memory_fraction   (also: gpu_memory_utilization)\n"
            "  Share of the memory left beside weights and workspace that the KV cache may take.\n\n"
            "  type      number\n"
            "  range     above 0, at most 1\n"
            "  default   0.5\n"
            "  scope     everywhere\n"
            "  sweep     may be an axis; another value needs another engine load\n"
            "  computed  \"=expression\" over other keys, as in \"=2*load.concurrency\"\n"
            "  in a file \"engine\": { \"kv_cache\": { \"memory_fraction\": 0.5 } }\n");
  EXPECT_EQ(describe_key(*find_key("speculation.ngram.match")),
            "speculation.ngram.match\n"
            "  Which of several earlier occurrences is continued; tree: all, by frequency.\n\n"
            "  type      one of several words\n"
            "  choices   first, last, most_frequent, full_continuation, tree\n"
            "  default   \"last\"\n"
            "  scope     only with proposer ngram; elsewhere without effect\n"
            "  sweep     may be an axis\n"
            "  in a file \"speculation\": { \"ngram\": { \"match\": \"last\" } }\n");
  EXPECT_NE(describe_key(*find_key("engine.target.dtype")).find("spelling  fp32 for float32"), std::string::npos);
  EXPECT_NE(describe_key(*find_key("speculation.draft.tp")).find("or        \"target\""), std::string::npos);
  EXPECT_NE(describe_key(*find_key("report.slo.ttft_ms")).find("sweep     one value for all cells"), std::string::npos);
}

TEST(KeyHelp, EveryScopeHasWords) {
  for (const KeySpec& key : config_keys()) EXPECT_EQ(scope_text(key).empty(), key.scope.key.empty()) << key.path;
}

TEST(KeyHelp, EveryKeyAndSectionIsDescribed) {
  size_t num_keys = 0;
  for (const KeySection& section : key_sections()) {
    EXPECT_FALSE(section.help.empty()) << section.name;
    for (const KeySpec* key : section.keys) {
      ++num_keys;
      EXPECT_FALSE(type_text(*key).empty()) << key->path;
      EXPECT_TRUE(key->type == KeyType::outside || default_of(*key)) << key->path;
      EXPECT_EQ(explain_name(key->path), describe_key(*key));
    }
  }
  EXPECT_EQ(num_keys, config_keys().size());
}

TEST(KeyHelp, NamesAreReadInAllTheirSpellings) {
  const auto k = describe_key(*find_key("speculation.num_speculative_tokens"));
  for (const char* name :
       {"k", "num-speculative-tokens", "num_speculative_tokens", "speculation.num-speculative-tokens"})
    EXPECT_EQ(explain_name(name), k) << name;
  EXPECT_EQ(explain_name("kv-cache"), describe_section("engine.kv_cache"));
  EXPECT_EQ(explain_name("engine.kv_cache"), describe_section("engine.kv_cache"));
  const std::string dtypes = *explain_name("dtype");  // several keys end in it
  for (const char* path : {"engine.target.dtype\n", "engine.kv_cache.dtype\n", "speculation.draft.dtype\n"})
    EXPECT_NE(dtypes.find(path), std::string::npos) << path;
  EXPECT_FALSE(explain_name("engine.paralel.tp"));
  EXPECT_FALSE(explain_name(""));
}

TEST(KeyHelp, ASectionListsItsKeysOnly) {
  const std::string text = describe_section("speculation.ngram");
  for (const char* path : {"speculation.ngram.min", "speculation.ngram.max", "speculation.ngram.match"})
    EXPECT_NE(text.find(path), std::string::npos) << path;
  EXPECT_EQ(text.find("speculation.draft"), std::string::npos);
  EXPECT_EQ(describe_section("speculation.n"), "");
}

}  // namespace
}  // namespace paceline
