#pragma once
// The requests of the losslessness tests: prompts, samplers and stop conditions, all from a seed.

#include <memory>
#include <string>
#include <vector>

#include "speculative/oracle_proposer.h"
#include "speculative/selftest/checked_run.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline::test {

/// A target with its prompts and the rig that makes its reference answers.
class Workload {
 public:
  /// target-7m with draft-600k on reading_qa and code prompts, answers of at most max_tokens tokens.
  static Workload trained(int num_reading, int num_code, int max_tokens);
  /// A random-weight golden; its draft is the same checkpoint rounded to bf16.
  static Workload golden(const std::string& name, int num_prompts, int max_tokens);

  struct RequestOptions {
    VerifyRule rule = VerifyRule::greedy;
    uint64_t seed = 0;
    int num_distinct = 0;  // prompts used, from a place that the seed tells, over and over; 0: all
    int min_requests = 1;
    int64_t min_tokens = 0;  // answers in all
    int max_tokens = 0;      // of one answer; 0: the workload's
    bool groups = true;      // requests of every second prompt are a prompt group
  };
  /// Requests with their answers. Most run to max_tokens; some stop at eos, at a stop token of their own, or after
  /// one to four tokens.
  std::vector<CheckedRequest> requests(const RequestOptions& options);

  /// Sizes a rig for this workload.
  RigOptions rig_options(int tp, int pp) const;

  const std::string& name() const { return name_; }
  int64_t num_reference_tokens() const { return references_->num_decoded(); }

 private:
  std::string name_;
  std::shared_ptr<TempDir> head_dir_;  // of goldens, whose heads are random
  RigOptions rig_options_;
  int max_tokens_ = 0;
  std::vector<std::vector<int32_t>> prompts_;
  std::unique_ptr<EngineRig> reference_rig_;
  std::unique_ptr<ReferenceStore> references_;
};

/// The texts of the requests with their answers, numbered as run_checked() does.
std::shared_ptr<KnownTexts> texts_of(const std::vector<CheckedRequest>& requests);

}  // namespace paceline::test
