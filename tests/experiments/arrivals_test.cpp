// Arrival times: the law of the gaps, that nothing but seed, repetition and index decides them, and traces.

#include "experiments/workload/arrivals.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

constexpr uint32_t kGaps = 100'000;

std::vector<double> gaps_of(const ArrivalProcess& process, uint32_t repetition = 0, uint32_t count = kGaps) {
  std::vector<double> gaps;
  for (uint32_t i = 0; i < count; ++i) gaps.push_back(arrival_gap_s(process, repetition, i));
  return gaps;
}

/// Mean and coefficient of variation of 1e5 gaps lie within five standard errors of what the law says. For
/// Gamma(a, 1/(a r)) the mean has the relative error 1/sqrt(a n); that of cv is at most sqrt((1 + 3/a) / (2 n))
/// (delta method, with the law's kurtosis 3 + 6/a and skewness 2/sqrt(a)).
TEST(Arrivals, GapsHaveTheRateAndTheVariationAskedFor) {
  for (const double shape : {0.25, 0.5, 1.0, 2.0, 9.0}) {
    for (const double rate : {0.5, 40.0}) {
      const std::vector<double> gaps = gaps_of({.rate_per_s = rate, .shape = shape, .seed = 11});
      double sum = 0, sum_squares = 0;
      for (const double gap : gaps) {
        ASSERT_TRUE(std::isfinite(gap) && gap >= 0);
        sum += gap;
        sum_squares += gap * gap;
      }
      const double mean = sum / kGaps, cv = std::sqrt(sum_squares / kGaps - mean * mean) / mean;
      const double error_of_mean = 1 / std::sqrt(shape * kGaps);
      const double error_of_cv = std::sqrt((1 + 3 / shape) / (2 * kGaps));
      EXPECT_NEAR(mean * rate, 1.0, 5 * error_of_mean) << "shape " << shape;
      EXPECT_NEAR(cv * std::sqrt(shape), 1.0, 5 * error_of_cv) << "shape " << shape;
    }
  }
}

/// Distribution function of the exponential law, at 1e5 draws: Kolmogorov's bound for alpha = 1e-6 is 2.69/sqrt(n).
TEST(Arrivals, PoissonGapsAreExponentialAndGammaOfShapeTwoIsErlang) {
  for (const double shape : {1.0, 2.0}) {
    std::vector<double> gaps = gaps_of({.rate_per_s = 1, .shape = shape, .seed = 3});
    std::sort(gaps.begin(), gaps.end());
    double largest = 0;
    for (size_t i = 0; i < gaps.size(); ++i) {
      const double x = gaps[i] * shape;
      const double expected = shape == 1 ? 1 - std::exp(-x) : 1 - std::exp(-x) * (1 + x);
      largest = std::max(largest, std::abs(expected - (double(i) + 0.5) / double(kGaps)));
    }
    EXPECT_LT(largest, 2.69 / std::sqrt(double(kGaps))) << "shape " << shape;
  }
}

TEST(Arrivals, DependOnSeedRepetitionAndIndexOnly) {
  const ArrivalProcess process{.rate_per_s = 8, .shape = 0.5, .seed = 7};
  EXPECT_EQ(gaps_of(process, 2, 100), gaps_of(process, 2, 100));
  EXPECT_NE(gaps_of(process, 2, 100), gaps_of(process, 3, 100));
  EXPECT_NE(gaps_of(process, 2, 100), gaps_of({.rate_per_s = 8, .shape = 0.5, .seed = 8}, 2, 100));
  const std::vector<double> slow = gaps_of({.rate_per_s = 4, .shape = 0.5, .seed = 7}, 2, 100);
  const std::vector<double> fast = gaps_of(process, 2, 100);
  for (size_t i = 0; i < slow.size(); ++i) EXPECT_DOUBLE_EQ(slow[i], 2 * fast[i]);

  const std::vector<Arrival> few = draw_arrivals(process, 10, 2), many = draw_arrivals(process, 50, 2);
  ASSERT_EQ(many.size(), 50u);
  EXPECT_EQ(many[0].t_s, 0);
  for (size_t i = 0; i < few.size(); ++i) EXPECT_EQ(few[i].t_s, many[i].t_s);
  EXPECT_DOUBLE_EQ(many[1].t_s, arrival_gap_s(process, 2, 0));
  EXPECT_TRUE(draw_arrivals(process, 0, 2).empty());
}

/// The same bits on every machine and with every compiler.
TEST(Arrivals, AreTheSameOnEveryMachine) {
  EXPECT_EQ(arrival_gap_s({.rate_per_s = 1, .shape = 1, .seed = 1}, 0, 0), 0x1.594ccc49e9029p+1);
  EXPECT_EQ(arrival_gap_s({.rate_per_s = 1, .shape = 0.5, .seed = 1}, 1, 5), 0x1.c72fc91f9a761p-4);
  EXPECT_EQ(arrival_gap_s({.rate_per_s = 3, .shape = 4, .seed = 9}, 2, 7), 0x1.79aebe11ec99fp-2);
}

class ArrivalTrace : public ::testing::Test {
 protected:
  std::vector<Arrival> read(const std::string& text) const {
    test::write_file(folder_ / "trace.jsonl", text);
    return read_arrival_trace(folder_ / "trace.jsonl");
  }
  test::TempDir folder_;
};

TEST_F(ArrivalTrace, ReadsSecondsAndMilliseconds) {
  const std::vector<Arrival> own = read(
      "\xEF\xBB\xBF{\"t_s\": 2.5}\r\n\r\n{\"t_s\": 2.5, \"output_tokens\": 7}\r\n{\"t_s\": 4, \"prompt_tokens\": 3}");
  ASSERT_EQ(own.size(), 3u);
  EXPECT_EQ(own[0].t_s, 0);
  EXPECT_EQ(own[1].max_tokens, 7);
  EXPECT_EQ(own[2].t_s, 1.5);
  EXPECT_FALSE(own[2].max_tokens);
  const std::vector<Arrival> mooncake = read(
      "{\"timestamp\": 100, \"input_length\": 30, \"output_length\": 9, \"hash_ids\": [3, 8]}\n"
      "{\"timestamp\": 3100, \"input_length\": 10, \"output_length\": 2, \"hash_ids\": []}\n");
  ASSERT_EQ(mooncake.size(), 2u);
  EXPECT_DOUBLE_EQ(mooncake[1].t_s, 3.0);
  EXPECT_EQ(mooncake[1].max_tokens, 2);
}

TEST_F(ArrivalTrace, ErrorsNameFileLineAndField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"t_s\": 1}\n{\"t_s\": 1e300}\n", "trace.jsonl:2: field \"t_s\" is 1e+300: expected a number of at least 0"},
      {"{\"t_s\": 1}\n{\"t\": 2}\n", "trace.jsonl:2: field \"t_s\" is missing: expected the time in seconds"},
      {"{\"t_s\": \"1\"}\n", "trace.jsonl:1: field \"t_s\" is of type string: expected a number"},
      {"{\"t_s\": -1}\n", "trace.jsonl:1: field \"t_s\" is -1: expected a number of at least 0"},
      {"{\"t_s\": 2}\n\n{\"t_s\": 1}\n", "trace.jsonl:3: the time 1 s is before the 2 s of line 1: sort"},
      {"{\"t_s\": 2, \"output_tokens\": 0}\n",
       "trace.jsonl:1: field \"output_tokens\" is 0: expected an integer from 1"},
      {"{\"timestamp\": 2, \"input_length\": \"a\"}\n", "trace.jsonl:1: field \"input_length\" is of type string"},
      {"{\"t_s\": 1\n", "trace.jsonl:1: column"},
      {"\n", "trace.jsonl: holds no arrival"}};
  for (const auto& [text, expected] : cases)
    test::expect_error(ExitCode::model_file, {expected}, [&, &content = text] { read(content); });
}

TEST_F(ArrivalTrace, PlanGivesEachLoadItsArrivals) {
  test::write_file(folder_ / "trace.jsonl", "{\"t_s\": 1}\n{\"t_s\": 2}\n{\"t_s\": 4}\n");
  LoadConfig load{.mode = LoadMode::trace, .trace = (folder_ / "trace.jsonl").string()};
  ArrivalPlan plan;
  plan.prepare(load, 2);
  ASSERT_EQ(plan.arrivals(load, 2, 0).size(), 2u);
  EXPECT_EQ(plan.arrivals(load, 2, 5)[1].t_s, 1) << "every repetition has the trace's times";
  EXPECT_EQ(load_text(load), "trace trace");
  test::expect_error(ExitCode::model_file, {"has 3 arrivals, but workload.requests is 4"},
                     [&] { plan.prepare(load, 4); });
  load = {.mode = LoadMode::gamma, .rate_per_s = 2, .burstiness = 0.5, .arrival_seed = 7};
  plan.prepare(load, 5);
  const std::vector<Arrival> drawn = draw_arrivals({.rate_per_s = 2, .shape = 0.5, .seed = 7}, 5, 3);
  const std::vector<Arrival> planned = plan.arrivals(load, 5, 3);
  ASSERT_EQ(planned.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(planned[i].t_s, drawn[i].t_s);
  EXPECT_EQ(load_text(load), "gamma 2/s burstiness 0.5");
  load.mode = LoadMode::poisson;
  EXPECT_EQ(plan.arrivals(load, 2, 0)[1].t_s, arrival_gap_s({.rate_per_s = 2, .shape = 1, .seed = 7}, 0, 0));
  load.mode = LoadMode::closed;
  EXPECT_TRUE(plan.arrivals(load, 5, 0).empty());
}

}  // namespace
}  // namespace paceline
