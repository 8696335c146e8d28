#include "tests/speculative/lossless/workload.h"

#include <algorithm>
#include <random>

#include "kernels/cpu/cores.h"
#include "tests/speculative/lossless/prompts.h"
#include "tests/support/eagle3_writer.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

RigOptions reference_options(const RigOptions& options) {
  RigOptions reference = options;
  reference.max_num_seqs = 1;
  reference.threads_per_rank = std::min(2, usable_cores());
  return reference;
}

}  // namespace

Workload Workload::trained(int num_reading, int num_code, int max_tokens) {
  Workload made;
  made.name_ = "target-7m";
  made.max_tokens_ = max_tokens;
  made.rig_options_.target = builtin_model("target-7m");
  made.rig_options_.draft = builtin_model("draft-600k");
  made.rig_options_.head = builtin_model("eagle3-target-7m");
  const auto reading = workload_prompts("reading_qa", num_reading);
  const auto code = workload_prompts("code_prompts", num_code);
  for (size_t i = 0; i < std::max(reading.size(), code.size()); ++i) {  // interleaved: any prefix holds both kinds
    if (i < reading.size()) made.prompts_.push_back(reading[i]);
    if (i < code.size()) made.prompts_.push_back(code[i]);
  }
  made.reference_rig_ = std::make_unique<EngineRig>(reference_options(made.rig_options_));
  made.references_ = std::make_unique<ReferenceStore>(*made.reference_rig_, max_tokens);
  return made;
}

Workload Workload::golden(const std::string& name, int num_prompts, int max_tokens) {
  Workload made;
  made.name_ = name;
  made.max_tokens_ = max_tokens;
  made.rig_options_.target = golden_model(name);
  made.rig_options_.draft = golden_model(name);
  made.rig_options_.draft_dtype = DType::bf16;
  made.head_dir_ = std::make_shared<TempDir>();
  made.rig_options_.head = made.head_dir_->path();
  random_head(load_model_spec(golden_model(name)), {.name = "random"}).write(made.head_dir_->path());
  made.reference_rig_ = std::make_unique<EngineRig>(reference_options(made.rig_options_));
  made.references_ = std::make_unique<ReferenceStore>(*made.reference_rig_, max_tokens);
  // Some prompts leave less than max_tokens of room: those answers end at max_model_len.
  const int max_len = made.reference_rig_->max_model_len() - max_tokens + 8;
  made.prompts_ = random_prompts(num_prompts, max_len, made.reference_rig_->spec().vocab_size, 20240229);
  return made;
}

RigOptions Workload::rig_options(int tp, int pp) const {
  RigOptions options = rig_options_;
  options.tp = tp;
  options.pp = pp;
  options.threads_per_rank = tp * pp == 1 ? std::min(2, usable_cores()) : 1;
  return options;
}

std::vector<CheckedRequest> Workload::requests(const RequestOptions& options) {
  std::mt19937_64 random(options.seed);
  const size_t num_distinct = options.num_distinct ? size_t(options.num_distinct) : prompts_.size();
  const size_t first = random() % prompts_.size();
  std::vector<CheckedRequest> made;
  int64_t tokens = 0;
  while (int(made.size()) < options.min_requests || tokens < options.min_tokens) {
    const size_t prompt = (first + made.size() % num_distinct) % prompts_.size();
    CheckedRequest request{.prompt = prompts_[prompt], .params = {}, .expected = {}};
    if (options.groups && prompt % 2 == 1)
      request.prompt_group = 1 + prompt;  // others come across their twins by chance
    request.params.sampler = sampler_for(options.rule, 1000 + prompt);
    request.params.max_tokens = options.max_tokens ? std::min(options.max_tokens, max_tokens_) : max_tokens_;
    request.params.ignore_eos = true;
    switch (random() % 16) {
      case 0: request.params.max_tokens = 1 + int(random() % 4); break;
      case 1:
      case 2:
      case 3: request.params.ignore_eos = false; break;
      case 4: {
        references_->answer(request);
        request.params.stop_token_ids = {request.expected[random() % request.expected.size()]};
        break;
      }
      default: break;
    }
    references_->answer(request);
    tokens += int64_t(request.expected.size());
    made.push_back(std::move(request));
  }
  return made;
}

std::shared_ptr<KnownTexts> texts_of(const std::vector<CheckedRequest>& requests) {
  auto texts = std::make_shared<KnownTexts>();
  for (size_t i = 0; i < requests.size(); ++i) {
    Sequence seq;
    seq.key = int64_t(i) + 1;
    seq.tokens = requests[i].prompt;
    seq.tokens.insert(seq.tokens.end(), requests[i].expected.begin(), requests[i].expected.end());
    texts->learn(seq);
  }
  return texts;
}

}  // namespace paceline::test
