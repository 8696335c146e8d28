#pragma once
// Times of single steps as ratios to what the machine can do at best, and the gate over them: each is compared with a
// committed ratio of the same card and numerics. Ratios hold on every machine with such a card; times do not. Functions
// of their arguments alone, but for the two that read and write the file.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/error.h"

namespace paceline {

inline constexpr double kStepSlack = 0.03;  // of a committed ratio, either way

/// What the device reached in the same process.
struct StepCeilings {
  double read_bytes_s = 0;      // plain reads
  double multiply_flops_s = 0;  // of a large product; 0: not known
};

/// One kind of step, measured. REQUIRES: bytes or flops, and the ceilings for them.
struct StepTime {
  std::string name;    // "16 x 6": unique among the steps, and its key in the file
  double seconds = 0;  // median
  double bytes = 0;    // weights and KV that the step reads
  double flops = 0;
};

/// A step beside its floor, the longer of reading and multiplying.
struct StepRatio {
  std::string name;
  double seconds = 0;
  double floor_s = 0;
  bool reads = true;  // the floor is that of reading
  double ratio() const { return seconds / floor_s; }
};
StepRatio step_ratio(const StepTime& step, const StepCeilings& ceilings);

/// What ratios are committed for. Cards: "H100" and "H200" where the device's name has that word, else the whole name.
struct StepKey {
  std::string shape;  // of the model, and what its weights are: "llama-3.1-8b, random weights"
  std::string card;
  Numerics numerics = Numerics::strict;
  bool operator==(const StepKey&) const = default;
};
std::string card_of(const std::string& device_name);

struct CommittedRatio {
  std::string name;
  double ratio = 0;
};
struct CommittedSteps {
  StepKey key;
  std::vector<CommittedRatio> ratios;
};

/// All entries of a file, in its order: {"schema": "paceline.steps", "schema_version": 1, "shapes": {<shape>: {<card>:
/// {"strict" | "fast": {<name>: ratio}}}}}. Throws Error(usage) naming file and field, also where it cannot be read.
std::vector<CommittedSteps> read_committed_steps(const std::filesystem::path& file);
/// Puts these ratios, to three decimals, in place of the key's in the file, which need not be there; all other entries
/// stay. Throws as read_committed_steps(), and Error(store).
void commit_steps(const std::filesystem::path& file, const StepKey& key, const std::vector<StepRatio>& steps);

enum class StepVerdict : uint8_t {
  ok,
  slower,     // by more than kStepSlack
  faster,     // likewise
  not_known,  // nothing is committed for it
};
struct JudgedStep {
  StepRatio step;
  std::optional<double> committed;
  StepVerdict verdict = StepVerdict::not_known;
};
/// In the order of `steps`. committed: null: nothing is committed for their card.
std::vector<JudgedStep> judge_steps(const std::vector<StepRatio>& steps, const CommittedSteps* committed);

/// The entry of a key, or null.
const CommittedSteps* find_committed(const std::vector<CommittedSteps>& entries, const StepKey& key);

/// A line without its end: name, time, ratio, bound and, where something is committed, that and the verdict.
std::string step_line(const JudgedStep& step);
/// A line without its end: how many, which is farthest from its floor, and what the gate says.
std::string steps_summary(const std::vector<JudgedStep>& steps, const StepKey& key);
/// ok, or timing where a step is slower.
ExitCode steps_exit_code(const std::vector<JudgedStep>& steps);

}  // namespace paceline
