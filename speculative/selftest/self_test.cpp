#include "speculative/selftest/self_test.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "kernels/cpu/cores.h"
#include "speculative/selftest/checked_run.h"
#include "speculative/selftest/fresh_drafts.h"

namespace paceline {
namespace {

using Status = SabotageOutcome::Status;

constexpr int kRequests = 12, kMostSeqs = 8;
constexpr uint64_t kMostTries = 12;
constexpr double kTightPool = 0.6;  // of the pages that the sequences of a step fill at their ends
constexpr int kSamples = 24;        // proposals of a sabotaged run that are made again
constexpr int kCleanSamples = 4;    // of a clean one

/// What a run of an engine shows.
struct Seen {
  RunReport text;
  int64_t num_compared = 0, num_different = 0;  // proposals

  bool is_clean() const { return text.clean() && num_different == 0; }
};

class SelfTest {
 public:
  explicit SelfTest(const SelfTestOptions& options)
      : options_(options), fresh_(rig_options()), reference_(rig_options()), answers_(reference_, options.max_tokens) {
    PACELINE_CHECK(options.prompts.size() >= 4, "{} prompts", options.prompts.size());
    for (size_t i = 0; i < options.prompts.size(); ++i) by_length_.push_back(i);
    std::stable_sort(by_length_.begin(), by_length_.end(),
                     [&](size_t a, size_t b) { return options.prompts[a].size() < options.prompts[b].size(); });
  }

  RigOptions rig_options() const {
    return {.target = options_.target,
            .draft = options_.draft,
            .head = options_.head,
            .device = options_.device,
            .threads_per_rank = std::min(2, usable_cores()),
            .max_num_seqs = kMostSeqs,
            .max_num_rows = 512,
            .max_draft_len = 8,
            .num_blocks = 256,
            .num_host_blocks = 128};
  }

  /// plant: null without a fault.
  Seen run(EngineRig& rig, SelfTestSetting setting, const std::vector<CheckedRequest>& requests, int num_samples,
           const Plant* plant, EngineSetup& setup);

  std::vector<CheckedRequest> requests(SelfTestSetting setting, VerifyRule rule, uint64_t seed);

  EngineSetup setup(SelfTestSetting setting, VerifyRule rule, const std::vector<CheckedRequest>& requests,
                    const EngineRig& rig) const {
    return setup_of(setting, rule, blocks_for(requests, kMostSeqs, rig.options().block_size, kTightPool), rig);
  }

  SabotageOutcome strike(const Sabotage& sabotage, VerifyRule rule);

 private:
  const SelfTestOptions& options_;
  std::vector<size_t> by_length_;  // of the prompts, the shortest first
  EngineRig fresh_, reference_;
  ReferenceStore answers_;
};

std::vector<CheckedRequest> SelfTest::requests(SelfTestSetting setting, VerifyRule rule, uint64_t seed) {
  std::vector<CheckedRequest> made;
  // Where pages are to run out, much of a text is output: of short prompts.
  const bool is_short = setting == SelfTestSetting::head_tree_swapping;
  const size_t num_distinct = setting == SelfTestSetting::shared_prefixes ? 3 : is_short ? 4 : options_.prompts.size();
  for (size_t i = 0; i < size_t(kRequests); ++i) {
    const size_t prompt = (is_short ? 0 : size_t(seed)) + (size_t(seed) + i) % num_distinct;
    const size_t index = by_length_[prompt % by_length_.size()];
    CheckedRequest request{.prompt = options_.prompts[index], .params = {}, .expected = {}};
    request.params.sampler = sampler_for(rule, 1000 + index + (is_short ? 100 * (i % 3 + size_t(seed)) : 0));
    request.params.max_tokens = options_.max_tokens;
    request.params.ignore_eos = true;
    answers_.answer(request);
    made.push_back(std::move(request));
  }
  return made;
}

Seen SelfTest::run(EngineRig& rig, SelfTestSetting setting, const std::vector<CheckedRequest>& requests,
                   int num_samples, const Plant* plant, EngineSetup& setup) {
  Seen seen;
  std::vector<MadeDrafts> made;
  ComparesWithFreshCache::Findings findings;
  std::unique_ptr<Model> fresh_model;
  if (setup.proposer == RigProposer::draft) {
    fresh_model = rig.new_draft_model(setup.proposer, DraftPlacement::deciding_rank);
    const int every = std::max(1, int(requests.size()) * options_.max_tokens / 3 / num_samples);
    setup.wrap_proposer = [&, every](std::unique_ptr<Proposer> inner) {
      return std::make_unique<ComparesWithFreshCache>(std::move(inner), *fresh_model, rig.draft_options(setup),
                                                      findings, every);
    };
  } else if (setup.proposer == RigProposer::eagle3) {
    setup.wrap_proposer = [&](std::unique_ptr<Proposer> inner) {
      return std::make_unique<RecordsDrafts>(std::move(inner), made);
    };
  }
  try {
    const auto engine = rig.make_engine(setup);
    seen.text = run_checked(*engine, requests);
  } catch (const Error& error) {
    seen.text.error = error.what();
  }
  seen.num_compared = findings.num_compared;
  seen.num_different = findings.num_different;
  if (!made.empty() && (plant == nullptr || seen.text.clean())) {
    const HeadFindings heads =
        compare_with_fresh_head(fresh_, made, setup.num_speculative_tokens, head_options_of(setting), num_samples);
    seen.num_compared += heads.num_compared;
    seen.num_different += heads.num_different;
  }
  return seen;
}

SabotageOutcome SelfTest::strike(const Sabotage& sabotage, VerifyRule rule) {
  if (rule == VerifyRule::greedy && !sabotage.void_if_greedy.empty())
    return {Status::void_here, std::string(sabotage.void_if_greedy)};
  int64_t strikes = 0, proposals = 0;
  for (uint64_t seed = 0; seed < kMostTries; ++seed) {  // a fault that is rare may not strike at first
    EngineRig rig(rig_options());                       // a broken engine takes its rig with it
    const std::vector<CheckedRequest> asked = requests(sabotage.setting, rule, seed);
    EngineSetup with = setup(sabotage.setting, rule, asked, rig);
    Plant plant{.rig = rig, .setup = with, .parts = {}};
    sabotage.plant(plant);
    const Seen seen = run(rig, sabotage.setting, asked, kSamples, &plant, with);
    strikes += plant.num_strikes;
    proposals += seen.num_compared;
    if (plant.num_strikes == 0) continue;
    if (sabotage.seen_by == SeenBy::text && !seen.text.clean()) {
      if (!seen.text.error.empty()) return {Status::killed, "the engine stops: " + seen.text.error};
      return {Status::killed, seen.text.first_mismatch};
    }
    if (sabotage.seen_by == SeenBy::drafts) {
      if (!seen.text.clean()) return {Status::killed, "in the text, though it should not be: " + seen.text.describe()};
      if (seen.num_different > 0)
        return {Status::killed, fmt::format("{} of {} proposals differ", seen.num_different, seen.num_compared)};
    }
  }
  return {Status::alive, fmt::format("{}; {} made again", counted(strikes, "strike"), counted(proposals, "proposal"))};
}

const char* word(const SabotageOutcome& outcome) {
  switch (outcome.status) {
    case Status::killed: return "killed";
    case Status::alive: return "ALIVE";
    case Status::void_here: return "n/a";
  }
  return "";
}

}  // namespace

int SelfTestReport::count(Status status) const {
  int count = 0;
  for (const Row& row : rows) count += int(row.greedy.status == status) + int(row.coupled.status == status);
  return count;
}

SelfTestReport run_self_test(const SelfTestOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto tell = [&](const std::string& line) {
    if (options.progress) options.progress(line);
  };
  SelfTestReport report;
  const auto stops = [&] {
    return report.was_stopped = report.was_stopped || (options.stop_now && options.stop_now());
  };
  SelfTest test(options);
  for (const Sabotage& sabotage : sabotages()) {
    if (stops()) break;
    tell(fmt::format("planting {}", sabotage.name));
    report.rows.push_back({.sabotage = &sabotage,
                           .greedy = test.strike(sabotage, VerifyRule::greedy),
                           .coupled = test.strike(sabotage, VerifyRule::coupled)});
  }
  EngineRig rig(test.rig_options());
  for (int i = 0; i < options.clean_runs && !stops(); ++i) {
    if (i % 20 == 0) tell(fmt::format("run {} of {} without a fault", i + 1, options.clean_runs));
    const auto setting = SelfTestSetting(i % kNumSelfTestSettings);
    const VerifyRule rule = i / kNumSelfTestSettings % 2 == 0 ? VerifyRule::greedy : VerifyRule::coupled;
    const uint64_t seed = uint64_t(i / (2 * kNumSelfTestSettings));
    const std::vector<CheckedRequest> asked = test.requests(setting, rule, seed);
    EngineSetup with = test.setup(setting, rule, asked, rig);
    const Seen seen = test.run(rig, setting, asked, kCleanSamples, nullptr, with);
    ++report.clean_runs;
    report.tokens += seen.text.tokens;
    report.drafts += seen.num_compared;
    if (seen.is_clean()) continue;
    if (report.alarms++ == 0)
      report.first_alarm = fmt::format("run {}: {}; {} of {} proposals differ", i, seen.text.describe(),
                                       seen.num_different, seen.num_compared);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

std::string self_test_text(const SelfTestReport& report) {
  std::string out =
      fmt::format("  {:<22} {:<8} {:<8} {:<8} {}\n", "planted fault", "seen in", "greedy", "coupled", "what it does");
  for (const SelfTestReport::Row& row : report.rows)
    out += fmt::format("  {:<22} {:<8} {:<8} {:<8} {}\n", row.sabotage->name,
                       row.sabotage->seen_by == SeenBy::text ? "text" : "drafts", word(row.greedy), word(row.coupled),
                       row.sabotage->fault);
  for (const SelfTestReport::Row& row : report.rows) {
    for (const auto& [rule, outcome] : {std::pair("greedy", &row.greedy), std::pair("coupled", &row.coupled)}) {
      if (outcome->status == Status::alive)
        out += fmt::format("  ALIVE under {}: {}: {}\n", rule, row.sabotage->name, outcome->detail);
      if (outcome->status == Status::void_here)
        out += fmt::format("  n/a under {}: {}: {}\n", rule, row.sabotage->name, outcome->detail);
    }
  }
  if (!report.first_alarm.empty()) out += fmt::format("  FALSE ALARM: {}\n", report.first_alarm);
  out += fmt::format(
      "\n  {} of {} planted faults found; {} in {} without a fault ({} tokens compared, {} proposals "
      "made again); {:.0f} s{}\n",
      report.num_killed(), report.num_killed() + report.num_alive(), counted(report.alarms, "alarm"),
      counted(report.clean_runs, "run"), report.tokens, report.drafts, report.seconds,
      report.was_stopped ? "; interrupted" : "");
  return out;
}

}  // namespace paceline
