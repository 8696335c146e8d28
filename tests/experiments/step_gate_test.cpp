// Steps beside their floors, and the gate that compares them with committed ratios.

#include "experiments/analysis/step_gate.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

/// A step of 10 ms that takes `ratio` times its floor.
StepRatio step_of(const std::string& name, double ratio, bool reads = true) {
  return {.name = name, .seconds = 0.010, .floor_s = 0.010 / ratio, .reads = reads};
}

CommittedSteps committed(std::vector<CommittedRatio> ratios) {
  return {.key = {"llama-3.1-8b", "H200", Numerics::strict}, .ratios = std::move(ratios)};
}

std::vector<StepVerdict> verdicts(const std::vector<JudgedStep>& steps) {
  std::vector<StepVerdict> out;
  for (const JudgedStep& step : steps) out.push_back(step.verdict);
  return out;
}

TEST(StepGate, FloorIsTheLongerOfReadingAndMultiplying) {
  const StepCeilings ceilings{.read_bytes_s = 4e12, .multiply_flops_s = 800e12};
  const StepRatio one = step_ratio({.name = "1 row", .seconds = 0.005, .bytes = 16e9, .flops = 16e9}, ceilings);
  EXPECT_TRUE(one.reads);
  EXPECT_DOUBLE_EQ(one.floor_s, 0.004);
  EXPECT_DOUBLE_EQ(one.ratio(), 1.25);
  const StepRatio many =
      step_ratio({.name = "prefill 2048", .seconds = 0.060, .bytes = 16e9, .flops = 32e12}, ceilings);
  EXPECT_FALSE(many.reads);
  EXPECT_DOUBLE_EQ(many.floor_s, 0.040);
  EXPECT_DOUBLE_EQ(many.ratio(), 1.5);
  const StepRatio read_only =
      step_ratio({.name = "x", .seconds = 0.060, .bytes = 16e9, .flops = 32e12}, {.read_bytes_s = 4e12});
  EXPECT_DOUBLE_EQ(read_only.floor_s, 0.004) << "no rate of products is known";
}

TEST(StepGate, CardsAreWordsOfTheName) {
  EXPECT_EQ(card_of("NVIDIA H100 80GB HBM3"), "H100");
  EXPECT_EQ(card_of("NVIDIA H200"), "H200");
  EXPECT_EQ(card_of("NVIDIA GH200 480GB"), "NVIDIA GH200 480GB");
  EXPECT_EQ(card_of("cpu avx512 2 threads"), "cpu avx512 2 threads");
}

TEST(StepGate, ThreePerCentEitherWayPass) {
  const auto entry = committed({{"a", 1.2}, {"b", 1.2}, {"c", 1.2}, {"d", 1.2}, {"left out", 1.0}});
  const std::vector<StepRatio> steps = {step_of("d", 1.2 * 1.029), step_of("b", 1.2 * 1.031), step_of("c", 1.2 / 1.031),
                                        step_of("a", 1.2 / 1.029), step_of("new", 9)};
  const auto judged = judge_steps(steps, &entry);
  EXPECT_EQ(verdicts(judged), (std::vector{StepVerdict::ok, StepVerdict::slower, StepVerdict::faster, StepVerdict::ok,
                                           StepVerdict::not_known}));
  EXPECT_EQ(judged[0].step.name, "d") << "in the order of the steps";
  EXPECT_EQ(judged[0].committed, 1.2);
  EXPECT_EQ(judged[4].committed, std::nullopt);
  EXPECT_EQ(int(steps_exit_code(judged)), int(ExitCode::timing));
  EXPECT_EQ(int(steps_exit_code({judged[0], judged[2], judged[4]})), int(ExitCode::ok)) << "faster is no failure";
  EXPECT_EQ(verdicts(judge_steps({steps[1]}, nullptr)), std::vector{StepVerdict::not_known});
}

TEST(StepGate, LinesSayWhatHolds) {
  const auto entry = committed({{"1 row", 1.05}, {"16 x 6", 1.19}, {"prefill 512", 1.9}});
  const auto judged = judge_steps(
      {step_of("1 row", 1.06), step_of("16 x 6", 1.25), step_of("prefill 512", 1.8, false), step_of("64 x 1", 1.1)},
      &entry);
  EXPECT_EQ(step_line(judged[0]),
            "1 row                     10.000 ms   over reading      1.060   committed 1.050: ok");
  EXPECT_EQ(step_line(judged[1]),
            "16 x 6                    10.000 ms   over reading      1.250   committed 1.190: SLOWER");
  EXPECT_EQ(step_line(judged[2]),
            "prefill 512               10.000 ms   over multiplying  1.800   committed 1.900: faster");
  EXPECT_EQ(step_line(judged[3]), "64 x 1                    10.000 ms   over reading      1.100");
  const StepKey key{"llama-3.1-8b", "H200", Numerics::fast};
  EXPECT_EQ(steps_summary(judged, key),
            "steps of llama-3.1-8b on H200, fast: 4 cases, farthest from its floor 1.800 at prefill 512; 1 slower than "
            "committed: 16 x 6 (1.250, committed 1.190); 1 faster, to be committed: prefill 512 (1.800, committed "
            "1.900); 1 not committed");
  EXPECT_EQ(steps_summary({judged[0]}, key),
            "steps of llama-3.1-8b on H200, fast: 1 case, farthest from its floor 1.060 at 1 row; none slower than "
            "committed");
  EXPECT_EQ(
      steps_summary({judged[3]}, key),
      "steps of llama-3.1-8b on H200, fast: 1 case, farthest from its floor 1.100 at 64 x 1; nothing is committed "
      "for them");
  EXPECT_EQ(steps_summary({}, key), "steps of llama-3.1-8b on H200, fast: 0 cases");
}

TEST(StepGate, FileKeepsWhatOtherCardsReached) {
  const test::TempDir folder;
  const fs::path file = folder / "steps.json";
  const StepKey h200{"llama-3.1-8b", "H200", Numerics::strict};
  const StepKey h100{"llama-3.1-8b", "H100", Numerics::fast};
  commit_steps(file, h200, {step_of("9 rows", 1.23456), step_of("16 x 6", 1.1)});
  commit_steps(file, h100, {step_of("1 row", 1.05)});
  commit_steps(file, h200, {step_of("9 rows", 1.2), step_of("1 row", 1.0004)});
  EXPECT_EQ(test::read_file(file), R"({
  "schema": "paceline.steps",
  "schema_version": 1,
  "shapes": {
    "llama-3.1-8b": {
      "H200": {
        "strict": {
          "9 rows": 1.2,
          "1 row": 1.0
        }
      },
      "H100": {
        "fast": {
          "1 row": 1.05
        }
      }
    }
  }
}
)");
  const auto entries = read_committed_steps(file);
  ASSERT_EQ(entries.size(), 2u);
  const CommittedSteps* const found = find_committed(entries, h100);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found, &entries[1]);
  ASSERT_EQ(found->ratios.size(), 1u);
  EXPECT_EQ(found->ratios[0].name, "1 row");
  EXPECT_EQ(found->ratios[0].ratio, 1.05);
  EXPECT_EQ(find_committed(entries, {"llama-3.1-8b", "H100", Numerics::strict}), nullptr);
  EXPECT_EQ(find_committed(entries, {"llama-3.2-1b", "H100", Numerics::fast}), nullptr);
}

TEST(StepGate, FileThatIsNoneIsNamed) {
  const test::TempDir folder;
  const fs::path file = folder / "steps.json";
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& pieces) {
    std::ofstream(file) << text;
    test::expect_error(ExitCode::usage, pieces, [&] { read_committed_steps(file); });
    test::expect_error(ExitCode::usage, pieces, [&] { commit_steps(file, {"s", "c"}, {step_of("1 row", 1)}); });
    EXPECT_EQ(test::read_file(file), text) << "it stays as it was";
  };
  const auto of_shapes = [](const std::string& shapes) {
    return R"({"schema": "paceline.steps", "schema_version": 1, "shapes": )" + shapes + "}";
  };
  refuses("[]", {"steps.json: the document is [], expected an object"});
  refuses("{", {"steps.json:1:1: invalid JSON"});
  refuses("{}", {"schema is null, expected \"paceline.steps\""});
  refuses(R"({"schema": "paceline.steps", "schema_version": 2})", {"schema_version is 2, expected 1"});
  refuses(R"({"schema": "paceline.steps", "schema_version": 1})", {"shapes is null, expected an object"});
  refuses(of_shapes("[1]"), {"shapes is [1], expected an object"});
  refuses(of_shapes(R"({"8b": 1})"), {"8b is 1, expected an object"});
  refuses(of_shapes(R"({"8b": {"H100": []}})"), {"8b, H100 is [], expected an object"});
  refuses(of_shapes(R"({"8b": {"H100": {"quick": {}}}})"), {"8b, H100: a key is \"quick\", expected strict or fast"});
  refuses(of_shapes(R"({"8b": {"H100": {"fast": 1}}})"), {"8b, H100, fast is 1, expected an object"});
  refuses(of_shapes(R"({"8b": {"H100": {"fast": {"1 row": 0}}}})"),
          {"8b, H100, fast, 1 row is 0, expected a ratio above 0"});
  refuses(of_shapes(R"({"8b": {"H100": {"fast": {"1 row": "1"}}}})"), {"1 row is \"1\", expected a ratio above 0"});
  fs::remove(file);
  test::expect_error(ExitCode::usage, {"steps.json", "No such file"}, [&] { read_committed_steps(file); });
}

TEST(StepGate, CommittedFileIsRead) {
  for (const CommittedSteps& entry : read_committed_steps(source_dir() / "results/baselines/steps.json"))
    EXPECT_FALSE(entry.ratios.empty()) << entry.key.shape << ", " << entry.key.card;
}

}  // namespace
}  // namespace paceline
