#include "experiments/config/vllm_flags.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "experiments/config/keys/schema.h"
#include "experiments/config/shell_words.h"
#include "tests/experiments/config_files.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

ImportedFlags import(std::string_view flags) { return import_vllm_flags(split_shell_words(flags).words); }
std::string config(std::string_view flags) { return import(flags).config.dump(); }

/// "FLAG: message" of every complaint, one a line; "" when there is none.
std::string complaints(std::string_view flags) {
  std::string text;
  try {
    import(flags);
  } catch (const ConfigError& error) {
    for (const Diagnostic& d : error.diagnostics())
      text += (text.empty() ? "" : "\n") + d.origin.source->name + ": " + d.message;
  }
  return text;
}

bool notes_hold(std::string_view flags, const std::string& piece) {
  for (const std::string& note : import(flags).notes) {
    if (note.find(piece) != std::string::npos) return true;
  }
  return false;
}

TEST(VllmFlags, EngineFlagsBecomeKeys) {
  EXPECT_EQ(config("--tensor-parallel-size 2 --pipeline_parallel_size=3 --max-model-len 4096 --max-num-seqs 8 "
                   "--max-num-batched-tokens 2048 --block-size 32 --gpu-memory-utilization 0.85 "
                   "--enable-prefix-caching --dtype bfloat16 --seed 7 --swap-space 4 --enforce-eager"),
            R"({"engine":{"target":{"dtype":"bfloat16"},"parallel":{"tp":2,"pp":3},"kv_cache":{"block_size":32,)"
            R"("memory_fraction":0.85,"swap_space_gib":4.0,"prefix_caching":true},"scheduler":{"max_num_seqs":8,)"
            R"("max_num_batched_tokens":2048,"max_model_len":4096},"cuda_graphs":false},"sampling":{"seed":7}})");
  EXPECT_EQ(config("-tp 2 -pp 2"), R"({"engine":{"parallel":{"tp":2,"pp":2}}})");
  EXPECT_EQ(config("--max-model-len 8k"), R"({"engine":{"scheduler":{"max_model_len":8000}}})");
  EXPECT_EQ(config("--max-model-len 8K"), R"({"engine":{"scheduler":{"max_model_len":8192}}})");
  EXPECT_EQ(config("--max-model-len -1"), R"({"engine":{"scheduler":{"max_model_len":"auto"}}})");
  EXPECT_EQ(config("--no-enable-prefix-caching --dtype half --kv-cache-dtype auto"),
            R"({"engine":{"target":{"dtype":"float16"},"kv_cache":{"prefix_caching":false,"dtype":"auto"}}})");
  EXPECT_EQ(config("vllm serve ./m --seed 1 --seed 1"),
            R"({"engine":{"target":{"path":"./m"}},"sampling":{"seed":1}})");
  EXPECT_EQ(config("python3 -m vllm.entrypoints.openai.api_server --model org/name"),
            R"({"engine":{"target":{"path":"${env:PACELINE_MODELS:-models}/name"}}})");
  EXPECT_TRUE(notes_hold("--model org/name", "nothing is downloaded"));
}

TEST(VllmFlags, WhatIsThereIsNoNameOfAHub) {
  const test::TempDir dir;
  std::filesystem::create_directories(dir.path() / "some" / "model");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  EXPECT_EQ(config("vllm serve some/model"), R"({"engine":{"target":{"path":"some/model"}}})");
  EXPECT_FALSE(notes_hold("--model some/model", "nothing is downloaded"));
  EXPECT_EQ(config("vllm serve other/model/"),
            R"({"engine":{"target":{"path":"${env:PACELINE_MODELS:-models}/model"}}})");
  std::filesystem::current_path(before);
}

TEST(VllmFlags, SglangsStepsAndDraftsBecomeKeys) {
  const std::string eagle = "--model-path ./x --speculative-algorithm EAGLE3 --speculative-draft-model-path ./y ";
  EXPECT_EQ(import(eagle + "--speculative-num-steps 3 --speculative-eagle-topk 4 --speculative-num-draft-tokens 16")
                .config["speculation"]
                .dump(),
            R"({"proposer":"eagle3","num_speculative_tokens":15,"eagle3":{"width":4,"depth":3,"path":"./y"}})");
  EXPECT_EQ(import(eagle + "--speculative-num-steps 5 --speculative-eagle-topk 1 --speculative-num-draft-tokens 6")
                .config["speculation"]
                .dump(),
            R"({"proposer":"eagle3","num_speculative_tokens":5,"eagle3":{"width":1,"path":"./y"}})");
  EXPECT_EQ(import(eagle + "--speculative_num_draft_tokens=6").config["speculation"]["num_speculative_tokens"], 5);
  const ConfigJson draft =
      import(
          "--speculative-algorithm STANDALONE --speculative-draft-model-path ./d --speculative-num-steps 4 "
          "--speculative-eagle-topk 1")
          .config["speculation"];
  EXPECT_EQ(draft["proposer"], "draft");
  EXPECT_EQ(draft["num_speculative_tokens"], 4);
  EXPECT_EQ(draft["draft"]["path"], "./d");
  EXPECT_EQ(import("--speculative-algorithm NGRAM --speculative-num-draft-tokens 8")
                .config["speculation"]["num_speculative_tokens"],
            7);
  const ConfigJson lookup =
      import("--speculative-algorithm NGRAM --speculative-num-draft-tokens 8 --speculative-num-steps 3").config;
  EXPECT_EQ(lookup["speculation"]["num_speculative_tokens"], 7) << "steps are of models that draft";
  EXPECT_FALSE(lookup["speculation"].contains("ngram")) << "vLLM's defaults are not SGLang's";
  EXPECT_EQ(import("--speculative-algorithm STANDALONE --speculative-draft-model ./d --speculative-num-steps 4")
                .config["speculation"]["draft"]["path"],
            "./d");
  EXPECT_EQ(complaints(eagle + "--speculative-num-draft-tokens=abc").find("--speculative-num-draft-tokens: "), 0u);
  EXPECT_EQ(complaints(eagle + "--speculative-num-draft-tokens=1").find("--speculative-num-draft-tokens: "), 0u);
  EXPECT_TRUE(notes_hold("--speculative-algorithm NEXTN --speculative-num-steps 3", "method NEXTN: no key here"));
}

TEST(VllmFlags, WithoutAModelTheTextSaysWhatRuns) {
  constexpr const char* kNoModel = "// No model was given: the built-in one runs.";
  EXPECT_NE(imported_text(import("--seed 1")).find(kNoModel), std::string::npos);
  EXPECT_EQ(imported_text(import("--model ./m")).find(kNoModel), std::string::npos);
}

constexpr const char* kNgram =
    R"({"speculation":{"proposer":"ngram","num_speculative_tokens":5,"ngram":{"min":2,"max":4,"match":"first"}}})";

TEST(VllmFlags, OldAndNewSpellingsOfNgramAgree) {
  const std::string old =
      "--speculative-model [ngram] --num-speculative-tokens 5 --ngram-prompt-lookup-max 4 --ngram-prompt-lookup-min 2";
  EXPECT_EQ(config(old), kNgram);
  EXPECT_EQ(config(R"(--speculative-config '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4,
      "prompt_lookup_min": 2}')"),
            kNgram);
  EXPECT_EQ(
      config(
          R"('--speculative_config={"model":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4,"prompt_lookup_min":2}')"),
      kNgram);
}

TEST(VllmFlags, FieldsOfTheSpeculativeConfigMayBeGivenOneByOne) {
  EXPECT_EQ(config("--speculative_config.method ngram --speculative_config.num_speculative_tokens 5 "
                   "--speculative-config.prompt-lookup-max=4 -sc.prompt_lookup_min=2"),
            kNgram);
  EXPECT_EQ(config(R"(--speculative-config '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}'
      --speculative-config.prompt_lookup_min 2)"),
            kNgram);
  EXPECT_EQ(
      config(R"(-sc '{"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4,"prompt_lookup_min":2}')"),
      kNgram);
  EXPECT_TRUE(notes_hold("-sc.method ngram -sc.num_speculative_tokens 2 -sc.methd 3", "-sc.methd 3: no key"));
  EXPECT_EQ(complaints("--speculative_config.method"),
            "--speculative_config.method: expected a value behind this flag");
  EXPECT_EQ(config("--compilation-config.mode 3 --seed 1"), R"({"sampling":{"seed":1}})");
  EXPECT_TRUE(notes_hold("--dtype.x half", "--dtype.x half: no key here")) << "only JSON has fields";
}

TEST(VllmFlags, DefaultsOfLookupAreVllms) {
  const auto lookup = [](std::string_view flags) {
    const ConfigJson ngram = import(flags).config["speculation"]["ngram"];
    return fmt::format("{}-{}", ngram["min"].get<int>(), ngram["max"].get<int>());
  };
  EXPECT_EQ(lookup(R"(--speculative-config '{"method":"ngram","num_speculative_tokens":3}')"), "5-5");
  EXPECT_EQ(lookup(R"(--speculative-config '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}')"),
            "4-4");
  EXPECT_EQ(lookup(R"(--speculative-config '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_min":3}')"),
            "3-3");
  EXPECT_EQ(lookup("--speculative-model [ngram] --num-speculative-tokens 3 --ngram-prompt-lookup-max 4"), "1-4");
}

TEST(VllmFlags, DraftModelsKeepTheirRanks) {
  const std::string draft = "--speculative-model ./d --num-speculative-tokens 4 ";
  const auto tp = [&](const std::string& flags) {
    return import(draft + flags).config["speculation"]["draft"]["tp"].dump();
  };
  EXPECT_EQ(tp(""), "\"target\"");
  EXPECT_EQ(tp("-tp 2 --speculative-draft-tensor-parallel-size 1"), "1");
  EXPECT_EQ(tp("--speculative-draft-tensor-parallel-size 2 -tp 2"), "2");
  EXPECT_EQ(
      complaints(draft + "-tp 4 --speculative-draft-tensor-parallel-size 2"),
      "--speculative-draft-tensor-parallel-size: speculation.draft.tp is 2, engine.parallel.tp 4: expected 1 or the "
      "target's; \"target\" follows it");
  EXPECT_EQ(config(R"(--speculative-config '{"model":"./d","num_speculative_tokens":4}')"),
            R"({"speculation":{"proposer":"draft","num_speculative_tokens":4,"draft":{"sampling":"argmax",)"
            R"("path":"./d","tp":"target"}}})");
}

TEST(VllmFlags, HeadsAreProposersOfTheirOwn) {
  const char* const wanted =
      R"({"speculation":{"proposer":"eagle3","num_speculative_tokens":3,"eagle3":{"path":"./m-EAGLE3"}}})";
  EXPECT_EQ(config(R"(-sc '{"method":"eagle3","model":"./m-EAGLE3","num_speculative_tokens":3}')"), wanted);
  const char* const unnamed = R"(-sc '{"model":"./m-EAGLE3","num_speculative_tokens":3}')";
  EXPECT_EQ(config(unnamed), wanted);
  const auto with = [](const std::string& more) {
    return R"(-sc '{"method":"eagle3","model":"./m","num_speculative_tokens":3,)" + more + "}'";
  };
  for (const char* const field : {R"("draft_tensor_parallel_size":2)", R"("draft_sample_method":"probabilistic")",
                                  R"("speculative_token_tree":"[(0,)]")", R"("prompt_lookup_max":2)"})
    EXPECT_TRUE(notes_hold(with(field), ": no key here")) << field;
  EXPECT_EQ(
      import(with(R"("rejection_sample_method":"block")")).config["speculation"]["verifier"]["rule"].get<std::string>(),
      "block");
  EXPECT_EQ(complaints(R"(-sc '{"method":"eagle3","num_speculative_tokens":3}')"),
            "-sc: eagle3 needs a model: name it by --speculative-draft-model-path, or in --speculative-config");
}

TEST(VllmFlags, SuffixDecodingKeepsItsBounds) {
  EXPECT_EQ(config(R"(-sc '{"method":"suffix"}')"),
            R"({"speculation":{"proposer":"suffix","num_speculative_tokens":24}})");
  EXPECT_TRUE(notes_hold(R"(-sc '{"method":"suffix"}')", "24, unless told"));
  EXPECT_EQ(config(R"(-sc '{"method":"suffix","num_speculative_tokens":8,"suffix_decoding_max_tree_depth":64,)"
                   R"("suffix_decoding_max_cached_requests":500,"suffix_decoding_max_spec_factor":2.0,)"
                   R"("suffix_decoding_min_token_prob":0.2}')"),
            R"({"speculation":{"proposer":"suffix","num_speculative_tokens":8,"suffix":{"depth":64,"factor":2.0,)"
            R"("min_prob":0.2,"requests":500}}})");
  EXPECT_EQ(config(R"(-sc '{"method":"suffix","suffix_decoding_max_cached_requests":0}')"),
            R"({"speculation":{"proposer":"suffix","num_speculative_tokens":24,"suffix":{"store":"request"}}})");
}

TEST(VllmFlags, HowDraftsAreDrawnAndJudged) {
  const auto flags = [](const std::string& more) {
    return R"(--speculative-config '{"model":"./d","num_speculative_tokens":4)" + more + "}'";
  };
  const auto sampling = [&](const std::string& more) {
    return import(flags(more)).config["speculation"]["draft"]["sampling"].get<std::string>();
  };
  const std::string unless_told = "\"argmax\", as vLLM drafts unless told: the most likely tokens; ";
  EXPECT_EQ(sampling(""), "argmax");
  EXPECT_TRUE(notes_hold(flags(""), unless_told));
  EXPECT_EQ(sampling(R"(,"draft_sample_method":"greedy")"), "argmax");
  EXPECT_EQ(sampling(R"(,"draft_sample_method":"probabilistic")"), "own");
  EXPECT_FALSE(notes_hold(flags(R"(,"draft_sample_method":"greedy")"), unless_told));
  const auto verifier = [&](const std::string& method) {
    return import(flags(fmt::format(R"(,"rejection_sample_method":"{}")", method))).config["speculation"]["verifier"];
  };
  EXPECT_EQ(verifier("block")["rule"].get<std::string>(), "block");
  EXPECT_EQ(verifier("standard")["rule"].get<std::string>(), "auto");
  EXPECT_TRUE(notes_hold(flags(R"(,"rejection_sample_method":"synthetic")"),
                         "--speculative-config.rejection_sample_method synthetic: no key here"));
  EXPECT_EQ(import(R"(-sc '{"method":"ngram","num_speculative_tokens":4,"rejection_sample_method":"block"}')")
                .config["speculation"]["verifier"]["rule"]
                .get<std::string>(),
            "block");
}

TEST(VllmFlags, MisspeltFieldsAndMethodsAreHints) {
  EXPECT_TRUE(
      notes_hold(R"(--speculative-config '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_mx": 4}')",
                 "no key here (did you mean \"prompt_lookup_max\"?)"));
  EXPECT_TRUE(notes_hold(R"(--speculative-config '{"method": "ngramm"}')",
                         "method ngramm: no key here (did you mean \"ngram\"?); those that flags can ask for are"));
  EXPECT_TRUE(notes_hold(R"(--speculative-config '{"method": "eagle", "model": "m"}')",
                         "method eagle: no key here; those that flags can ask for are"));
  EXPECT_TRUE(complaints(R"(--speculative-config '{"method": "ngram", "num_speculative_token": 3}')")
                  .find("; found \"--speculative-config.num_speculative_token\" (did you mean "
                        "\"num_speculative_tokens\"?)") != std::string::npos);
}

TEST(VllmFlags, AShortContextLeavesRoomForPrompts) {
  EXPECT_EQ(config("--max-model-len 64"),
            R"({"engine":{"scheduler":{"max_model_len":64}},"sampling":{"max_tokens":32}})");
  EXPECT_EQ(config("--max-model-len 97"), R"({"engine":{"scheduler":{"max_model_len":97}}})");
}

TEST(VllmFlags, WhatHasNoKeyIsANoteWithItsValue) {
  EXPECT_TRUE(notes_hold("--port 8000", "--port 8000: no key here"));
  EXPECT_TRUE(notes_hold("--tensor-paralel-size 2",
                         "--tensor-paralel-size 2: no key here (did you mean \"--tensor-parallel-size\"?)"));
  EXPECT_TRUE(notes_hold("--trust-remote-code --seed 1", "--trust-remote-code: no key here"));
  EXPECT_TRUE(notes_hold("--rope-theta=-1", "--rope-theta -1: no key here"));
  EXPECT_TRUE(notes_hold("--some-new-thing 3 --seed 1", "--some-new-thing 3: no key here"));
  EXPECT_EQ(config("--some-new-thing 3 --seed 1 --other"), R"({"sampling":{"seed":1}})");
  EXPECT_EQ(config("python3 -m sglang.launch_server --model-path ./m --speculative-algorithm EAGLE --tp-size 2"),
            R"({"engine":{"target":{"path":"./m"}}})");
  EXPECT_TRUE(notes_hold("--quantization fp8", "--quantization fp8: no key here"));
  EXPECT_EQ(config("--model ./m --quantization fp8"), R"({"engine":{"target":{"path":"./m"}}})");
  EXPECT_EQ(complaints("vllm bench serve --model x/y --request-rate 4"),
            "vllm: expected the server's command, `vllm serve MODEL ...`");
  EXPECT_TRUE(notes_hold("--kv-cache-dtype fp8_e5m2", "--kv-cache-dtype fp8_e5m2: no key here"));
  EXPECT_TRUE(notes_hold("--gpu-memory-utilization 0.9", "a share of the whole GPU"));
  const char* const medusa = R"(--speculative-config '{"method":"medusa","model":"m","num_speculative_tokens":3}')";
  EXPECT_TRUE(
      notes_hold(medusa, "method medusa: no key here; those that flags can ask for are ngram, draft, eagle3, suffix"));
  EXPECT_EQ(config(medusa), "{}");
}

TEST(VllmFlags, OfWhatIsSaidTwiceTheLastCountsAsInVllm) {
  EXPECT_EQ(config("--seed 1 --seed 2"), R"({"sampling":{"seed":2}})");
  EXPECT_EQ(config("--enable-prefix-caching --no-enable-prefix-caching"),
            R"({"engine":{"kv_cache":{"prefix_caching":false}}})");
  EXPECT_EQ(config("-sc.method medusa -sc.num_speculative_tokens 5 -sc.method ngram -sc.prompt_lookup_max 4 "
                   "-sc.prompt_lookup_min 2"),
            kNgram);
}

TEST(VllmFlags, MistakesAreErrors) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"--num-speculative-tokens 5", "--num-speculative-tokens: neither a method nor a model is named: who drafts?"},
      {"--speculative-model [ngram]",
       "--speculative-model: ngram needs num_speculative_tokens: how many tokens are drafted in one step"},
      {"--speculative-model [ngram] --num-speculative-tokens 3 --ngram-prompt-lookup-max 2 --ngram-prompt-lookup-min 3",
       "--ngram-prompt-lookup-min: speculation.ngram.min 3 is larger than speculation.ngram.max 2"},
      {"--speculative-model [ngram] --num-speculative-tokens 1000 --ngram-prompt-lookup-max 2",
       "--num-speculative-tokens: \"speculation.num_speculative_tokens\" is 1000: expected an integer from 1 to 64 "
       "(tokens)"},
      {"--gpu-memory-utilization 1.5",
       "--gpu-memory-utilization: \"engine.kv_cache.memory_fraction\" is 1.5: expected a number above 0, at most 1"},
      {"--block-size 8",
       "--block-size: \"engine.kv_cache.block_size\" is 8: expected an integer from 16 to 1024 (tokens)"},
      {"--dtype int8", "--dtype: \"engine.target.dtype\" is \"int8\": expected auto | float32 | bfloat16 | float16"},
      {"--seed", "--seed: expected a value behind this flag"},
      {"--seed --port 1", "--seed: expected a value behind this flag"},
      {"-sc 5", "-sc: expected an object like {\"method\": \"ngram\", \"num_speculative_tokens\": 5}, found 5"},
      {"2", "server flags: expected a flag, found \"2\""},
  };
  for (const auto& [flags, expected] : mistakes) EXPECT_EQ(complaints(flags), expected) << flags;
}

TEST(VllmFlags, TheTextLoadsAndMeansTheSame) {
  const ConfigFiles files;
  for (const char* name : {"base", "workloads", "models"})
    std::filesystem::create_directory_symlink(source_dir() / "configs" / name, files.folder() / name);
  const ImportedFlags imported = import(
      "-tp 2 --port 1 --model org/m --speculative-model [ngram] --num-speculative-tokens 3 --ngram-prompt-lookup-max "
      "4");
  const LoadedConfig loaded = files.load(imported_text(imported), {.builtin_root = source_dir() / "configs"});
  EXPECT_EQ(loaded.config.engine.parallel.tp, 2);
  EXPECT_EQ(loaded.config.speculation.proposer, "ngram");
  EXPECT_EQ(loaded.config.speculation.num_speculative_tokens, 3);
  EXPECT_EQ(find_key("speculation.ngram.match")->read(loaded.config), "first");
  EXPECT_EQ(loaded.config.name, "imported");
}

TEST(ShellWords, AreSplitAsAShellDoes) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(split_shell_words("  a  b\tc\n").words, (Words{"a", "b", "c"}));
  EXPECT_EQ(split_shell_words(R"(a 'b "c"' "d \"e\" 'f'" g\ h '' x'y'z)").words,
            (Words{"a", "b \"c\"", "d \"e\" 'f'", "g h", "", "xyz"}));
  EXPECT_EQ(split_shell_words("--a \\\n --b").words, (Words{"--a", "--b"}));
  EXPECT_EQ(split_shell_words("").words, Words{});
  EXPECT_EQ(split_shell_words("a 'b").open_quote, '\'');
}

}  // namespace
}  // namespace paceline
