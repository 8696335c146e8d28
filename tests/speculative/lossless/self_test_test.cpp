// The self-test of the certificate: each planted fault is found, and nothing is found where there is none.

#include "speculative/selftest/self_test.h"

#include <gtest/gtest.h>

#include "tests/speculative/lossless/prompts.h"
#include "tests/support/long_samples.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

SelfTestOptions options(int clean_runs) {
  SelfTestOptions options{.target = builtin_model("target-7m"),
                          .draft = builtin_model("draft-600k"),
                          .head = builtin_model("eagle3-target-7m"),
                          .prompts = workload_prompts("reading_qa", 6)};
  for (const auto& prompt : workload_prompts("code_prompts", 4)) options.prompts.push_back(prompt);
  options.device = rig_device();
  options.clean_runs = clean_runs;
  return options;
}

TEST(SelfTest, FindsEachPlantedFaultAndNothingElse) {
  const SelfTestReport report = run_self_test(options(long_samples() ? 200 : 12));
  EXPECT_GE(report.rows.size(), 14u);
  for (const SelfTestReport::Row& row : report.rows) {
    for (const SabotageOutcome* outcome : {&row.greedy, &row.coupled}) {
      EXPECT_NE(int(outcome->status), int(SabotageOutcome::Status::alive)) << row.sabotage->name << outcome->detail;
      EXPECT_EQ(outcome->detail.find("should not be"), std::string::npos) << row.sabotage->name << outcome->detail;
    }
  }
  EXPECT_EQ(report.alarms, 0) << report.first_alarm;
  EXPECT_GT(report.drafts, 0);
  EXPECT_TRUE(report.passed()) << self_test_text(report);
}

TEST(SelfTest, SaysWhatWasNotFound) {
  SelfTestReport report;
  report.rows.push_back({.sabotage = &sabotages().front(),
                         .greedy = {SabotageOutcome::Status::alive, "3 strikes"},
                         .coupled = {SabotageOutcome::Status::killed, "1 mismatch"}});
  report.clean_runs = 2;
  EXPECT_FALSE(report.passed());
  const std::string text = self_test_text(report);
  EXPECT_NE(text.find("ALIVE under greedy: unverified-first: 3 strikes"), std::string::npos) << text;
  EXPECT_NE(text.find("1 of 2 planted faults found; 0 alarms in 2 runs without a fault"), std::string::npos) << text;
  report.rows.clear();
  EXPECT_TRUE(report.passed());
  report.alarms = 1;
  report.first_alarm = "run 7";
  EXPECT_FALSE(report.passed());
  EXPECT_NE(self_test_text(report).find("FALSE ALARM: run 7"), std::string::npos);
}

TEST(SelfTest, StopsWhereItIsTold) {
  SelfTestOptions stopped = options(50);
  stopped.stop_now = [] { return true; };
  const SelfTestReport report = run_self_test(stopped);
  EXPECT_TRUE(report.was_stopped);
  EXPECT_TRUE(report.rows.empty());
  EXPECT_FALSE(report.passed());
}

}  // namespace
}  // namespace paceline::test
