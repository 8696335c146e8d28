// The flags of vLLM that we know, and what becomes of each.

#include <algorithm>

#include <fmt/format.h>

#include "experiments/config/vllm_flags.h"
#include "experiments/config/vllm_speculation.h"

namespace paceline {

namespace {

using enum VllmFlagKind;

constexpr std::string_view kServer = "there is no server here";
constexpr std::string_view kQuantised = "no quantised weights or KV cache here";
constexpr std::string_view kThreads = "ranks are threads of one process, and NCCL joins GPUs";
constexpr std::string_view kLog = "reports hold the counters of every run";
constexpr std::string_view kModelFile = "read from the checkpoint's own files";
constexpr std::string_view kLora = "no LoRA adapters here";
constexpr std::string_view kTypical = "every rule here is lossless; sampling uses the rule \"rejection\"";

constexpr VllmFlag kFlags[] = {
    // models
    {"model", model, "engine.target.path", ""},
    {"dtype", value, "engine.target.dtype", ""},
    {"load-format", value, "engine.target.load_format", ""},
    {"tokenizer", dropped, "", kModelFile},
    {"tokenizer-mode", dropped, "", kModelFile},
    {"hf-overrides", dropped, "", kModelFile},
    {"rope-scaling", dropped, "", kModelFile, true},
    {"rope-theta", dropped, "", kModelFile, true},
    {"generation-config", dropped, "", "write its values under \"sampling\"; they are never applied silently"},
    {"override-generation-config", dropped, "", "write its values under \"sampling\""},
    {"revision", dropped, "", "nothing is downloaded; name a folder"},
    {"tokenizer-revision", dropped, "", "nothing is downloaded; name a folder"},
    {"code-revision", dropped, "", "code of a checkpoint is never run"},
    {"download-dir", dropped, "", "nothing is downloaded; name a folder"},
    {"hf-token", dropped, "", "nothing is downloaded; name a folder"},
    {"trust-remote-code", dropped_switch, "", "code of a checkpoint is never run"},
    {"quantization", dropped, "", kQuantised},
    {"enable-lora", dropped_switch, "", kLora},
    {"lora-modules", dropped, "", kLora},
    {"max-loras", dropped, "", kLora},
    {"max-lora-rank", dropped, "", kLora},
    // ranks
    {"tensor-parallel-size", value, "engine.parallel.tp", ""},
    {"pipeline-parallel-size", value, "engine.parallel.pp", ""},
    {"data-parallel-size", dropped, "", "no data parallelism here: load.concurrency is one engine's"},
    {"enable-expert-parallel", dropped_switch, "", "no mixture-of-experts models here"},
    {"distributed-executor-backend", dropped, "", kThreads},
    {"worker-use-ray", dropped_switch, "", kThreads, true},
    {"max-parallel-loading-workers", dropped, "", kThreads},
    {"disable-custom-all-reduce", dropped_switch, "", "small sums go through peer memory where GPUs can, else NCCL"},
    {"device", value, "engine.backend", "", true},
    // memory
    {"gpu-memory-utilization", value, "engine.kv_cache.memory_fraction",
     "there it is a share of the whole GPU with weights, here of what weights and workspace leave free"},
    {"block-size", value, "engine.kv_cache.block_size", ""},
    {"swap-space", value, "engine.kv_cache.swap_space_gib", ""},
    {"kv-cache-dtype", value, "engine.kv_cache.dtype", ""},
    {"enable-prefix-caching", enabled, "engine.kv_cache.prefix_caching", ""},
    {"cpu-offload-gb", dropped, "", "weights stay on their device"},
    {"num-gpu-blocks-override", dropped, "", "set engine.kv_cache.memory_fraction instead"},
    {"kv-cache-memory-bytes", dropped, "", "set engine.kv_cache.memory_fraction instead"},
    {"use-v2-block-manager", dropped_switch, "", "pages are the only kind of KV cache", true},
    {"preemption-mode", dropped, "", "recompute, or swap where engine.kv_cache.swap_space_gib is above 0", true},
    // scheduler
    {"max-model-len", value, "engine.scheduler.max_model_len", ""},
    {"max-num-seqs", value, "engine.scheduler.max_num_seqs", ""},
    {"max-num-batched-tokens", value, "engine.scheduler.max_num_batched_tokens", ""},
    {"async-scheduling", enabled, "engine.scheduler.run_ahead", ""},
    {"enable-chunked-prefill", dropped_switch, "", "a prompt longer than max_num_batched_tokens is always chunked"},
    {"max-num-partial-prefills", dropped, "", "the scheduler fills a step in order of arrival"},
    {"scheduling-policy", dropped, "", "requests are served in order of arrival"},
    {"num-scheduler-steps", dropped, "", "engine.scheduler.run_ahead is the nearest thing here", true},
    {"multi-step-stream-outputs", dropped, "", "engine.scheduler.run_ahead is the nearest thing here", true},
    {"enforce-eager", dropped_switch, "engine.cuda_graphs", ""},
    {"max-seq-len-to-capture", dropped, "", "passes of up to 64 rows are CUDA graphs", true},
    {"cuda-graph-sizes", dropped, "", "passes of up to 64 rows are CUDA graphs"},
    {"compilation-config", dropped, "", "nothing is compiled at run time"},
    {"seed", value, "sampling.seed", ""},
    {"max-logprobs", dropped, "", "no log probabilities here"},
    // speculation
    {"speculative-config", config, "", ""},
    {"speculative-model", speculation, "model", "", true},
    {"num-speculative-tokens", speculation, "num_speculative_tokens", "", true},
    {"speculative-draft-tensor-parallel-size", speculation, "draft_tensor_parallel_size", "", true},
    {"ngram-prompt-lookup-max", speculation, "prompt_lookup_max", "", true},
    {"ngram-prompt-lookup-min", speculation, "prompt_lookup_min", "", true},
    {"speculative-model-quantization", dropped, "", kQuantised, true},
    {"speculative-max-model-len", dropped, "", "the draft's own length bounds it", true},
    {"speculative-disable-by-batch-size", dropped, "", "sweep load.concurrency to see where speculation stops paying",
     true},
    {"speculative-disable-mqa-scorer", dropped_switch, "", "drafts are verified in one pass", true},
    {"spec-decoding-acceptance-method", dropped, "", kTypical, true},
    {"typical-acceptance-sampler-posterior-threshold", dropped, "", kTypical, true},
    {"typical-acceptance-sampler-posterior-alpha", dropped, "", kTypical, true},
    {"disable-logprobs-during-spec-decoding", dropped_switch, "", "no log probabilities here", true},
    // server and logs
    {"host", dropped, "", kServer},
    {"port", dropped, "", kServer},
    {"api-key", dropped, "", kServer},
    {"served-model-name", dropped, "", kServer},
    {"chat-template", dropped, "", "the checkpoint's own template is used: workload.chat_template"},
    {"response-role", dropped, "", kServer},
    {"uvicorn-log-level", dropped, "", kServer},
    {"allowed-origins", dropped, "", kServer},
    {"enable-auto-tool-choice", dropped_switch, "", kServer},
    {"tool-call-parser", dropped, "", kServer},
    {"reasoning-parser", dropped, "", kServer},
    {"disable-log-stats", dropped_switch, "", kLog},
    {"disable-log-requests", dropped_switch, "", kLog, true},
    {"enable-log-requests", dropped_switch, "", kLog},
    {"max-log-len", dropped, "", kLog},
};

}  // namespace

std::span<const VllmFlag> vllm_flags() { return kFlags; }

std::string hint_for_vllm_name(std::string_view name, std::string_view section) {
  std::string folded(name);
  std::replace(folded.begin(), folded.end(), '-', '_');
  const bool in_speculation = section == "speculation" || section.starts_with("speculation.");
  std::string_view key = in_speculation ? key_of_vllm_field(folded) : "";
  std::string_view reason = in_speculation ? reason_field_is_left_out(folded) : "";
  std::replace(folded.begin(), folded.end(), '_', '-');
  const auto flag = std::find_if(std::begin(kFlags), std::end(kFlags), [&](const auto& f) { return f.name == folded; });
  if (key.empty() && reason.empty() && flag != std::end(kFlags)) {
    if (flag->kind == config)
      key = "speculation";
    else if (flag->kind == model)
      key = "engine.target.path";
    else if (flag->kind == speculation)
      key = key_of_vllm_field(flag->target);
    else
      key = flag->target;
    reason = flag->note;
  }
  if (!key.empty()) return fmt::format(" (vLLM's name; here: \"{}\")", key);
  return reason.empty() ? "" : fmt::format(" (vLLM's name; not here: {})", reason);
}

}  // namespace paceline
